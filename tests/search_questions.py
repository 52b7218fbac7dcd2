"""What people type, and the section that they must find first, or one of those.

(A list that the search was tuned with: it guards, it does not measure.)
"""

QUESTIONS: dict[str, str | tuple[str, ...]] = {
    "why divide by sqrt d": "03_self_attention.html#the-scale-why-divide-by-d",
    "sqrt(d_k)": "03_self_attention.html#the-scale-why-divide-by-d",
    "why scale the scores": "03_self_attention.html#the-scale-why-divide-by-d",
    "approximate dictionary": "03_self_attention.html#query-key-and-value-a-soft-dictionary",
    "cross attention": "03_self_attention.html#cross-attention",
    "scaled dot product attention": "03_self_attention.html#scaled-dot-product-attention",
    "nn.Parameter or nn.Linear": "03_self_attention.html#parameter-or-linear",
    "kv cache mask": "10_kv_cache.html",
    "fewer queries than keys": "04_masks.html#causal-masks-with-fewer-queries-than-keys",
    "wrong corner is_causal": (
        "04_masks.html#causal-masks-with-fewer-queries-than-keys",
        "10_kv_cache.html#the-mask-of-a-chunk",
        "checks/gallery.html#the-wrong-corner",
    ),
    "look ahead": "04_masks.html#the-causal-mask",
    "padding": ("04_masks.html#the-padding-mask", "lookup/glossary.html#padding"),
    "does the future leak": "04_masks.html#testing-a-mask-for-leaks",
    "fully masked row": ("04_masks.html#a-fully-masked-row", "02_softmax.html#masked-softmax"),
    "mask before or after softmax": "04_masks.html#mask-before-or-after-the-softmax",
    "mask conversions": "04_masks.html#conversions",
    "softmax dim": "02_softmax.html#the-wrong-dim",
    "temperature": "02_softmax.html#temperature",
    "logsumexp": ("02_softmax.html#log-sum-exp", "02_softmax.html#attention_nb.softmax.logsumexp"),
    "masked softmax": "02_softmax.html#masked-softmax",
    "softmax gradient": "02_softmax.html#the-gradient-of-softmax",
    "softmax overflow nan": (
        "02_softmax.html#repair-subtract-the-maximum",
        "02_softmax.html#overflow",
    ),
    "one-hot": "00_embeddings.html#one-hot-vectors",
    "embedding lookup as matrix product": "00_embeddings.html#a-lookup-is-a-one-hot-matmul",
    "bank river": ("01_naive_attention.html#attention-by-hand", "01_naive_attention.html"),
    "oracle": "01_naive_attention.html#the-oracle",
    "split heads view transpose": "05_multi_head_attention.html#splitting-into-heads",
    "why several heads": "05_multi_head_attention.html#why-several-heads",
    "repeat_interleave or repeat": (
        "11_grouped_heads.html#neighbouring-heads-share",
        "checks/gallery.html#tiled-for-repeated",
    ),
    "MultiHeadAttention": (
        "05_multi_head_attention.html#attention_nb.multi_head_attention.MultiHeadAttention"
    ),
    "longer texts than in training": (
        "16_longer_texts.html",
        "16_longer_texts.html#slow-pairs-beyond-the-trained-length",
    ),
    "t5 buckets": "06_positions.html#relative-positions-of-t5",
    "sliding window": "14_local_attention.html#the-sliding-window",
    "packed documents": "14_local_attention.html#packed-documents",
    "rows of different lengths": "10_kv_cache.html#sequences-of-different-lengths",
    "how many bytes": "10_kv_cache.html#how-many-bytes-a-cache-takes",
    "PagedCache": "10_kv_cache.html#attention_nb.kv_cache.PagedCache",
    "flash attention": "13_flash_attention.html",
    "lightning indexer": "21_sparse_attention.html#a-learned-indexer",
    "top-k attention": "21_sparse_attention.html#top-k-attention",
    "continuous batching": (
        "22_serving.html#static-batches-and-continuous-batching",
        "lookup/glossary.html#continuous-batching",
    ),
    "chunked prefill": "22_serving.html#chunked-prefill",
    "prefix caching": ("22_serving.html#prefix-caching", "lookup/glossary.html#prefix-caching"),
    "preempt a sequence": (
        "22_serving.html#when-the-blocks-run-out",
        "lookup/glossary.html#preemption",
    ),
    "patch embedding": "23_images.html#patch-embedding-a-convolution-with-large-steps",
    "shifted window": (
        "23_images.html#windows",
        "23_images.html#why-a-shifted-window-needs-a-mask",
    ),
    "2d rope": "23_images.html#rotary-embeddings-with-two-axes",
    "cls token or mean pooling": "23_images.html#class-token-and-no-mask",
    "gated deltanet": (
        "24_hybrid_models.html#gated-deltanet-the-layer-around-it",
        "lookup/glossary.html#gated-deltanet",
    ),
    "short convolution": (
        "24_hybrid_models.html#the-short-convolution",
        "lookup/glossary.html#short-convolution",
    ),
    "associative recall": "24_hybrid_models.html#what-it-recalls-three-small-models-trained",
    "roofline": ("lookup/glossary.html#roofline", "17_cost.html#the-roofline-by-hand"),
    "why is decoding slow": "17_cost.html#prefill-and-decode",
    "why is writing slower than reading": "17_cost.html#prefill-and-decode",
    "arithmetic intensity": "lookup/glossary.html#arithmetic-intensity",
    "one program for each query": "20_gpu_kernels.html#one-program-for-each-query",
    "causal skipping time": (
        "20_gpu_kernels.html#causal-skipping-and-load-balance",
        "13_flash_attention.html#skipped-tiles",
    ),
    "check my own attention": "checks/index.html",
    "online softmax": (
        "lookup/glossary.html#online-softmax",
        "13_flash_attention.html#online-softmax",
        "13_flash_attention.html#attention_nb.flash_attention.online_softmax",
    ),
    "merge partials": (
        "13_flash_attention.html#merging-partial-results",
        "13_flash_attention.html#attention_nb.flash_attention.merge_partials",
    ),
    "flash attention backward worked example": "13_flash_attention.html#the-backward-pass-by-hand",
    "triton pointer arithmetic offsets": "20_gpu_kernels.html#addresses",
    "latent attention": ("12_latent_attention.html", "lookup/glossary.html#latent-attention"),
    "attention sink": (
        "11_grouped_heads.html#sinks",
        "14_local_attention.html#attention-sinks-in-a-window",
    ),
    "convert to grouped heads": (
        "11_grouped_heads.html#converting-a-trained-layer",
        "11_grouped_heads.html",
    ),
    "what is a query": (
        "lookup/glossary.html#query",
        "01_naive_attention.html#attention-by-hand",
        "03_self_attention.html#query-key-and-value-a-soft-dictionary",
    ),
    "what are keys": (
        "lookup/glossary.html#key",
        "03_self_attention.html#query-key-and-value-a-soft-dictionary",
        "01_naive_attention.html#attention-by-hand",
    ),
    "what is a kernel": ("lookup/glossary.html#kernel", "20_gpu_kernels.html"),
    "what does log sum exp mean": (
        "02_softmax.html#log-sum-exp",
        "lookup/glossary.html#log-sum-exp",
    ),
    "is attention permutation invariant": (
        "06_positions.html#a-bag-of-words",
        "01_naive_attention.html#what-always-holds",
        "05_multi_head_attention.html#order-is-still-missing",
    ),
    "encoder decoder attention": (
        "03_self_attention.html#cross-attention",
        "checks/index.html#cross-attention",
        "lookup/glossary.html#cross-attention",
        "checks/index.html",
        "07_transformer.html#encoders-and-decoders",
    ),
    "softmax saturation vanishing gradient": (
        "02_softmax.html#saturation-vanishing-gradients",
        "03_self_attention.html#the-scale-why-divide-by-d",
    ),
    "How does the model know the order of the words?": (
        "06_positions.html",
        "06_positions.html#a-bag-of-words",
        "06_positions.html#sinusoidal-positions",
        "06_positions.html#rotary-position-embeddings",
        "lookup/glossary.html#position",
    ),
    "sinusoidal positional encoding": "06_positions.html#sinusoidal-positions",
    "attn_mask true means": (
        "04_masks.html#to-pytorch-and-back",
        "checks/gallery.html#the-mask-upside-down",
        "04_masks.html#conversions",
    ),
    "rope base 500000": "16_longer_texts.html#a-larger-base",
    "pip install": ("index.html#use-it", "index.html#run-it"),
    "test my own attention in pytest": "checks/index.html#in-a-test-file",
    "view vs transpose split heads": (
        "05_multi_head_attention.html#splitting-into-heads",
        "checks/gallery.html#view-for-permute",
    ),
    "paged attention vllm": "10_kv_cache.html#paged-caches",
    "sliding window attention mistral": (
        "14_local_attention.html#the-sliding-window",
        "14_local_attention.html",
    ),
    "beam search reorder cache": "10_kv_cache.html#speculative-decoding-and-beam-search",
    "speculative decoding": (
        "10_kv_cache.html#speculative-decoding-and-beam-search",
        "10_kv_cache.html#exercises",
    ),
    "masked_fill -1e9": (
        "02_softmax.html#a-large-negative-number-or-minus-infinity",
        "04_masks.html#fully-masked-rows-elsewhere",
        "02_softmax.html#masked-softmax",
        "checks/gallery.html#a-silent-mean",
        "checks/gallery.html#too-large-for-float16",
    ),
    "rotate_half vs interleaved": "06_positions.html#pairing-conventions",
    "logit softcapping gemma 2": "11_grouped_heads.html#soft-cap",
    "qk norm": "11_grouped_heads.html#qk-norm",
    "packed sequences cu_seqlens": ("14_local_attention.html#packed-documents",),
    "triton atomic add race condition dk dv": "20_gpu_kernels.html#the-backward-pass-two-kernels",
    "hidden_size n_embd naming": "lookup/notation.html#elsewhere",
    "MQA": ("11_grouped_heads.html", "lookup/glossary.html#multi-query-attention"),
    "MLA": ("12_latent_attention.html", "lookup/glossary.html#latent-attention"),
    "YaRN": ("16_longer_texts.html#yarn", "lookup/glossary.html#yarn"),
    "SWA": (
        "14_local_attention.html#the-sliding-window",
        "14_local_attention.html",
        "lookup/glossary.html#window",
    ),
    "sofmax": ("02_softmax.html", "lookup/glossary.html#softmax"),
    "multihead atention": (
        "05_multi_head_attention.html",
        "lookup/glossary.html#multi-head-attention",
    ),
    "positonal encodng": (
        "lookup/glossary.html#positional-encoding",
        "06_positions.html",
        "06_positions.html#sinusoidal-positions",
        "lookup/glossary.html#position",
    ),
    "flahs attention": "13_flash_attention.html",
    "embeding": ("00_embeddings.html", "lookup/glossary.html#embedding"),
    "performer kernel trick": "15_linear_attention.html#the-feature-map-makes-weights-positive",
    "linear attention": ("15_linear_attention.html", "lookup/glossary.html#linear-attention"),
    "grouped query attention": (
        "lookup/glossary.html#grouped-query-attention",
        "11_grouped_heads.html",
    ),
    "block sparse attention": (
        "14_local_attention.html#block-masks",
        "14_local_attention.html#flexattention",
        "21_sparse_attention.html",
        "21_sparse_attention.html#choosing-blocks-of-keys",
    ),
    "prompt processing prefill": (
        "lookup/glossary.html#prefill",
        "10_kv_cache.html#prefill-and-decode",
        "17_cost.html#prefill-and-decode",
    ),
    "licence": "index.html#contribute",
    "rope explained": (
        "06_positions.html#rotary-position-embeddings",
        "06_positions.html#in-symbols",
        "06_positions.html",
        "lookup/glossary.html#rotary-embedding",
    ),
    "how to test attention": (
        "checks/index.html",
        "checks/index.html#in-a-test-file",
        "checks/index.html#a-function",
    ),
    "causal mask wrong": (
        "04_masks.html#causal-masks-with-fewer-queries-than-keys",
        "checks/gallery.html#the-wrong-corner",
        "04_masks.html#testing-a-mask-for-leaks",
        "checks/gallery.html#leaks",
        "checks/gallery.html#causal-in-training-only",
        "04_masks.html#the-causal-mask",
    ),
    "why query key value": (
        "03_self_attention.html#query-key-and-value-a-soft-dictionary",
        "03_self_attention.html",
        "03_self_attention.html#three-projections-by-hand",
    ),
    "number of parameters": "07_transformer.html#where-the-parameters-are",
    "sdpa": (
        "03_self_attention.html#scaled-dot-product-attention",
        "lookup/glossary.html#scaled-dot-product-attention",
    ),
    "leaking": ("04_masks.html#testing-a-mask-for-leaks", "checks/gallery.html#leaks"),
    "memory": ("17_cost.html", "05_multi_head_attention.html#what-heads-cost"),
    "mqa memory": ("11_grouped_heads.html#what-it-saves-in-a-kv-cache", "11_grouped_heads.html"),
    "cuda out of memory": (
        "13_flash_attention.html#memory-linear-not-quadratic",
        "13_flash_attention.html",
        "17_cost.html",
    ),
    "pre norm": ("07_transformer.html#pre-norm-or-post-norm", "lookup/glossary.html#pre-norm"),
    "softmax explained": (
        "02_softmax.html",
        "02_softmax.html#softmax-by-its-definition",
        "02_softmax.html#in-symbols",
        "lookup/glossary.html#softmax",
    ),
    "kv cache explained simply": (
        "10_kv_cache.html",
        "10_kv_cache.html#decoding-token-by-token",
        "lookup/glossary.html#cache",
    ),
    "flash attention tutorial": "13_flash_attention.html",
    "how to test a layer": (
        "checks/index.html#a-layer",
        "checks/index.html",
        "checks/index.html#in-a-test-file",
    ),
    "padding mask wrong": (
        "04_masks.html#the-padding-mask",
        "checks/gallery.html#the-mask-on-its-side",
    ),
    "why layer norm": ("07_transformer.html#layer-norm", "lookup/glossary.html#layer-norm"),
    "residual connections explained": (
        "07_transformer.html#residual-connections",
        "lookup/glossary.html#residual-connection",
    ),
    "gqa memory": ("11_grouped_heads.html#what-it-saves-in-a-kv-cache", "11_grouped_heads.html"),
    "number of heads": (
        "05_multi_head_attention.html#why-several-heads",
        "05_multi_head_attention.html",
        "05_multi_head_attention.html#redundant-heads",
        "05_multi_head_attention.html#what-heads-cost",
    ),
    "parameter count of a transformer": "07_transformer.html#where-the-parameters-are",
    "information leaking from the future": (
        "04_masks.html#testing-a-mask-for-leaks",
        "04_masks.html#the-causal-mask",
        "checks/gallery.html#leaks",
    ),
    "query key value intuition": (
        "03_self_attention.html#query-key-and-value-a-soft-dictionary",
        "03_self_attention.html",
    ),
    "out of memory long sequence": (
        "13_flash_attention.html#memory-linear-not-quadratic",
        "13_flash_attention.html",
    ),
    "rmsnorm": ("07_transformer.html#layer-norm", "lookup/glossary.html#layer-norm"),
    "feed forward network": (
        "07_transformer.html#the-feed-forward-layer",
        "lookup/glossary.html#feed-forward-layer",
    ),
    "alibi explained": "06_positions.html#alibi",
    "post norm vs pre norm": "07_transformer.html#pre-norm-or-post-norm",
    "how to debug attention": (
        "checks/index.html",
        "checks/gallery.html",
        "checks/index.html#in-a-test-file",
    ),
    "tied embeddings": (
        "07_transformer.html#from-token-ids-to-logits",
        "lookup/glossary.html#tied-embeddings",
    ),
    "why multiple heads": (
        "05_multi_head_attention.html#why-several-heads",
        "05_multi_head_attention.html",
    ),
    "masking future tokens": (
        "04_masks.html#the-causal-mask",
        "lookup/glossary.html#causal-mask",
        "04_masks.html",
        "checks/gallery.html#leaks",
    ),
    "dropout in attention": (
        "03_self_attention.html#scaled-dot-product-attention",
        "lookup/glossary.html#dropout",
        "checks/gallery.html#dropout-that-stays-on",
    ),
    "cross attention explained": (
        "03_self_attention.html#cross-attention",
        "lookup/glossary.html#cross-attention",
    ),
    "attention is slow": (
        "17_cost.html",
        "lookup/speed.html",
        "17_cost.html#prefill-and-decode",
        "17_cost.html#how-the-cost-grows-with-the-number-of-tokens",
    ),
    "gqa vs mqa": (
        "11_grouped_heads.html",
        "lookup/glossary.html#grouped-query-attention",
        "lookup/glossary.html#multi-query-attention",
        "11_grouped_heads.html#what-it-saves-in-a-kv-cache",
    ),
    "llama rope wrong": "06_positions.html#pairing-conventions",
    "sampling temperature": (
        "02_softmax.html#temperature",
        "07_transformer.html#temperature-and-top-k",
    ),
    "batching sequences of different lengths": (
        "10_kv_cache.html#sequences-of-different-lengths",
        "04_masks.html#the-padding-mask",
    ),
    "visualize attention weights": (
        "05_multi_head_attention.html#what-heads-learn",
        "03_self_attention.html#one-query-step-by-step",
        "01_naive_attention.html#weights",
    ),
    "softmax derivative": "02_softmax.html#the-gradient-of-softmax",
    "sliding windows": (
        "14_local_attention.html#the-sliding-window",
        "lookup/glossary.html#window",
        "14_local_attention.html",
    ),
    "masked self attention": (
        "04_masks.html",
        "04_masks.html#the-causal-mask",
        "lookup/glossary.html#causal-mask",
    ),
    "pruning heads": "05_multi_head_attention.html#redundant-heads",
    "implementing flash attention in triton": (
        "20_gpu_kernels.html",
        "20_gpu_kernels.html#launching-the-kernels",
        "20_gpu_kernels.html#one-program-for-each-block-of-queries",
    ),
    "encoding positions with sine": "06_positions.html#sinusoidal-positions",
    "attention complexity": (
        "01_naive_attention.html#what-it-costs",
        "17_cost.html",
        "17_cost.html#how-the-cost-grows-with-the-number-of-tokens",
    ),
    "tokenization": "00_embeddings.html#tokens",
    "gelu activation": "07_transformer.html#the-feed-forward-layer",
    "testing rope": "checks/index.html#positions",
    "exporting to onnx": "13_flash_attention.html#compile-export-vmap",
    "gradients vanish": "02_softmax.html#saturation-vanishing-gradients",
    "beam search": ("08_translation.html#beam-search", "lookup/glossary.html#beam-search"),
    "teacher forcing": (
        "08_translation.html#teacher-forcing-by-hand",
        "lookup/glossary.html#teacher-forcing",
    ),
    "warmup cosine schedule": "08_translation.html#training-line-by-line",
    "induction heads": ("09_induction.html", "lookup/glossary.html#induction-head"),
    "attention is not explanation": "09_induction.html#attention-weights-are-no-proof",
    "path patching": (
        "09_induction.html#path-patching-composition-through-keys",
        "lookup/glossary.html#path-patching",
    ),
    "context extension": (
        "16_longer_texts.html",
        "lookup/glossary.html#rotary-scaling",
        "lookup/glossary.html#context-length",
    ),
    "overfitting": "lookup/glossary.html#overfitting",
}

# Asked by people who did not know how the site puts it; written after the search.
# Each must be among the first three.
STRANGERS: dict[str, tuple[str, ...]] = {
    "bpe tokenizer": ("00_embeddings.html#tokens", "lookup/references.html#sennrich-et-al-2016"),
    "nn.Embedding parameter count": ("00_embeddings.html#learned-embeddings",),
    "embedding lookup vs matmul": ("00_embeddings.html#a-lookup-is-a-one-hot-matmul",),
    "stable softmax": ("02_softmax.html#repair-subtract-the-maximum", "02_softmax.html#overflow"),
    "softmax jacobian": ("02_softmax.html#the-gradient-of-softmax",),
    "logsumexp trick": ("02_softmax.html#log-sum-exp", "lookup/glossary.html#log-sum-exp"),
    "sofmax temprature": ("02_softmax.html#temperature", "lookup/glossary.html#temperature"),
    "keepdim": ("02_softmax.html#the-wrong-dim",),
    "1/sqrt(d_k)": ("03_self_attention.html#the-scale-why-divide-by-d",),
    "encoder decoder attention": (
        "03_self_attention.html#cross-attention",
        "lookup/glossary.html#cross-attention",
        "07_transformer.html#encoders-and-decoders",
    ),
    "nn.Parameter vs nn.Linear": (
        "03_self_attention.html#parameter-or-linear",
        "03_self_attention.html#a-layer",
    ),
    "tril mask": ("04_masks.html#the-causal-mask", "lookup/glossary.html#causal-mask"),
    "key_padding_mask": ("04_masks.html#conversions", "04_masks.html#to-pytorch-and-back"),
    "is_causal": (
        "04_masks.html#causal-masks-with-fewer-queries-than-keys",
        "10_kv_cache.html#the-mask-of-a-chunk",
        "checks/gallery.html#the-wrong-corner",
    ),
    "reshape heads transpose": (
        "05_multi_head_attention.html#splitting-into-heads",
        "checks/gallery.html#view-for-permute",
    ),
    "head pruning": (
        "05_multi_head_attention.html#redundant-heads",
        "lookup/references.html#michel-et-al-2019",
    ),
    "rotery embedding": (
        "06_positions.html#rotary-position-embeddings",
        "06_positions.html#in-symbols",
        "lookup/glossary.html#rotary-embedding",
    ),
    "ntk rope scaling": (
        "16_longer_texts.html#ntk-aware-scaling",
        "16_longer_texts.html#dynamic-ntk",
    ),
    "alibi slopes": ("06_positions.html#alibi", "lookup/references.html#press-et-al-2022"),
    "repeat_kv": ("11_grouped_heads.html#neighbouring-heads-share",),
    "MLA deepseek": ("12_latent_attention.html", "lookup/glossary.html#latent-attention"),
    "logit softcapping gemma": ("11_grouped_heads.html#soft-cap",),
    "qk-norm": ("11_grouped_heads.html#qk-norm", "lookup/references.html#henry-et-al-2020"),
    "flash attention backward recompute": (
        "13_flash_attention.html#the-backward-pass",
        "20_gpu_kernels.html#the-backward-pass-two-kernels",
    ),
    "vllm paged attention": (
        "10_kv_cache.html#paged-caches",
        "lookup/references.html#kwon-et-al-2023",
    ),
    "speculative decoding": (
        "10_kv_cache.html#speculative-decoding-and-beam-search",
        "10_kv_cache.html#exercises",
    ),
    "sequence packing": ("14_local_attention.html#packed-documents",),
    "create_block_mask": ("14_local_attention.html#flexattention",),
    "atention sinks": (
        "14_local_attention.html#attention-sinks-in-a-window",
        "11_grouped_heads.html#sinks",
        "10_kv_cache.html#rolling-caches",
    ),
    "triton autotune": ("20_gpu_kernels.html#launching-the-kernels",),
    "tl.dot input_precision": (
        "20_gpu_kernels.html#one-program-for-each-block-of-queries",
        "lookup/glossary.html#tf32",
    ),
    "how does the word bank get a different vector depending on the sentence": (
        "01_naive_attention.html#attention-by-hand",
        "01_naive_attention.html",
    ),
    "why exponentials, why not just divide the scores by their total": (
        "01_naive_attention.html#weights",
    ),
    "my softmax gives nan when the inputs are around 100": (
        "02_softmax.html#overflow",
        "02_softmax.html#repair-subtract-the-maximum",
    ),
    (
        "RuntimeError: The size of tensor a (8) must match the size of tensor b (64) "
        "at non-singleton dimension 0 q @ k.transpose"
    ): (
        "03_self_attention.html#scores-for-any-batch",
        "02_softmax.html#the-wrong-dim",
    ),
    "vanishing gradients when softmax saturates": (
        "02_softmax.html#saturation-vanishing-gradients",
        "03_self_attention.html#the-scale-why-divide-by-d",
    ),
    "should I normalise over keys or over queries, axis -1 or -2": (
        "02_softmax.html#the-wrong-dim",
        "checks/gallery.html#softmax-over-queries",
    ),
    "illustrated calculation of q, k and v with small numbers": (
        "03_self_attention.html#three-projections-by-hand",
        "03_self_attention.html#one-query-step-by-step",
    ),
    "explain query key value as a soft hash table": (
        "03_self_attention.html#query-key-and-value-a-soft-dictionary",
    ),
    "model.parameters() is empty, my attention weights never train": (
        "03_self_attention.html#a-layer",
    ),
    "why does the same word twice in a sentence get identical output": (
        "03_self_attention.html#equal-tokens-get-equal-outputs",
        "06_positions.html#a-bag-of-words",
    ),
    "is it ok to multiply the attention probabilities by the mask afterwards": (
        "04_masks.html#mask-before-or-after-the-softmax",
        "02_softmax.html#masked-softmax",
    ),
    "all keys masked for one sample gives nan, what should the output be": (
        "02_softmax.html#a-large-negative-number-or-minus-infinity",
        "04_masks.html#a-fully-masked-row",
        "04_masks.html#fully-masked-rows-elsewhere",
        "02_softmax.html#masked-softmax",
    ),
    "in attn_mask does True mean ignore or keep": (
        "04_masks.html#to-pytorch-and-back",
        "checks/gallery.html#the-mask-upside-down",
        "lookup/notation.html#the-mask-contract",
    ),
    "padding tokens still influence the output, how to exlude them": (
        "04_masks.html#the-padding-mask",
        "checks/gallery.html#the-mask-on-its-side",
    ),
    "interview: why use 8 heads instead of one big head": (
        "05_multi_head_attention.html#why-several-heads",
        "05_multi_head_attention.html",
    ),
    "does increasing the number of heads add parameters or compute": (
        "05_multi_head_attention.html#what-heads-cost",
        "17_cost.html#what-each-size-changes",
    ),
    "load nn.MultiheadAttention checkpoint into my own implementation": (
        "05_multi_head_attention.html#equal-to-pytorch-s-layer",
        "05_multi_head_attention.html#the-layer",
    ),
    "is positional information really needed with a causal decoder": (
        "06_positions.html#a-bag-of-words",
        "lookup/references.html#haviv-et-al-2022",
    ),
    "llama weights give garbage, rotate_half vs interleaved": (
        "06_positions.html#pairing-conventions",
    ),
    "turn a multi-head checkpoint into GQA by averaging kv heads": (
        "11_grouped_heads.html#converting-a-trained-layer",
        "lookup/references.html#ainslie-et-al-2023",
    ),
    "what happens to memory when sequence length doubles with flash attention": (
        "13_flash_attention.html#memory-linear-not-quadratic",
        "13_flash_attention.html",
    ),
    "combine attention outputs computed on different chunks of keys (split-k, ring attention)": (
        "13_flash_attention.html#merging-partial-results",
    ),
    "can bidirectional models like BERT use a kv cache": (
        "10_kv_cache.html#why-old-keys-and-values-never-change",
    ),
    "how many GB of VRAM does the kv cache of Llama 3 8B need": (
        "10_kv_cache.html#how-many-bytes-a-cache-takes",
        "11_grouped_heads.html#what-it-saves-in-a-kv-cache",
    ),
    "can a model with a 4096 token window still use information from earlier than that": (
        "14_local_attention.html#how-far-information-travels-over-layers",
    ),
    "does passing a banded mask to scaled_dot_product_attention make it faster": (
        "14_local_attention.html#computing-only-the-window",
        "lookup/speed.html#a-window",
        "04_masks.html#what-a-mask-costs",
    ),
    "phi(q) phi(k)^T v associativity, recurrent form": (
        "15_linear_attention.html#why-the-brackets-can-move",
        "15_linear_attention.html#token-by-token",
        "15_linear_attention.html#the-state-is-a-running-sum",
    ),
    "why is token generation memory bound while prompt processing is compute bound": (
        "17_cost.html#prefill-and-decode",
        "17_cost.html",
    ),
    "causal kernel is not twice as fast as full attention, load imbalance": (
        "20_gpu_kernels.html#causal-skipping-and-load-balance",
    ),
    "how are dK and dV accumulated without atomic adds": (
        "20_gpu_kernels.html#the-backward-pass-two-kernels",
    ),
    "d_model vs d_head": ("lookup/notation.html#sizes",),
    "n_embd hidden_size embed_dim": ("lookup/notation.html#elsewhere",),
    "prefill meaning": (
        "lookup/glossary.html#prefill",
        "10_kv_cache.html#prefill-and-decode",
        "17_cost.html#prefill-and-decode",
    ),
    "MQA": (
        "lookup/glossary.html#multi-query-attention",
        "11_grouped_heads.html",
        "11_grouped_heads.html#what-it-saves-in-a-kv-cache",
    ),
    "roformer paper": ("lookup/references.html#su-et-al-2021",),
    "bahdanau": ("lookup/references.html#bahdanau-et-al-2014", "01_naive_attention.html#contexts"),
    "attention is all you need": ("lookup/references.html#vaswani-et-al-2017",),
    "longformer": (
        "lookup/references.html#beltagy-et-al-2020",
        "14_local_attention.html#the-sliding-window",
    ),
    "bibtex": ("lookup/references.html",),
    "exit code": ("checks/index.html#in-a-terminal", "checks/index.html#in-a-terminal"),
    "pytest marker": ("checks/index.html#in-a-test-file",),
    "pyproject.toml": (
        "checks/index.html#in-a-terminal",
        "checks/index.html#in-a-terminal",
        "checks/index.html",
    ),
    "cu_seqlens": ("14_local_attention.html#packed-documents",),
    "arithmatic intensity": (
        "lookup/glossary.html#arithmetic-intensity",
        "17_cost.html",
        "17_cost.html#prefill-and-decode",
    ),
    "verify rope implementation": (
        "checks/index.html#positions",
        "checks/index.html",
        "checks/index.html",
    ),
    "check_attention calls my unscaled scores a bug but it is on purpose": (
        "checks/index.html#what-counts-as-wrong",
        "checks/index.html",
        "checks/index.html",
    ),
    "run the check on a class in my own .py file from the shell": (
        "checks/index.html#in-a-terminal",
    ),
    "verify that my flash attention never allocates an n by n tensor": (
        "checks/index.html#attention-in-tiles",
        "checks/index.html",
        "checks/index.html",
        "13_flash_attention.html",
    ),
    "bugs found in huggingface transformers and other published libraries": (
        "checks/third_party.html#faults",
        "checks/gallery.html#in-released-packages",
        "checks/third_party.html",
    ),
    "dropout still random after model.eval() with F.scaled_dot_product_attention": (
        "checks/gallery.html#dropout-that-stays-on",
    ),
    "nan_to_num fixes the output but gradients are still nan": (
        "checks/gallery.html#nan-replaced-too-late",
    ),
    "RuntimeError: value cannot be converted to type at::Half without overflow": (
        "checks/gallery.html#too-large-for-float16",
        "checks/index.html#a-function",
    ),
    "which paper looked at what the heads of BERT attend to": (
        "lookup/references.html#clark-et-al-2019",
        "05_multi_head_attention.html#what-heads-learn",
    ),
    "how much slower is it to return the attention weights": (
        "lookup/speed.html#a-layer-with-the-weights",
        "05_multi_head_attention.html#without-storing-the-weights",
    ),
    "tokens per second with a cache compared to the transformers library": (
        "lookup/speed.html#decoding-token-by-token",
    ),
    "what shapes do q, k, v and the scores have": (
        "lookup/notation.html#tensors",
        "lookup/notation.html#the-legend-run",
        "05_multi_head_attention.html#the-layer",
    ),
    "decoder module that attends to encoder states of another width, can it be checked": (
        "checks/index.html#cross-attention",
        "checks/index.html",
    ),
    "will the check complain because my block adds a residual connection": (
        "checks/index.html#a-layer-or-more-than-a-layer",
    ),
}
