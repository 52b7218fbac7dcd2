// What people type, and the words of the book for it.
const SYNONYMS = {
  // numbers
  "√d": "root", sqrt: "root √d", squareroot: "root √d", scaling: "scale divide root", scaled: "scale", dividing: "divide",
  nan: "overflow repair maximum", inf: "overflow infinite", overflow: "repair maximum",
  "1e9": "minus infinity negative number", masked_fill: "minus infinity negative number", fp16: "float16", half: "float16", bf16: "bfloat16",
  lse: "log-sum-exp", logsumexp: "log-sum-exp", online: "pieces running largest", logits: "scores",
  saturates: "saturation", vanish: "vanishing",
  derivative: "gradient", derivatives: "gradient", backprop: "gradient", autograd: "gradient backward", loss: "learns gradient",
  atomic: "owners lock", race: "owners lock",

  // masks
  corner: "last query last key is_causal lower upper", is_causal: "causal corner", causal: "future",
  leak: "look ahead test matters", leaks: "look ahead test matters", future: "ahead", lookahead: "future causal",
  autoregressive: "causal future", tril: "causal triangle", triu: "causal triangle", empty: "nothing left", fully: "nothing left",
  padding: "padding", pad: "padding", swa: "sliding window",

  // shapes and names
  transpose: "mT transposed", reshape: "view split heads", permute: "transpose", dim: "dimension", axis: "dimension",
  hidden_size: "d_model elsewhere", n_embd: "d_model elsewhere", embed_dim: "d_model elsewhere", convert: "conversions pytorch",
  token: "word", tokens: "words", sequence: "text", sequences: "texts", onehot: "one-hot", oov: "unknown", params: "parameters",

  // layers
  mha: "multi-head", multihead: "multi-head", several: "one head badly", qkv: "queries keys values", context: "mixture",
  cross: "cross-attention memory", encoder: "cross-attention memory", decoder: "cross-attention memory",
  permutation: "order bag", invariant: "order bag", equivariant: "order bag", positional: "position place",
  rotate_half: "pairing conventions halves neighbours", interleaved: "pairing conventions halves neighbours", mla: "latent", softcap: "soft cap",
  softcapping: "soft cap", gqa: "grouped heads", mqa: "multi-query", rope: "rotary rotate", alibi: "alibi bias distance", ffn: "feed-forward", mlp: "feed-forward",
  rmsnorm: "rms_norm layer norm", layernorm: "layer norm", oom: "out memory", gelu: "feed-forward", silu: "feed-forward", swiglu: "feed-forward",

  // writing a text
  kv: "cache keys", kvcache: "cache", decoding: "cache", generation: "writes word", inference: "writes word",
  paged: "pages", pagedattention: "pages", vllm: "pages", beam: "going back", rollback: "going back",
  slow: "slower reading writing waits", cost: "costs", flops: "costs", complexity: "costs", memory: "memory costs",

  // checks
  test: "check", tests: "checks", verify: "check", pytest: "test file", unittest: "test file", terminal: "command", cli: "command terminal",
};

// Words that say the same in a question.
const SAME = [
  ["wrong", "bug", "mistake", "incorrect", "incorrectly", "broken", "error", "problem", "fault"], ["number", "many", "count", "amount"],
  ["test", "check", "verify", "validate", "debug"], ["fully", "completely", "entirely", "all"], ["several", "multiple"], ["memory", "vram", "ram"], ["double", "twice"],
];
