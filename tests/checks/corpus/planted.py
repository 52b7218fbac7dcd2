"""Classic bugs, each the smallest edit of something correct, and the code that a check should name it by."""
from functools import partial
from types import SimpleNamespace

from tests.checks.corpus import correct
from tests.checks.corpus.entries import Registry, planted_in

REGISTRY = Registry()


def bug(base: str, name: str, edits, expect: str, inside: str = "", **changes) -> None:
    "Plant `name` in the correct entry `base`: (what was written, what stands there now), or several such pairs."
    REGISTRY.add(planted_in(correct.REGISTRY.entries[base], f"{base}: {name}", edits, expect, inside, **changes))


def misuse(base: str, name: str, expect: str, **changes) -> None:
    "A correct implementation that is called, set up or believed wrongly: other arguments, the same source."
    bug(base, name, (), expect, **changes)


def with_args(base: str, **args) -> dict:
    "The arguments of `base`'s check, with some changed."
    return {**correct.REGISTRY.entries[base].args, **args}


# Functions of q, k and v: scale ---------------------------------------------------------------------------------

T = "textbook"
SQRT_D = " / math.sqrt(q.shape[-1])"
bug(T, "no scale", (SQRT_D, ""), "scale.missing")
bug(T, "divides by d, not √d", (SQRT_D, " / q.shape[-1]"), "scale.by_width")
bug(T, "multiplies by √d", (SQRT_D, " * math.sqrt(q.shape[-1])"), "scale.multiplied")
bug(T, "scales twice", (SQRT_D, " / math.sqrt(q.shape[-1]) / math.sqrt(q.shape[-1])"), "scale.by_width")
bug(T, "divides by √n", (SQRT_D, " / math.sqrt(k.shape[-2])"), "scale.keys_root")
bug(T, "the root of the values' width", (SQRT_D, " / math.sqrt(v.shape[-1])"), "scale.value_width")
bug(T, "the root of all heads' width", (SQRT_D, " / math.sqrt(q.shape[-1] * q.shape[1])"), "scale.d_model_root")
bug(T, "a scale made for width 64", (SQRT_D, " / 8"), "scale.constant")
bug("causal textbook", "a scale made for width 100", (" / math.sqrt(q.shape[-1])", " * 0.1"), "scale.constant")
bug("sum with a tiny epsilon", "the exponentials are scaled, and their sum as well", [(SQRT_D, ""), (".exp()", ".exp() / math.sqrt(q.shape[-1])")], "scale.missing")
bug("sum with a tiny epsilon", "the exponentials are scaled", [(SQRT_D, ""), ("return e / (", "return (e / math.sqrt(q.shape[-1])) / (")], "softmax.scaled")
bug("sum with a tiny epsilon", "the sum of exponentials is scaled", [(SQRT_D, ""), ("e.sum(-1, keepdim=True)", "e.sum(-1, keepdim=True) / math.sqrt(q.shape[-1])")], "softmax.scaled_sum")
bug("loops", "no scale", (" / width ** 0.5", ""), "scale.missing")
bug("scale shared between q and k", "the root on both sides", ("-0.25", "-0.5"), "scale.by_width")
bug("online softmax in tiles", "no scale", (" * q.shape[-1] ** -0.5", ""), "scale.missing")
misuse("unscaled on purpose", "believed to be scaled", "scale.missing", args={})
bug("package: scaled_dot_product_attention", "1 / d", ("(q.shape[-1] ** -0.5 if", "(q.shape[-1] ** -1 if"), "scale.by_width")
bug("package: fused_attention", "scale left at 1", ("is_causal=causal, scale=scale,", "is_causal=causal, scale=1.0,"), "scale.missing")
bug("causal textbook", "no scale", (SQRT_D, ""), "scale.missing")

# devices: "meta" stands for a GPU, which not every machine has
bug("causal textbook", "a mask on another device", ("device=q.device", "device='meta'"), "code.devices")
bug("MultiHead, causal", "a mask on another device", ("device=x.device", "device='meta'"), "code.devices")

# what stands in softmax's place, and over what it sums
LAST = "torch.softmax(scores, dim=-1)"
bug(T, "softmax over the queries", (LAST, "torch.softmax(scores, dim=-2)"), "softmax.over_queries")
bug(T, "softmax over the heads", (LAST, "torch.softmax(scores, dim=1)"), "softmax.over_heads")
bug(T, "softmax over the batch", (LAST, "torch.softmax(scores, dim=0)"), "softmax.over_batch")
bug(T, "softmax without a dim", (LAST, "F.softmax(scores)"), "softmax.over_heads")
bug(T, "softmax over queries and keys together", (LAST, "torch.softmax(scores.flatten(-2), dim=-1).view_as(scores)"),
    "softmax.over_rows_and_columns")
bug(T, "softmax twice", (LAST, "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)"), "softmax.twice")
bug(T, "no softmax", (LAST, "scores"), "softmax.missing")
bug(T, "sigmoid in its place", (LAST, "torch.sigmoid(scores)"), "softmax.sigmoid")
bug(T, "ReLU in its place", (LAST, "torch.relu(scores)"), "softmax.relu")
bug(T, "log-softmax", (LAST, "torch.log_softmax(scores, dim=-1)"), "softmax.log")
bug(T, "divided by the sum without the exponential", (LAST, "scores / scores.sum(-1, keepdim=True)"), "softmax.no_exp")
bug(T, "exponentials that overflow", (LAST, "scores.exp() / scores.exp().sum(-1, keepdim=True)"), "softmax.overflows")
bug(T, "the largest of all is subtracted", (LAST, "(scores - scores.max()).exp() / (scores - scores.max()).exp().sum(-1, keepdim=True)"),
    "softmax.underflows", also="mask.empty_gradient")
bug(T, "the sum is broadcast along the queries", (LAST, "(e := (scores - scores.amax(-1, keepdim=True)).exp()) / e.sum(-2, keepdim=True)"),
    "weights.columns", also="mask.empty_gradient+softmax.underflows")
bug(T, "one too many in the denominator", (LAST, "(e := (scores - scores.amax(-1, keepdim=True)).exp()) / (1 + e.sum(-1, keepdim=True))"),
    "softmax.epsilon")
bug("online softmax in tiles", "old sums are not rescaled", ("acc = acc * fix + p", "acc = acc + p"), "blocks.context")
bug("online softmax in tiles", "the last tile is forgotten", ("range(0, k.shape[-2], tile)", "range(0, k.shape[-2] - tile + 1, tile)"),
    "mask.drops_last_key")
TILES = "online softmax in tiles"
RUNNING = [("acc = acc * fix + p", "acc = acc + p"), ("total = total * fix + p", "total = total + p")]
bug(TILES, "nothing is rescaled", RUNNING, "blocks.context_and_sum")
bug("online softmax in tiles", "each tile by itself", [("torch.maximum(top, s.amax(-1, keepdim=True))", "s.amax(-1, keepdim=True)"), *RUNNING],
    "blocks.own_maximum")
NO_RUNNING = ("torch.maximum(top, s.amax(-1, keepdim=True))", "s.amax(-1, keepdim=True)")
bug(TILES, "no running maximum", NO_RUNNING, "blocks.no_running_maximum")
bug(TILES, "no running maximum, in long tiles", [("tile=3", "tile=16"), NO_RUNNING], "blocks.no_running_maximum")
bug(TILES, "the first one's maximum, in long tiles", [("tile=3", "tile=64"),
    (NO_RUNNING[0], "s.amax(-1, keepdim=True) if start == 0 else top")], "blocks.first_maximum")
bug(TILES, "nothing is rescaled, in long tiles", [("tile=3", "tile=16"), *RUNNING], "blocks.context_and_sum")
bug(TILES, "nothing is rescaled, in tiles of 256", [("tile=3", "tile=256"), *RUNNING], "blocks.context_and_sum")
bug(TILES, "no running maximum, in tiles of 256", [("tile=3", "tile=256"), NO_RUNNING], "blocks.no_running_maximum")
bug(TILES, "old sums are not rescaled, in long tiles", [("tile=3", "tile=64"), RUNNING[0]], "blocks.context")
bug(TILES, "the last long tile is forgotten", [("tile=3", "tile=32"), ("range(0, k.shape[-2], tile)",
    "range(0, max(tile, k.shape[-2] - tile + 1), tile)")], "blocks.cut_tail")
TM, SB = "tiles with a mask", "scores and a bias"
bug(TM, "the mask's first columns for every tile", ("allowed[..., start:stop]", "allowed[..., :stop - start]"), "blocks.mask")
bug(TM, "the mask's last columns for every tile", ("allowed[..., start:stop]", "allowed[..., start - stop:]"), "blocks.mask")
bug(TM, "-inf minus -inf in a tile that is all forbidden", ("torch.finfo(q.dtype).min", "-math.inf"), "blocks.mask", also="mask.empty_nan")
bug(SB, "the bias is scaled, too", [(" * query.shape[-1] ** -0.5", ""), ("dead = scores", "scores = scores * query.shape[-1] ** -0.5\n    dead = scores")],
    "bias.scaled")
bug(SB, "the bias is subtracted", ("scores + attention_mask", "scores - attention_mask"), "bias.subtracted")
bug(SB, "only minus infinity counts", ("scores + attention_mask", "scores.masked_fill(attention_mask.isinf(), -math.inf)"), "bias.ignored")
bug("two halves", "their mean", ("torch.stack([total for total, _ in parts]).softmax(0)", "1 / len(parts)"), "blocks.mean")
bug("some queries at a time", "each time from the first key on", ("triu(start + 1)", "triu(1)"), "blocks.causal_anew")
bug("causal and mask", "the mask takes the causal one's place", ("else allowed & attn_mask", "else attn_mask"), "mask.replaces_causal")
misuse("unscaled on purpose", "believed to be scaled by 0.3", "scale.missing", args={"scale": 0.3})
bug("square causal", "the future is open from the 64th word on", ("diagonal=1).bool()", "diagonal=1).bool()\n    future[64:] = False"),
    "mask.length")
bug("sum with a tiny epsilon", "a small one", ("1e-6", "1e-3"), "softmax.epsilon")
bug(T, "keepdim forgotten", (LAST, "scores.exp() / scores.exp().sum(-1)"), "softmax.keepdim")
bug(T, "only the three largest scores", ("    if mask is not None:\n        scores", "    scores = scores.masked_fill(scores < scores.topk(min(3, scores.shape[-1])).values[..., -1:], -math.inf)\n    if mask is not None:\n        scores"),
    "softmax.top_k")
bug(T, "the whole tensor's largest is subtracted", (LAST, "(e := (scores - scores.max()).exp()) / e.sum(-1, keepdim=True)"),
    "softmax.underflows", also="mask.empty_gradient")
bug(T, "a constant scale", (SQRT_D, " * 0.25"), "scale.rounded_root")
bug(T, "widened, and not cast back", (LAST, "torch.softmax(scores.float(), dim=-1)"), "dtype.widens", args=with_args(T, dtype="any"))
bug("bmm over flat heads", "heads and sentences exchanged in the merge",
    ("q.reshape(b * h, n_q, d), k.reshape(b * h, n_k, d), v.reshape(b * h, n_k, -1)", "(t.transpose(0, 1).flatten(0, 1) for t in (q, k, v))"),
    "heads.and_batch")
misuse("a mask of keys", "its mask is said to hide", "mask.meaning", args={"mask": "blocked"})
misuse("causal, and refuses a mask", "a mask is promised", "code.raises", args={"mask": "allowed", "causal": True})

# which tensor is where
bug(T, "q and k exchanged", ("q @ k.transpose(-2, -1)", "k @ q.transpose(-2, -1)"), "route.queries_keys")
bug(T, "each query mixes its own value", ("weights @ v, weights", "torch.einsum('bhqk,bhqd->bhqd', weights, v), weights"), "mix.own_value")
bug(T, "the scores are transposed", ("weights @ v, weights", "weights.mT @ v, weights"), "softmax.transposed")
bug(T, "keys in the values' place", ("weights @ v, weights", "weights @ k, weights"), "shape.keys_wide")
bug(T, "queries against queries", ("q @ k.transpose", "q @ q.transpose"), "route.queries_as_keys")
bug(T, "queries of length 1", ("q @ k.transpose(-2, -1)", "F.normalize(q, dim=-1) @ k.transpose(-2, -1)"), "norm.queries_length")
bug(T, "cosines, unscaled", ("q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])", "F.cosine_similarity(q.unsqueeze(-2), k.unsqueeze(-3), dim=-1)"), "scale.missing+norm.queries_and_keys_length")
bug(T, "weights times keys, no v", ("return weights @ v, weights", "return weights @ k"), "shape.keys_wide")
bug(T, "the product with v is missing", ("return weights @ v, weights", "return weights"), "shape.weights")
bug(T, "axes swapped at the end", ("return weights @ v, weights", "return (weights @ v).transpose(1, 2), weights"), "shape.axes")
bug(T, "keys of the next head", ("    scores = q", "    k, v = k.roll(1, 1), v.roll(1, 1)\n    scores = q"), "heads.next")
bug(T, "the last key is never attended", ("    weights = torch", "    scores = torch.cat([scores[..., :-1], scores[..., -1:] - torch.inf], -1)\n    weights = torch"),
    "mask.drops_last_key")
bug(T, "the first key is always added", ("weights @ v, weights", "weights @ v + v[..., :1, :], weights"), "weights.sums", also="mask.empty_something+weights.returned_other")
bug(T, "the mean of the values is added", ("weights @ v, weights", "weights @ v + v.mean(-2, keepdim=True), weights"), "weights.sums", also="mask.empty_mean+mask.influence+weights.returned_other")
bug(T, "weights of the first of the batch for all", ("weights @ v, weights", "weights[:1] @ v, weights"), "weights.returned_other")
bug(T, "weights averaged over the heads", ("weights @ v, weights", "weights.mean(1, keepdim=True) @ v, weights"), "heads.weights_averaged")
bug(T, "weights averaged over the batch", ("weights @ v, weights", "weights.mean(0, keepdim=True) @ v, weights"), "batch.weights_averaged")
bug("bmm over flat heads", "heads and batch unfolded in the wrong order", (".view(b, h, n_q, -1)", ".view(h, b, n_q, -1).transpose(0, 1)"), "heads.and_batch")
bug("bmm over flat heads", "length and heads folded without transpose",
    ("q.reshape(b * h, n_q, d), k.reshape(b * h, n_k, d), v.reshape(b * h, n_k, -1)",
     "q.transpose(1, 2).reshape(b * h, n_q, d), k.transpose(1, 2).reshape(b * h, n_k, d), v.transpose(1, 2).reshape(b * h, n_k, -1)"),
    "context.outside", missed=True, unnamed=True)
bug("heads after the length", "the length is not brought back", (').permute(0, 2, 1, 3)', ')'), "shape.axes")
bug("package: naive_attention", "the weights are of the key before", ("zip(w_i, v_b)", "zip(w_i, v_b.roll(1, 0))"), "route.values_shifted")

# what a function may not do to its inputs, or expect of them
bug(T, "scales q in place", ("    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
                             "    q /= math.sqrt(q.shape[-1])\n    scores = q @ k.transpose(-2, -1)"), "input.modified")
bug(T, "fills the mask in place", ("    if mask is not None:\n        scores",
                                   "    if mask is not None:\n        mask[..., 0] = True\n        scores"), "mask.first_key_open", also="input.mask_modified")
bug(T, "squeezes the context", ("return weights @ v, weights", "return (weights @ v).squeeze(), weights"), "length.size")
bug(T, "squeezes the weights' batch", ("weights @ v, weights", "weights @ v, weights.squeeze(0)"), "length.size")
bug("bmm over flat heads", "believes that memory is contiguous",
    ("q.reshape(b * h, n_q, d), k.reshape(b * h, n_k, d)", "q.view(b * h, n_q, d), k.view(b * h, n_k, d)"), "memory.contiguous")
bug(T, "reads memory past its strides", ("    scores = q", "    k = torch.as_strided(k, k.shape, torch.empty(k.shape).stride(), k.storage_offset())\n    scores = q"),
    "memory.strides")
bug("bmm over flat heads", "three heads, whatever comes", ("b * h, n_q, d), k", "b * 3, n_q, d), k"), "length.size")
bug(T, "transposes every dimension of k", ("k.transpose(-2, -1)", "k.T"), "shape.only_equal")
bug(T, "transposes by k.transpose(0, -1)", ("k.transpose(-2, -1)", "k.transpose(0, -1)"), "shape.only_equal")
bug("mask turned on a copy", "no copy: the caller's mask is turned", ("mask.clone().logical_not_()", "mask.logical_not_()"), "input.mask_modified")
bug(T, "computed in float16", ("torch.softmax(scores, dim=-1)", "torch.softmax(scores.half(), dim=-1).to(q.dtype)"), "dtype.narrow")
bug(T, "scores rounded to bfloat16", ("    weights = torch", "    scores = scores.bfloat16().to(q.dtype)\n    weights = torch"), "values.rounded")
bug("in double precision", "the wider type comes back", ("(w @ v.double()).to(v.dtype)", "w @ v.double()"), "dtype.other", args=with_args("in double precision", dtype="any"))
bug(T, "16 bits come back as 32", ("weights @ v, weights", "weights.float() @ v.float(), weights"), "dtype.other", args=with_args(T, dtype="any"))
bug(T, "-1e9 in float16", ('float("-inf")', "-1e9"), "dtype.no_infinity", args=with_args(T, dtype="any"))
bug(T, "scores are detached", ("    weights = torch", "    scores = scores.detach()\n    weights = torch"), "grad.unreached")
bug(T, "the keys are detached", ("q @ k.transpose", "q @ k.detach().transpose"), "grad.unreached")
bug(T, "weights made of .data", (LAST, "torch.softmax(scores.data, dim=-1)"), "grad.unreached")
bug("package: scaled_dot_product_attention", "the values are detached", ("F.dropout(weights, dropout_p) @ v", "F.dropout(weights, dropout_p) @ v.detach()"), "grad.unreached")
bug("flash with its own backward", "the scale is missing in the backward", ("(grad * out).sum(-1, keepdim=True)) * scale", "(grad * out).sum(-1, keepdim=True))"), "grad.wrong")
bug("flash with its own backward", "the sum is missing in the backward", (" - (grad * out).sum(-1, keepdim=True)", ""), "grad.wrong")

# Attention in tiles, with its log-sum-exp
THREE, TILED, TILED_CAUSAL = "tile by tile, in tiles of three", "tile by tile", "tile by tile, causal"
PULL, LSE = "(grad * out).sum(-1, keepdim=True) - grad_lse[..., None]", "return out.to(kind), lse"
bug(THREE, "no scale", [("s = q @ k.mT * q.shape[-1] ** -0.5", "s = q @ k.mT"), ("grad.to(q.dtype), q.shape[-1] ** -0.5", "grad.to(q.dtype), 1.0")],
    "scale.missing")
bug(THREE, "the context is not rescaled", ("acc = acc * fix + p", "acc = acc + p"), "blocks.context")
bug(THREE, "the sum is not rescaled", ("total = total * fix + p.sum", "total = total + p.sum"), "blocks.sum")
bug(THREE, "no running maximum", ("torch.maximum(top, s.amax(-1, keepdim=True))", "s.amax(-1, keepdim=True)"), "blocks.no_running_maximum")
bug(THREE, "the last keys are forgotten", ("starts = range(0, n_k, tile)", "starts = range(0, n_k - tile + 1, tile)"), "mask.drops_last_key")
bug(TILED, "the last keys are forgotten", ("starts = range(0, n_k, tile)", "starts = range(0, max(n_k - tile + 1, 1), tile)"), "blocks.cut_tail")
bug(TILED, "the row's sum is missing in the backward", (PULL, "-grad_lse[..., None]"), "grad.wrong")
bug(TILED, "no scale in the backward", ("- pull[..., a, :]) * scale", "- pull[..., a, :])"), "grad.wrong", also="lse.gradient")
bug(TILED, "weights of the backward are not divided by their sum", ("s - norm[..., a, :]", "s - s.amax(-1, keepdim=True)"), "grad.wrong", also="lse.gradient")
bug(TILED, "the log-sum-exp's gradient is forgotten", (PULL, "(grad * out).sum(-1, keepdim=True)"), "lse.gradient")
bug(TILED, "the log-sum-exp's gradient is added", (PULL, PULL.replace(" - ", " + ")), "lse.gradient")
bug(TILED, "the log-sum-exp to base 2", (LSE, "return out.to(kind), lse / math.log(2)"), "lse.wrong")
bug(TILED, "the sum in place of its logarithm", (LSE, "return out.to(kind), lse.exp()"), "lse.wrong")
bug(TILED, "minus the log-sum-exp", (LSE, "return out.to(kind), -lse"), "lse.wrong")
bug(TILED, "the log-mean-exp", (LSE, "return out.to(kind), lse - math.log(n_k)"), "lse.wrong")
bug(TILED, "the log-sum-exp without scale", (LSE, "return out.to(kind), (q @ k.mT).logsumexp(-1)"), "lse.wrong", also="flash.matrix")
bug(TILED, "the log-sum-exp without its maximum", (LSE, "return out.to(kind), lse - (q @ k.mT * q.shape[-1] ** -0.5).amax(-1)"), "lse.wrong", also="flash.matrix")
bug(TILED, "the largest score for the log-sum-exp", (LSE, "return out.to(kind), (q @ k.mT * q.shape[-1] ** -0.5).amax(-1)"), "lse.wrong", also="flash.matrix")
misuse(TILED, "everything in one tile", "flash.matrix", build=correct.tile_by_tile(tile=10**6))
misuse(TILED, "autograd keeps the tiles", "flash.matrix_backward",
       build=lambda c: lambda q, k, v: c.forward(SimpleNamespace(save_for_backward=lambda *kept: None), q, k, v, False, 16))
bug(TILED_CAUSAL, "the future is computed and thrown away", ("if not causal or j <= i + tile - 1 + n_k - n_q", "if True"), "flash.not_skipped", missed=True)
misuse("package: flash_attention", "in one tile", "flash.matrix", build=lambda f: partial(f, block_size=10**6))

bug("a fourth argument that is no mask", "dropout cannot be switched off", ("F.dropout(torch.softmax(q @ k.mT * scale, -1), dropout_p)",
    "F.dropout(torch.softmax(q @ k.mT * scale, -1), 0.1)"), "state.chance")
bug("module with dropout, in eval", "dropout stays on in eval", ("self.dropout(self.attention_weights)", "F.dropout(self.attention_weights, 0.3)"),
    "state.chance")
bug(T, "keys and values of the first call are kept", ("    scores = q", "    k, v = vars(textbook).setdefault('kept', (k, v)) if k.shape == (2, 3, 7, 17) else (k, v)\n    scores = q"),
    "state.first_call")
bug(T, "counts its calls", ("    scores = q", "    vars(textbook)['calls'] = calls = vars(textbook).get('calls', 0) + 1\n    q = q * calls\n    scores = q"), "state.kept")
bug("MaskKept", "the mask of the first call, however long", ("if n > len(self.future):", "if not len(self.future):"), "length.one")
bug("module without dropout", "the first call's weights are kept", ("self.attention_weights = F", "self.attention_weights = getattr(self, 'attention_weights', None) if getattr(self, 'attention_weights', torch.empty(0)).shape == scores.shape else F"),
    "state.first_call")

# the future ------------------------------------------------------------------------------------------------------

C = "causal textbook"
bug(C, "no mask at all", ("scores.masked_fill(~allowed, float(\"-inf\")).softmax(dim=-1).masked_fill(~allowed, 0)", "scores.softmax(dim=-1)"), "mask.ignored")
bug(C, "sees one ahead", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q + 1)"), "mask.sees_next")
bug(C, "does not see itself", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q - 1)"), "mask.not_itself")
bug(C, "only the first word sees itself", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q - 1) | (torch.arange(n_k) + torch.arange(n_q)[:, None] == 0)"), "mask.not_itself_but_first")
bug(C, "looks at the future only", (".tril(diagonal=n_k - n_q)", ".triu(diagonal=n_k - n_q)"), "mask.transposed")
bug(C, "aligned at the first key", (".tril(diagonal=n_k - n_q)", ".tril()"), "mask.upper_left")
bug(C, "weights are masked after softmax", ("scores.masked_fill(~allowed, float(\"-inf\")).softmax(dim=-1).masked_fill(~allowed, 0)",
                                            "scores.softmax(dim=-1).masked_fill(~allowed, 0)"), "mask.after_softmax")
bug(C, "masked after softmax, then renormalised", ("scores.masked_fill(~allowed, float(\"-inf\")).softmax(dim=-1).masked_fill(~allowed, 0)",
    "(w := scores.softmax(dim=-1).masked_fill(~allowed, 0)) / w.sum(-1, keepdim=True)"), "mask.leaks_if_large", also="softmax.underflows")
bug(C, "0 as minus infinity", ('float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', '0.0).softmax(dim=-1)'), "mask.multiplied")
bug(C, "-100 as minus infinity", ('float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', '-100.0).softmax(dim=-1)'), "softmax.cut")
bug(C, "-1e4 as minus infinity", ('float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', '-1e4).softmax(dim=-1)'), "mask.leaks_if_low")
bug(C, "scores times mask", ('scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', "(scores * allowed).softmax(dim=-1)"), "mask.multiplied")
bug(C, "uniform over the past", ("scores = q @ k", "scores = 0 * q @ k"), "softmax.uniform")
bug(C, "a window by accident", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q).triu(n_k - n_q - 2)"), "mask.window")
bug(C, "the first key is never attended", ("    scores =", "    allowed[:, 0] = False\n    scores ="), "mask.drops_first_key")
bug(C, "the first key is always attended", ("weights @ v", "0.9 * weights @ v + 0.1 * v[..., :1, :]"), "mask.first_key_open", unnamed=True)
bug("square causal", "as hard to read in one direction only: lower triangle blocked", ("torch.triu(torch.ones(n, n), diagonal=1)", "torch.tril(torch.ones(n, n), diagonal=-1)"), "mask.transposed")
bug("square causal", "the diagonal is blocked too", ("diagonal=1", "diagonal=0"), "mask.not_itself_nan")
bug("square causal", "the diagonal is blocked too, by -1e9", [("diagonal=1", "diagonal=0"), ('float("-inf")', "-1e9")], "mask.not_itself_mean")
bug("square causal", "tril of the scores, zeros left in", ('att.masked_fill(future, float("-inf"))', "att.tril()"), "mask.multiplied")
bug("square causal", "a mask of six places", ("torch.ones(n, n), diagonal=1)", "torch.ones(6, 6), diagonal=1)"), "length.one", unnamed=True)
bug("tiles that skip the future", "tiles see to their own end", ("torch.arange(stop) > torch.arange(i, stop)[:, None]", "torch.arange(stop) > stop"), "mask.leaks")
bug("upper left causal", "blocks what it should allow", ("cols <= rows[:, None], 0.0, float(\"-inf\")", "cols <= rows[:, None], float(\"-inf\"), 0.0"), "mask.inverted")
misuse("the same with is_causal", "believed to be aligned at the last key", "mask.upper_left",
       args={"causal": "lower-right"})
misuse("the fused function of PyTorch, as it is", "believed to be causal", "mask.ignored", args={"causal": True})
bug("package: fused_attention, causal", "aligned at the first key", ("causal and (mask is not None or bias is not None or q.shape[-2] != k.shape[-2])", "causal and mask is not None"),
    "mask.upper_left")
bug("package: fused_attention, causal", "with a mask, the future is open", ("return causal if mask is None else causal & mask", "return causal if mask is None else mask"), "mask.replaces_causal")
bug("package: fused_attention, causal", "one ahead where keys are more than queries", (".tril(n_k - n_q)", ".tril(n_k - n_q + 1)"), "mask.sees_next", inside="masks", unnamed=True)

# masks that are given --------------------------------------------------------------------------------------------

bug(T, "the mask is ignored", [("    if mask is not None:\n        scores = scores.masked_fill(~mask, float(\"-inf\"))\n", ""),
                               ("    if mask is not None:\n        weights = weights.masked_fill(~mask, 0.0)\n", "")], "mask.ignored")
bug(T, "the mask is inverted", [("scores.masked_fill(~mask", "scores.masked_fill(mask"), ("weights.masked_fill(~mask", "weights.masked_fill(mask")],
    "mask.meaning")
misuse("true means blocked", "believed to be True = may attend", "mask.meaning", args={})
misuse("true means blocked", "its mask is not announced", "mask.meaning", args={})
misuse("baddbmm with a bias", "its mask is not announced, though the name tells of a bias", "mask.meaning", args={"mask": "allowed"})
misuse("the same with a bias", "believed to be True = blocked", "mask.meaning", args={"mask": "blocked"})
misuse(T, "believed to be True = blocked", "mask.meaning", args={"mask": "blocked"})
bug(T, "fully masked rows are NaN", ("weights = weights.masked_fill(~mask, 0.0)", "pass"), "mask.empty_nan")
bug(T, "fully masked rows are a mean", [('float("-inf")', "torch.finfo(scores.dtype).min"), ("weights = weights.masked_fill(~mask, 0.0)", "pass")], "mask.empty_mean")
bug(T, "fully masked rows look right, their gradient is NaN", [("scores.masked_fill(~mask, float(\"-inf\"))", "scores + torch.zeros_like(scores).masked_fill(~mask, float(\"-inf\"))")],
    "mask.empty_gradient")
bug(T, "blocks queries, not keys", [("scores.masked_fill(~mask,", "scores.masked_fill(~mask.mT,"), ("weights.masked_fill(~mask,", "weights.masked_fill(~mask.mT,")],
    "mask.transposed")
bug(T, "only the first of the batch has a mask", [("scores.masked_fill(~mask,", "scores.masked_fill(~mask[:1],"), ("weights.masked_fill(~mask,", "weights.masked_fill(~mask[:1],")],
    "mask.first_row")
bug(T, "only the first head has a mask", [("scores.masked_fill(~mask,", "scores.masked_fill(~mask[..., :1, :, :].expand(*mask.shape[:-3], 1, *mask.shape[-2:]) if mask.ndim == 4 else ~mask,")],
    "mask.axis")
bug(T, "masked after softmax", [('scores = scores.masked_fill(~mask, float("-inf"))', "pass")], "mask.after_softmax")
bug(T, "-1e4 as minus infinity in the mask", [('float("-inf")', "-1e4"), ("weights.masked_fill(~mask, 0.0)", "weights")], "mask.leaks_if_low")
bug(T, "-1e4 is added", [('scores.masked_fill(~mask, float("-inf"))', "scores + ~mask * -1e4"), ("weights.masked_fill(~mask, 0.0)", "weights")], "mask.influence")
bug(T, "infinity times the mask", [('scores.masked_fill(~mask, float("-inf"))', 'scores + ~mask * float("-inf")'), ("weights.masked_fill(~mask, 0.0)", "weights")], "mask.nan")
bug(T, "a square mask is transposed", ("    if mask is not None:\n        scores", "    mask = mask.mT if mask is not None and mask.shape[-1] == mask.shape[-2] else mask\n    if mask is not None:\n        scores"),
    "mask.axis")
bug(T, "scores times mask", [('scores.masked_fill(~mask, float("-inf"))', "scores * mask"), ("weights.masked_fill(~mask, 0.0)", "weights")], "mask.multiplied")
bug(T, "the mask is added as 0 and 1", [('scores.masked_fill(~mask, float("-inf"))', "scores + mask"), ("weights.masked_fill(~mask, 0.0)", "weights")], "mask.meaning")
bug(T, "every query gets the mask of the last", ("    if mask is not None:\n        scores", "    mask = mask if mask is None else mask[..., -1:, :]\n    if mask is not None:\n        scores"),
    "mask.last_row")
bug(T, "every sentence gets the mask of the first", ("    if mask is not None:\n        scores", "    mask = mask[:1] if mask is not None and mask.ndim > 2 else mask\n    if mask is not None:\n        scores"),
    "mask.axis")
bug(T, "masked after softmax, then renormalised with an epsilon", [('scores = scores.masked_fill(~mask, float("-inf"))', "pass"),
    ("weights = weights.masked_fill(~mask, 0.0)", "weights = weights * mask; weights = weights / (weights.sum(-1, keepdim=True) + 1e-4)")],
    "mask.after_normalised+softmax.epsilon")
bug(T, "weights that were not used are returned", ("return weights @ v, weights", "return weights @ v, torch.softmax(q @ k.mT, -1)"), "weights.returned_other")
bug(T, "scores are returned as weights", ("weights @ v, weights", "weights @ v, scores"), "weights.returned_scores")
bug("package: scaled_dot_product_attention", "the mask is lost", ("scores.softmax(-1) if mask is None", "scores.softmax(-1) if True"), "mask.ignored")
bug("baddbmm with a bias", "the bias is scaled with the scores", ("beta=1, alpha=1 / d ** 0.5)", "beta=0, alpha=1 / d ** 0.5)"), "bias.ignored")
bug("causal and mask", "a mask replaces the causal one", ("allowed & attn_mask", "attn_mask"), "mask.replaces_causal")
bug("causal and mask", "either mask will do", ("allowed & attn_mask", "allowed | attn_mask"), "mask.wrong", also="mask.empty_something")

# Layers with one head --------------------------------------------------------------------------------------------

H, HC, HD = "OneHead", "one head, causal", "one head, dropout"
HSCALE = " / math.sqrt(k.shape[-1])"
bug(H, "no scale", (HSCALE, ""), "scale.missing")
bug(H, "divides by d", (HSCALE, " / k.shape[-1]"), "scale.by_width")
bug(H, "the root of the model's width", (HSCALE, " / math.sqrt(x.shape[-1])"), "scale.d_model_root")
bug(H, "softmax over the queries", ("dim=-1)", "dim=-2)"), "softmax.over_queries")
bug(H, "softmax over the batch", ("dim=-1)", "dim=0)"), "softmax.over_batch")
bug(H, "no softmax", ("torch.softmax(scores, dim=-1)", "scores"), "softmax.missing")
bug(H, "k uses q's projection", ("self.k_proj(x)", "self.q_proj(x)"), "project.unused")
bug(H, "v uses k's projection", ("self.v_proj(x)", "self.k_proj(x)"), "project.unused")
bug(H, "k and q are tied", ("self.k_proj = nn.Linear(d_model, d_k)", "self.k_proj = self.q_proj"), "parameter.tied")
bug(H, "weights transposed", ("@ v", ".mT @ v"), "softmax.transposed")
bug(H, "values without projection", ("self.v_proj(x)", "(self.v_proj(x) * 0 + x[..., :self.v_proj.out_features])"), "parameter.silent")
bug(H, "plain tensors for weights", [("self.q_proj = nn.Linear(d_model, d_k)", "self.q_proj = torch.randn(d_model, d_k)"), ("self.q_proj(x)", "x @ self.q_proj")], "parameter.unregistered")
bug("BareParameters", "tensors that are not parameters", [("nn.Parameter(torch.rand(d_in, d_out))\n        self.W_key", "torch.rand(d_in, d_out)\n        self.W_key"),
    ("nn.Parameter(torch.rand(d_in, d_out))\n        self.W_value", "torch.rand(d_in, d_out)\n        self.W_value")], "parameter.unregistered")
bug("BareParameters", "queries and keys from one matrix", ("x @ self.W_query, x", "x @ self.W_key, x"), "project.unused")
bug("BareParameters", "no scale", (" / keys.shape[-1] ** 0.5", ""), "scale.missing")
bug("BareParameters", "scaled by the number of words", ("keys.shape[-1] ** 0.5", "keys.shape[-2] ** 0.5"), "scale.keys_root")
bug("BareParameters", "weights from .data", ("torch.softmax(attn_scores", "torch.softmax(attn_scores.data"), "project.unused")
bug(H, "a projection made anew at each call", ("self.dropout(weights) @ v", "nn.Linear(v.shape[-1], v.shape[-1])(self.dropout(weights) @ v)"),
    "dropout.in_evaluation")
bug(H, "under no_grad", ("scores = q @", "q, k = q.detach(), k.detach()\n        scores = q @"), "parameter.unused")
bug(H, "batch mixed by the mean of keys", ("scores = q @ k", "k = k - k.mean(0)\n        scores = q @ k"), "batch.mixes")
bug(H, "normalised over the batch", ("q, k, v = self.q_proj(x)", "x = x - x.mean((0, 1))\n        q, k, v = self.q_proj(x)"), "batch.mixes")
bug(H, "changes x in place", ("q, k, v = self", "x *= 1 / math.sqrt(x.shape[-1])\n        q, k, v = self"), "input.modified")
bug(H, "squeezes away a batch of one", ("return self.dropout(weights) @ v", "return (self.dropout(weights) @ v).squeeze(0)"), "batch.mixes", also="length.size")
bug(H, "squeezes away a length of one", ("return self.dropout(weights) @ v", "return (self.dropout(weights) @ v).squeeze(1)"), "length.tokens")
bug(H, "keys of all calls are kept", ("        scores = q @", "        self.keys = torch.cat([self.keys, k], 1) if hasattr(self, 'keys') and len(self.keys) == len(k) else k\n"
    "        self.values = torch.cat([self.values, v], 1) if hasattr(self, 'values') and len(self.values) == len(v) else v\n"
    "        k, v = self.keys.detach(), self.values.detach()\n        scores = q @"), "state.first_length", also="memory.strides")
bug(HC, "no mask", ("if self.causal", "if not self.causal"), "mask.ignored")
bug(HC, "sees one ahead", (".triu(1)", ".triu(2)"), "mask.sees_next")
bug(HC, "does not see itself", (".triu(1)", ".triu(0)"), "mask.not_itself_first")
bug(HC, "looks at the future only", (".triu(1)", ".tril(-1)"), "mask.transposed")
bug(HC, "masked in training only", ("if self.causal", "if self.causal and self.training"), "mode.mask_in_training", also="mask.ignored")
bug(HC, "masked in eval only", ("if self.causal", "if self.causal and not self.training"), "mode.mask_in_evaluation")
bug(HC, "masked only where gradients are wanted", ("if self.causal", "if self.causal and torch.is_grad_enabled()"), "mode.no_grad", also="mask.ignored")
bug(HC, "a mask of the first length", ("future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)",
    "if not hasattr(self, 'future'):\n                self.future = torch.ones(n, n, dtype=torch.bool).triu(1)\n            future = self.future"),
    "state.first_length")
bug(HC, "a longer input is not masked beyond the first length", ("future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)",
    "self.m = getattr(self, 'm', n)\n            future = torch.zeros(n, n, dtype=torch.bool)\n            future[:self.m, :self.m] = torch.ones(n, n).triu(1).bool()[:self.m, :self.m]"),
    "state.first_length")
bug(HC, "-1e4 as minus infinity", ('float("-inf")', "-1e4"), "mask.leaks_if_large")
bug(HC, "a batch of one is not masked", ("if self.causal:", "if self.causal and len(x) > 1:"), "batch.mixes")
bug(HD, "dropout on in eval", ("self.dropout(weights)", "F.dropout(weights, 0.5)"), "dropout.in_evaluation")
bug(HD, "dropped weights are not rescaled", ("return self.dropout(weights) @ v", "keep = torch.rand_like(weights) > 0.5 if self.training else torch.ones_like(weights)\n        return (weights * keep) @ v"),
    "dropout.biased")
bug(HD, "dropout on the scores", [("torch.softmax(scores, dim=-1)", "torch.softmax(self.dropout(scores), dim=-1)"), ("self.dropout(weights) @ v", "weights @ v")], "dropout.biased")
bug(HD, "dropout scales the wrong way in eval", ("return self.dropout(weights) @ v", "return self.dropout(weights) @ v * (1.0 if self.training else 0.5)"), "dropout.biased", also="values.scaled")
bug("CausalWithABuffer", "the mask is transposed", ("torch.triu(torch.ones(context_length, context_length), diagonal=1)", "torch.tril(torch.ones(context_length, context_length), diagonal=-1)"), "mask.transposed")
bug("CausalWithABuffer", "the scores are masked after softmax", [("        scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)\n", ""),
    ("self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))", "self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1).masked_fill(self.mask.bool()[:n, :n], 0))")],
    "mask.after_softmax")
bug("CausalWithABuffer", "the buffer cut at the wrong end", ("[:n, :n], -torch.inf", "[-n:, :n], -torch.inf"), "mask.ignored")
bug("TinyHead", "the root of the model's width", ("self.key.out_features ** -0.5", "x.shape[-1] ** -0.5"), "scale.d_model_root")
bug("TinyHead", "multiplied by the mask", ('wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))', "wei * self.tril[:T, :T]"), "mask.multiplied")
bug("package: SelfAttention", "memory for the queries", ("self.q_proj(x), self.k_proj(memory)", "self.k_proj(memory), self.q_proj(x)"), "route.queries_keys")
bug("package: SelfAttention", "no scale", ("(q.shape[-1] ** -0.5 if scale is None", "(1.0 if scale is None"), "scale.missing")
bug("package: SelfAttention", "softmax over the queries", ("scores.softmax(-1) if mask is None", "scores.softmax(-2) if mask is None"), "softmax.over_queries")
bug("package: SelfAttention", "values from the queries", ("self.v_proj(memory)\n", "self.v_proj(self.q_proj.weight.new_zeros(memory.shape)) + self.v_proj(memory).mean(-2, keepdim=True)\n"),
    "softmax.uniform", unnamed=True)
bug("Block", "normalised over length and width", ("x = x + self.attn(self.ln1(x))", "x = x + self.attn(self.ln1(x) - x.mean((1, 2), keepdim=True))"), "mask.leaks")
bug("Block", "the MLP is forgotten", ("return x + self.mlp(self.ln2(x))", "return x + self.ln2(x)"), "parameter.unused")
bug("Block", "the second norm is forgotten", ("self.mlp(self.ln2(x))", "self.mlp(x)"), "parameter.unused")
bug("AttentionWithResidual", "normalised over the batch", ("self.norm(x + self", "self.norm(x - x.mean(0) + self"), "batch.mixes")
bug("LlamaLike", "the future is open", ("is_causal=self.causal", "is_causal=False"), "mask.ignored")
bug("LlamaLike", "is_causal off in eval", ("is_causal=self.causal", "is_causal=self.causal and self.training"), "mode.mask_in_training", also="mask.ignored")
bug("SlidingWindow, not announced", "one word too many", ("distance < self.window", "distance <= self.window"), "window.size")
bug("SlidingWindow, not announced", "one word too few", ("distance < self.window", "distance < self.window - 1"), "window.size")
bug("SlidingWindow", "half of the window lies in the future", ("(distance >= 0) & (distance < self.window)", "distance.abs() < self.window"), "mask.leaks")
bug("LinearBias", "the penalty is there, the mask is not", (".masked_fill(distance < 0, float(\"-inf\"))", ".masked_fill(distance < 0, -10.0)"), "mask.leaks")
misuse("nn.MultiheadAttention as self-attention", "batch_first forgotten", "batch.axes", build=lambda c: c(18, 3))
misuse("nn.TransformerEncoderLayer, causal", "the mask is not given", "mask.leaks", args={"d_model": 24, "causal": True}, unnamed=True)

# Layers with many heads ------------------------------------------------------------------------------------------

M, MC, MD = "MultiHead", "MultiHead, causal", "MultiHead, dropout"
MSCALE = " / math.sqrt(self.d_head)"
bug(M, "no scale", (MSCALE, ""), "scale.missing")
bug(M, "√d_model for √d_head", (MSCALE, " / math.sqrt(d_model)"), "scale.d_model_root")
bug(M, "divided by heads twice", (MSCALE, " / math.sqrt(self.d_head // self.n_heads)"), "scale.head_constant")
bug(M, "the root of the number of heads", (MSCALE, " / math.sqrt(self.n_heads)"), "scale.heads_root")
bug(M, "divides by d_head", (MSCALE, " / self.d_head"), "scale.by_width")
bug(M, "scaled after the softmax", [(MSCALE, ""), ("dim=-1))", "dim=-1)) / math.sqrt(self.d_head)")], "softmax.scaled")
bug(M, "softmax over the queries", ("dim=-1))", "dim=-2))"), "softmax.over_queries")
bug(M, "softmax over the heads", ("dim=-1))", "dim=1))"), "softmax.over_heads")
bug(M, "softmax twice", ("torch.softmax(scores, dim=-1)", "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)"), "softmax.twice")
bug(M, "sigmoid for softmax", ("torch.softmax(scores, dim=-1)", "torch.sigmoid(scores)"), "softmax.sigmoid")
Q_SPLIT, K_SPLIT, V_SPLIT = (f"self.{p}_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)" for p in "qkv")
RAW = ".view(b, self.n_heads, n, self.d_head)"
bug(M, "view for transpose in the split", [(s, f"self.{p}_proj(x){RAW}") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))], "split.viewed")
bug(M, "heads transposed back before the merge", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).mT.reshape(b, n, d_model)"), "merge.hdn")
bug(M, "heads added up", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).sum(1).repeat(1, 1, self.n_heads)"), "merge.added_all")
bug(M, "words attend to their own heads", [("scores = q @", "q, k, v = (t.transpose(1, 2) for t in (q, k, v))\n        scores = q @"), ("(weights @ v).transpose(1, 2)", "(weights @ v)")], "heads.among")
bug(M, "values and output are tied", ("self.out_proj = nn.Linear(d_model, d_model)", "self.out_proj = self.v_proj"), "parameter.tied")
bug(M, "view for transpose in the merge", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).reshape(b, n, d_model)"), "merge.viewed")
bug(M, "view for transpose in split and merge", [*((s, f"self.{p}_proj(x){RAW}") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))),
    ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).reshape(b, n, d_model)")], "merge.viewed+split.viewed")
bug(M, "only the values are viewed", (V_SPLIT, f"self.v_proj(x){RAW}"), "split.viewed_v")
bug(M, "width before heads in the split", [(s, f"self.{p}_proj(x).view(b, n, self.d_head, self.n_heads).permute(0, 3, 1, 2)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"))],
    "split.values_apart")
bug(M, "width before heads in the split of values", (V_SPLIT, "self.v_proj(x).view(b, n, self.d_head, self.n_heads).permute(0, 3, 1, 2)"), "split.values_alone")
bug(M, "merged width first", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).permute(0, 2, 3, 1).reshape(b, n, d_model)"), "merge.features_first")
bug(M, "heads attend to each other, not places", [(s, f"self.{p}_proj(x).view(b, n, self.n_heads, self.d_head)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))] +
    [("(weights @ v).transpose(1, 2).reshape", "(weights @ v).reshape")], "heads.among")
bug(M, "batch and length exchanged", [("b, n, d_model = x.shape", "x = x.transpose(0, 1)\n        b, n, d_model = x.shape"), ("return self.out_proj(context)", "return self.out_proj(context).transpose(0, 1)")],
    "batch.axes")
bug(M, "one head, for all their width", [(s, f"self.{p}_proj(x).view(b, n, 1, d_model).transpose(1, 2)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))] +
    [(MSCALE, " / math.sqrt(d_model)")], "heads.number")
bug(M, "heads averaged", [("nn.Linear(d_model, d_model)\n        self.dropout", "nn.Linear(self.d_head, d_model)\n        self.dropout"),
    ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).mean(1)")], "merge.averaged")
bug(M, "heads averaged and repeated", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).mean(1).repeat(1, 1, self.n_heads)"), "merge.averaged")
bug(M, "heads added up, the width of one", [("nn.Linear(d_model, d_model)\n        self.dropout", "nn.Linear(self.d_head, d_model)\n        self.dropout"),
    ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).sum(1)")], "merge.added_all")
bug(M, "weights averaged over the heads before use", ("(weights @ v)", "(weights.mean(1, keepdim=True) @ v)"), "heads.weights_averaged")
bug(M, "the first head's weights for all", ("(weights @ v)", "(weights[:, :1] @ v)"), "heads.first_weights")
bug(M, "the first head's context for all", ("(weights @ v).", "(weights @ v)[:, :1].expand_as(v)."), "merge.first_copied")
bug(M, "the first head's queries and keys for all", ("scores = q @ k.", "scores = q[:, :1] @ k[:, :1]."), "heads.first_weights")
bug(M, "one head, repeated", [(f"self.{p}_proj = nn.Linear(d_model, d_model)", f"self.{p}_proj = nn.Linear(d_model, d_model // n_heads)") for p in "qkv"] +
    [(s, f"self.{p}_proj(x)[:, None].expand(-1, self.n_heads, -1, -1)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))], "heads.one_repeated")
bug(M, "weights of nn.Linear not transposed", [(f"self.{p}_proj(x)", f"(x @ self.{p}_proj.weight + self.{p}_proj.bias)") for p in "qkv"], "project.untransposed")
bug(M, "one weight of nn.Linear not transposed", ("self.k_proj(x)", "(x @ self.k_proj.weight + self.k_proj.bias)"), "project.untransposed")
bug(M, "the output weight not transposed", ("return self.out_proj(context)", "return context @ self.out_proj.weight + self.out_proj.bias"), "project.untransposed")
bug(M, "weights not transposed, and no scale", [(MSCALE, ""), *((f"self.{p}_proj(x)", f"(x @ self.{p}_proj.weight + self.{p}_proj.bias)") for p in "qkv")], "project.untransposed+scale.missing")
bug("SquareParameters", "no scale", (" / math.sqrt(q.shape[-1])", ""), "scale.missing")
bug("ReadsItsWeights", "no scale", ("(q, k, v).transpose", "(q, k, v, scale=1.0).transpose"), "scale.missing")
bug(M, "heads in reverse order", ("(weights @ v).transpose", "(weights @ v).flip(1).transpose"), "merge.flipped")
bug(M, "the output projection is forgotten", ("return self.out_proj(context)", "return context"), "project.never")
bug(M, "the output projection is used twice", ("return self.out_proj(context)", "return self.out_proj(self.out_proj(context))"), "project.twice")
bug(M, "a residual too many", ("return self.out_proj(context)", "return x + self.out_proj(context)"), "project.residual")
LAST_STEP, LINEAR = "return self.out_proj(context)", "F.linear(context, self.out_proj.weight, self.out_proj.bias)"
bug(M, "the output bias twice", (LAST_STEP, LAST_STEP + " + self.out_proj.bias"), "project.bias")
bug(M, "the mean of all outputs", (LAST_STEP, LAST_STEP + ".mean(1, keepdim=True).expand_as(x)"), "project.pooled")
bug(M, "a hundredth of each output", (LAST_STEP, "return 0.01 * self.out_proj(context)"), "project.scaled")
bug(M, "projected, and returned without", (LAST_STEP, "self.out_proj(context)\n        return context"), "project.never")
bug(M, "half of the output bias", (LAST_STEP, "return F.linear(context, self.out_proj.weight, 0.5 * self.out_proj.bias)"), "project.bias")
bug("ReadsItsWeights", "no output bias", (LINEAR, "F.linear(context, self.out_proj.weight)"), "project.bias")
bug("ReadsItsWeights", "the mean of all outputs", (LINEAR, LINEAR + ".mean(1, keepdim=True).expand_as(x)"), "project.pooled")
bug("ReadsItsWeights", "a hundredth of each output", (LINEAR, "0.01 * " + LINEAR), "project.scaled")
bug(M, "each query mixes its own value", ("(weights @ v)", "torch.einsum('bhqk,bhqd->bhqd', weights, v)"), "mix.own_value")
bug(M, "k_proj forgotten", ("self.k_proj(x).view", "x.view"), "project.unused")
bug(M, "v is k", (V_SPLIT, "k"), "project.unused")
bug(M, "q and k exchanged", [("self.q_proj(x)", "self.Q(x)"), ("self.k_proj(x)", "self.q_proj(x)"), ("self.Q(x)", "self.k_proj(x)")], "route.queries_keys")
bug(M, "q and v exchanged", [("self.q_proj(x)", "self.Q(x)"), ("self.v_proj(x)", "self.q_proj(x)"), ("self.Q(x)", "self.v_proj(x)")], "route.queries_values")
bug(M, "tied projections", ("self.v_proj = nn.Linear(d_model, d_model)", "self.v_proj = self.k_proj"), "parameter.tied")
bug(M, "weights transposed", ("(weights @ v)", "(weights.mT @ v)"), "softmax.transposed")
bug(M, "four heads, whatever was asked", ("self.n_heads, self.d_head = n_heads, d_model // n_heads", "self.n_heads, self.d_head = 4, d_model // 4"), "heads.number")
bug(M, "projections in a list", [("self.q_proj = nn.Linear(d_model, d_model)", "self.projections = [nn.Linear(d_model, d_model)]"), ("self.q_proj(x)", "self.projections[0](x)")], "parameter.unregistered")
bug(M, "the context is detached", ("self.out_proj(context)", "self.out_proj(context.detach())"), "parameter.unused")
bug(MC, "leaks", ("if self.causal", "if False"), "mask.ignored")
bug(MC, "sees one ahead", ("diagonal=1", "diagonal=2"), "mask.sees_next")
bug(MC, "does not see itself", ("diagonal=1", "diagonal=0"), "mask.not_itself_first")
bug(MC, "masked in training only", ("if self.causal", "if self.causal and self.training"), "mode.mask_in_training", also="mask.ignored")
bug(MC, "only the first head is masked", ("scores.masked_fill(future, float(\"-inf\"))", "torch.cat([scores[:, :1].masked_fill(future, float(\"-inf\")), scores[:, 1:]], 1)"), "mask.leaks")
bug(MC, "masked after softmax", [("scores = scores.masked_fill(future, float(\"-inf\"))", "pass"), ("torch.softmax(scores, dim=-1))", "torch.softmax(scores, dim=-1).tril())")],
    "mask.after_softmax")
bug(MD, "dropout on in eval", ("self.dropout(torch.softmax(scores, dim=-1))", "F.dropout(torch.softmax(scores, dim=-1), 0.5)"), "dropout.in_evaluation")
bug("FusedQkv", "chunks in the order k, q, v", ("q, k, v = qkv", "k, q, v = qkv"), "split.fused_order")
bug("FusedQkv", "chunks in the order v, k, q", ("q, k, v = qkv", "v, k, q = qkv"), "split.fused_order")
bug("FusedQkv", "scale of the whole width", ("(dim // num_heads) ** -0.5", "dim ** -0.5"), "scale.d_model_root")
bug("FusedQkv", "scaled before and after", ("(q * self.scale) @ k.transpose(-2, -1)", "(q * self.scale) @ k.transpose(-2, -1) * self.scale"), "scale.by_width")
bug("FusedQkv", "merged without transpose", ("(attn @ v).transpose(1, 2).reshape", "(attn @ v).reshape"), "merge.viewed")
bug("FusedQkv", "heads averaged", [("nn.Linear(dim, dim)", "nn.Linear(dim // num_heads, dim)"), ("(attn @ v).transpose(1, 2).reshape(B, N, C)", "(attn @ v).mean(1)")],
    "merge.averaged")
misuse("FusedQkv", "its weights hold one head after the other", "split.fused_order", args=with_args("FusedQkv", fused_order="heads"))
misuse("FusedGroups, two for four", "its weights hold one group after the other", "split.fused_order", args=with_args("FusedGroups, two for four", fused_order="heads"))
bug("FusedPerHead", "read by role", ("self.num_heads, -1).permute(0, 2, 1, 3)\n        q, k, v = qkv.chunk(3, dim=-1)", "3, self.num_heads, -1).permute(2, 0, 3, 1, 4)\n        q, k, v = qkv"),
    "split.fused_order")
bug("KeysBesideValues", "read by role", ("unflatten(-1, (3, 16)).transpose(1, 2).chunk(2, -1)", "unflatten(-1, (2, 3, 8)).permute(2, 0, 3, 1, 4)"), "split.fused_order")
bug("FusedPerHead", "softmax over the queries", ("dim=-1)\n        values", "dim=-2)\n        values"), "softmax.over_queries")
bug("FusedPerHead", "merged without transpose", ("(attention @ v).permute(0, 2, 1, 3).reshape", "(attention @ v).reshape"), "merge.viewed")
bug("ToQkv, causal", "no scale", (" * self.scale", ""), "scale.missing")
bug("ToQkv, causal", "lower triangle blocked", (".triu(j - i + 1)", ".tril(j - i - 1)"), "mask.transposed")
bug("GptLike", "is_causal off in eval", ("is_causal=True", "is_causal=self.training"), "mode.mask_in_training", also="mask.ignored")
bug("GptLike", "the fused kernel without is_causal", (", is_causal=True", ""), "mask.ignored")
bug("GptLike, dropout", "the fused kernel's dropout stays on in eval", [("if self.flash", "if True"), ("self.dropout if self.training else 0", "self.dropout")], "dropout.in_evaluation")
bug("GptLike without the fused kernel", "mask compared the wrong way", ("== 0, float", "== 1, float"), "mask.inverted_last")
bug("GptLike without the fused kernel", "the output projection is forgotten", ("self.c_proj(y)", "y"), "project.never")
bug("GptLike without the fused kernel", "q and k in the wrong order", ("q, k, v = self.c_attn", "k, q, v = self.c_attn"), "split.fused_order")
bug("WidthsOfItsOwn", "the root of the whole width", ("self.head_dim ** 0.5", "self.d_out ** 0.5"), "scale.halved")
bug("WidthsOfItsOwn", "merged without transpose", ("(weights @ values).transpose(1, 2)", "(weights @ values)"), "merge.viewed")
bug("WidthsOfItsOwn", "the fused call without its mask", ("        scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)\n", ""), "mask.ignored")
bug("HeadsInTheBatch", "unfolded as heads first", ("output.reshape(-1, self.num_heads, *output.shape[1:]).permute(0, 2, 1, 3)",
    "output.reshape(self.num_heads, -1, *output.shape[1:]).permute(1, 2, 0, 3)"), "batch.mixes")
bug("HeadsInTheBatch", "folded without transpose", ("self.num_heads, -1).permute(0, 2, 1, 3)", "self.num_heads, -1)"), "shape.rows", unnamed=True)
bug("FourLinears", "the last projection is the first", ("self.linears[-1]", "self.linears[0]"), "parameter.unused")
bug("FourLinears", "key and value from one layer", ("zip(self.linears, (query, key, value))", "zip([self.linears[0], self.linears[1], self.linears[1]], (query, key, value))"), "project.unused")
bug("FourLinears, causal", "the mask is turned round", ("mask.unsqueeze(1) == 0", "mask.unsqueeze(1)"), "mask.inverted")
bug("FourLinears, causal", "-1e9 in float16", ("torch.finfo(scores.dtype).min", "-1e9"), "dtype.no_infinity", args=with_args("FourLinears, causal", dtype="any"))
bug("StackOfHeads", "heads in a Python list", ("nn.ModuleList(OneHead(d_model, d_model // n_heads, causal) for _ in range(n_heads))", "[OneHead(d_model, d_model // n_heads, causal) for _ in range(n_heads)]"), "parameter.unregistered")
bug("StackOfHeads", "one head, repeated", ("nn.ModuleList(OneHead(d_model, d_model // n_heads, causal) for _ in range(n_heads))", "nn.ModuleList([OneHead(d_model, d_model // n_heads, causal)] * n_heads)"), "heads.one_repeated")
bug("StackOfHeads", "heads are stacked along the length", ("dim=-1))", "dim=-2).unflatten(-2, (-1, x.shape[1])).movedim(-3, -1).flatten(-2))"), "merge.features_first")
bug("WeightPerHead", "no scale", (" / q.shape[-1] ** 0.5", ""), "scale.missing")
bug("WeightPerHead", "pattern summed over the heads", ('"bhqk,bkhd->bqhd"', '"bgqk,bkhd->bqhd"'), "heads.weights_averaged", unnamed=True)
bug("GroupedQueries", "groups repeated in the wrong order", [("k = k.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "k = k.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"),
    ("v = v.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "v = v.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)")], "split.groups")
bug("GroupedQueries", "keys repeated one way, values the other", ("v = v.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "v = v.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"),
    "split.groups_of_values")
bug("GroupedQueries, causal", "the one head is repeated along the words", [("self.n_kv_heads, dim=1)\n        v", "self.n_kv_heads, dim=2)\n        v"),
    ("self.n_kv_heads, dim=1)\n        out", "self.n_kv_heads, dim=2)\n        out")], "split.along_tokens", build=lambda c: c(24, 4, 1, True))
I = "GroupsByIndex"
SHARE, BY_INDEX = "t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "j = i // (self.n_heads // self.n_kv_heads)"
TURNS = "t.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"
bug(I, "heads take turns", (BY_INDEX, "j = i % self.n_kv_heads"), "split.groups")
bug(I + ", three for twelve", "divides by the number of key heads", (BY_INDEX, "j = i // self.n_kv_heads % self.n_kv_heads"), "groups.divisor", build=lambda c: c(24, 8, 4),
    args=with_args(I + ", three for twelve", n_heads=8))
bug(I + ", three for twelve", "the remainder of the group", (BY_INDEX, "j = i % (self.n_heads // self.n_kv_heads)"), "groups.remainder", build=lambda c: c(24, 6, 3),
    args=with_args(I + ", three for twelve", n_heads=6))
bug(I, "values of the first head for all", ("v[:, j]", "v[:, 0]"), "heads.first_values")
bug(I, "no scale", ("is_causal=True", "is_causal=True, scale=1.0"), "scale.missing")
bug(I, "the scale of all heads' width", ("is_causal=True", "is_causal=True, scale=x.shape[-1] ** -0.5"), "scale.d_model_root")
bug(I, "keys for every head, though two were said", [("self.k_proj = nn.Linear(dim, n_kv_heads", "self.k_proj = nn.Linear(dim, n_heads"),
    ("self.v_proj = nn.Linear(dim, n_kv_heads", "self.v_proj = nn.Linear(dim, n_heads"), (BY_INDEX, "j = i")], "heads.shared")
misuse("GroupedQueries", "believed to have one key head", "heads.shared", args=with_args("GroupedQueries", n_kv_heads=1))
bug("GroupedQueries", "one mean of all keys", [("k = k.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "k = k.mean(1, keepdim=True).expand(-1, self.n_heads, -1, -1)"),
    ("v = v.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "v = v.mean(1, keepdim=True).expand(-1, self.n_heads, -1, -1)")], "groups.averaged")
bug("NormedGroups", "groups repeated in the wrong order", (SHARE, TURNS), "split.groups")
bug("NormedGroups", "the keys are not normed", ("self.k_norm(self.k_proj(x).view(b, n, -1, self.d_head))", "self.k_proj(x).view(b, n, -1, self.d_head)"), "norm.queries_only")
bug("NormedGroups", "normed rows, and scores multiplied by √d", ("is_causal=True)", "is_causal=True, scale=self.d_head**0.5)"), "scale.multiplied", missed=True)
bug("NormedGroups", "the queries are not normed", ("self.q_norm(self.q_proj(x).view(b, n, -1, self.d_head))", "self.q_proj(x).view(b, n, -1, self.d_head)"), "norm.keys_only")
bug("NormedGroups", "a norm over the heads", ("x.pow(2).mean(-1,", "x.pow(2).mean(-2,"), "norm.mixes")
bug("NormedGroups", "half is added to the mean square", ("eps=1e-6", "eps=0.5"), "norm.epsilon")
bug("NormedGroups", "neither queries nor keys are normed", [("self.q_norm(self.q_proj(x).view(b, n, -1, self.d_head))", "self.q_proj(x).view(b, n, -1, self.d_head)"),
    ("self.k_norm(self.k_proj(x).view(b, n, -1, self.d_head))", "self.k_proj(x).view(b, n, -1, self.d_head)")], "parameter.unused")
bug("ScalesAfterNorms", "only the queries are divided by their length", ("F.normalize(k, dim=-1) * self.k_scale", "k * self.k_scale"), "norm.queries_only")
bug("NormedRows", "the keys are not normed", ("self.k_norm(self.k_proj(x))", "self.k_proj(x)"), "norm.queries_only")
bug("NormedRows", "the queries are not normed", ("self.q_norm(self.q_proj(x))", "self.q_proj(x)"), "norm.keys_only")
bug("NormedRows", "groups repeated in the wrong order", (SHARE, TURNS), "split.groups")
bug("NormedRows", "no scale", ("is_causal=True", "is_causal=True, scale=1.0"), "scale.missing")
bug("NormedRows", "values in reverse order", ("k, v = (t.rep", "v = v.flip(1); k, v = (t.rep"), "heads.values_in_other_order")
CAP = "self.softcap * torch.tanh(scores / self.softcap)"
bug("CappedGroups", "groups repeated in the wrong order", (SHARE, TURNS), "split.groups")
bug("CappedGroups", "not capped", (CAP, "scores"), "cap.missing", args=with_args("CappedGroups", softcap=1.0))
bug("CappedGroups", "not multiplied by the cap", (CAP, "torch.tanh(scores / self.softcap)"), "cap.not_multiplied", build=lambda c: c(24, 4, 2, 3.0))
bug("CappedGroups", "not divided by the cap", (CAP, "self.softcap * torch.tanh(scores)"), "cap.not_divided", build=lambda c: c(24, 4, 2, 3.0))
bug("CappedGroups", "cut off at the cap", (CAP, "scores.clamp(-self.softcap, self.softcap)"), "cap.cut")
misuse("CappedGroups", "another cap is declared", "scores.capped", build=lambda c: c(24, 4, 2, 50.0), args=with_args("CappedGroups", softcap=30.0))
UNSCALED_PARTS = ("self.attend(", "self.attend(self.n_heads ** -0.5 * 24 ** 0.5 * ")
bug("PoolsKeys", "no scale", UNSCALED_PARTS, "scale.missing")
bug("PoolsKeys", "keys are used as values", ("self.v_proj(fewer)", "self.k_proj(fewer) + 0 * self.v_proj(fewer)"), "route.keys_as_values")
bug("JoinsKeys, declared", "no scale", UNSCALED_PARTS, "scale.missing")
bug("JoinsKeys, declared", "keys and values are exchanged", ("self.attend(self.q_proj(x), k, v)", "self.attend(self.q_proj(x), v, k)"), "layer.unknown")
bug("AsItIs", "no scale", UNSCALED_PARTS, "scale.missing")
bug("TurnsItsWay", "keys are not turned", ("self.heads(self.k_proj(x), True)", "self.heads(self.k_proj(x))"), "rotation.queries_only")
bug("TurnsItsWay", "queries are not turned", ("self.heads(self.q_proj(x), True)", "self.heads(self.q_proj(x))"), "rotation.keys_only")
bug("TurnsItsWay", "values are turned, too", ("self.heads(self.v_proj(x))", "self.heads(self.v_proj(x), True)"), "rotation.values")
bug("AddsInside, declared", "no scale", UNSCALED_PARTS, "scale.missing")
bug("CapsBeforeBias", "the bias is subtracted", ("+ self.table", "- self.table"), "bias.subtracted")
misuse("CappedGroups", "a small one is declared", "scores.capped", args=with_args("CappedGroups", softcap=2.0))
SINK, SINKS = "torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]", "self.sinks.view(1, -1, 1, 1)"
bug("SunkGroups", "groups repeated in the wrong order", (SHARE, TURNS), "split.groups")
bug("SunkGroups", "softmax off by one", (SINKS, "(0 * self.sinks.view(1, -1, 1, 1))"), "sink.zero")
bug("SunkGroups", "the sink of the first head for all", (SINKS, "self.sinks[:1].view(1, 1, 1, 1).expand(1, self.n_heads, 1, 1)"), "sink.first")
bug("SunkGroups", "the first column is dropped", ("softmax(-1)[..., :-1]", "softmax(-1)[..., 1:]"), "sink.first_column")
bug("SunkGroups", "the sinks come first, the last column is dropped", ("torch.cat([scores, sinks], dim=-1)", "torch.cat([sinks, scores], dim=-1)"), "sink.last_column")
bug("SunkGroups", "sinks are scaled", (SINKS, "(self.sinks.view(1, -1, 1, 1) * self.d_head ** -0.5)"), "sink.scaled")
bug("SunkGroups", "shares are made to sum to 1 again", (SINK, "torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]; weights = weights / weights.sum(-1, keepdim=True)"), "sink.missing")
bug("SunkGroups", "sinks are not exponentials", (SINK, "scores.exp() / (scores.exp().sum(-1, keepdim=True) + self.sinks.exp().log().abs().view(1, -1, 1, 1))"), "sink.no_exp",
    build=lambda c: (layer := c(24, 4, 2), layer.sinks.data.abs_())[0])
bug("HalfTheScaleEach", "the whole scale on each side", ("** -0.25", "** -0.5"), "scale.by_width")
bug("WeightsTheOtherWay", "sees one ahead", (".triu(1)", ".triu(2)"), "mask.leaks")
bug("InTwoParts", "values are the keys", ("(self.query, self.key, self.value))\n", "(self.query, self.key, self.key))\n"), "project.unused")
P = "package: MultiHeadAttention"
bug(P, "split without transpose", ("x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)", "x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1)"), "split.viewed")
bug(P, "merged without transpose", ("x.transpose(-3, -2).flatten(-2)", "x.reshape(*x.shape[:-3], x.shape[-2], -1)"), "merge.viewed")
bug(P, "values are the keys", ("_split(self.v_proj(memory)", "_split(self.k_proj(memory)"), "project.unused")
bug(P + ", causal", "leaks where no weights are wanted", ("_by_rows(q, k, v, given), None", "_by_rows(q, k, v, given | {\"causal\": False}), None"), "mask.ignored")
bug(P + ", causal", "dropout on in eval", ("if self.training and self.dropout:", "if self.dropout:"), "dropout.in_evaluation")
bug(P + ", weights", "leaks where weights are wanted", ("allowed = _and_causal(mask, q, k) if causal else mask", "allowed = mask"), "mask.ignored")
bug(P + ", weights", "half the scale", ("(q.shape[-1] ** -0.5 if", "(q.shape[-1] ** -0.25 if"), "scale.one_side", inside="self_attention")
PG, PL = P + ", grouped", "package: LatentAttention, absorbed"
ITS_GROUPS = "return _by_rows(q, k, v, given), None"
IN_TURNS = "{0}.repeat(*[1] * ({0}.ndim - 3), self.n_heads // self.n_kv_heads, 1, 1)"
bug(PG, "heads take turns", (ITS_GROUPS, f"return _by_rows(q, {IN_TURNS.format('k')}, {IN_TURNS.format('v')}, given), None"), "split.groups")
bug(PG, "keys in groups, values in turns", (ITS_GROUPS, f"return _by_rows(q, _share(k, q), {IN_TURNS.format('v')}, given), None"),
    "split.groups_of_values")
bug(PL, "leaks where weights are wanted", ("_with_weights(q, k, v, mask, causal,", "_with_weights(q, k, v, mask, False,"), "mask.leaks")
bug(PL, "dropout on in eval", ("self.dropout if self.training else 0.0", "self.dropout"), "dropout.in_evaluation")
misuse("nn.MultiheadAttention", "batch_first forgotten", "batch.axes", build=lambda c: c(24, 3))
misuse("nn.MultiheadAttention, causal by attn_mask", "True taken for may attend", "mask.inverted_last",
       args=with_args("nn.MultiheadAttention, causal by attn_mask",
                      call=lambda m, x: m(x, x, x, attn_mask=~correct._causal_blocked(x.shape[1]))))

# Layers that hide a bug: fused groups, rotations, zeros, what is kept ---------------------------------------------

FG = "FusedGroups, two for four"
bug("FusedGroups", "no scale", ("is_causal=True", "is_causal=True, scale=1.0"), "scale.missing")
bug(FG, "√d_model for √d_head", ("is_causal=True", "is_causal=True, scale=c ** -0.5"), "scale.d_model_root")
bug(FG, "groups repeated in the wrong order", ("t.repeat_interleave(self.n_heads // self.n_groups, dim=1)", "t.repeat(1, self.n_heads // self.n_groups, 1, 1)"), "split.groups")
bug(FG, "values cut before keys", ("q, k, v = rows.unflatten", "q, v, k = rows.unflatten"), "split.fused_order")
bug(FG, "merged without transpose", ("out.transpose(1, 2).reshape", "out.reshape"), "merge.viewed")
bug(FG, "heads averaged", [("nn.Linear(d_model, d_model)", "nn.Linear(self.d_head, d_model)"), ("out.transpose(1, 2).reshape(b, n, c)", "out.mean(1)")], "merge.averaged")
bug("LlamaLike", "no scale", ("is_causal=self.causal", "is_causal=self.causal, scale=1.0"), "scale.missing")
bug("LlamaLike", "the keys are not rotated", ("rotate(xq), rotate(xk)", "rotate(xq), xk"), "rotation.queries_only")
bug("LlamaLike, looks both ways", "softmax over the queries", ("F.scaled_dot_product_attention(xq, xk, xv, is_causal=self.causal, enable_gqa=True)",
    "(xq @ xk.mT / self.head_dim ** 0.5).softmax(-2) @ xv"), "softmax.over_queries")
bug("LlamaLike, looks both ways", "the root of the model's width", ("enable_gqa=True", "enable_gqa=True, scale=x.shape[-1] ** -0.5"), "scale.d_model_root")
TU = "Turns"
KEYS, BOTH_ROTATED = "k.repeat_interleave(times, dim=1), v", "q, k = rotate(q), rotate(k)"
bug(TU, "keys alone are repeated in turn", (KEYS, "k.repeat(1, times, 1, 1), v"), "split.groups_of_keys")
bug(TU, "keys and values are repeated in turn", [(KEYS, "k.repeat(1, times, 1, 1), v"), ("v.repeat_interleave(times, dim=1)", "v.repeat(1, times, 1, 1)")],
    "split.groups")
bug(TU, "keys and values of the other groups", (BOTH_ROTATED, f"{BOTH_ROTATED}; k, v = k.flip(1), v.flip(1)"), "heads.other_order")
bug(TU, "every head has the first keys", (BOTH_ROTATED, f"{BOTH_ROTATED}; k = k[:, :1].expand_as(k)"), "heads.first_keys")
bug(TU, "keys are cut features first", (BOTH_ROTATED, f"k = self.wk(x).unflatten(-1, (self.head_dim, -1)).movedim(-1, 1); {BOTH_ROTATED}"),
    "split.keys_apart")
bug(TU, "queries are cut features first", (BOTH_ROTATED, f"q = self.wq(x).unflatten(-1, (self.head_dim, -1)).movedim(-1, 1); {BOTH_ROTATED}"),
    "split.queries_apart")
bug(TU, "keys alone of the other groups", (BOTH_ROTATED, f"{BOTH_ROTATED}; k = k.flip(1)"), "heads.keys_in_other_order")
bug(TU, "√d_model for √d_head", ("attn_mask=seen", "attn_mask=seen, scale=x.shape[-1] ** -0.5"), "scale.d_model_root")
FLIPPED = ("k, v = (t.rep", "v = v.flip(1); k, v = (t.rep")
bug("TurnsByOthers", "values in reverse order", FLIPPED, "heads.values_in_other_order")
bug("TurnsByOthers", "the keys are not rotated", (", self.turned(k, cos, sin)", ", k"), "rotation.queries_only")
bug("TurnsByOthers", "the second halves are added", ("a * cos - b * sin", "a * cos + b * sin"), "rotation.sign")
bug("FarCosts", "values in reverse order", ("q, k, v, attn", "q, k, v.flip(1), attn"), "layer.unknown")
misuse("LlamaLike, alone", "believed to know no places", "order.matters", args=with_args("LlamaLike, alone", positions=False, strict=False))
bug("RotatesNeighbours", "no scale", (" * q.shape[-1] ** -0.5", ""), "scale.missing")
AS_COMPLEX = "return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)"
BY_SINES = "cos, sin = (t.repeat_interleave(2, -1) for t in (angles.cos(), angles.sin()))\n        a, b = {}\n        return x * cos + {} * sin"
bug("RotatesNeighbours", "split as halves, joined as neighbours", (AS_COMPLEX, BY_SINES.format("x.chunk(2, -1)", "torch.stack([-b, a], -1).flatten(-2)")), "rotation.split")
bug("RotatesNeighbours", "split as neighbours, joined as halves", (AS_COMPLEX, BY_SINES.format("(x[..., ::2], x[..., 1::2])", "torch.cat([-b, a], -1)")), "rotation.joined")
bug("RotatesNeighbours", "only the keys are rotated", ("self.rotate(q) @", "q @"), "rotation.keys_only")
bug("LlamaBlock", "no scale", ("is_causal=True)", "is_causal=True, scale=1.0)"), "scale.missing")
bug("LlamaBlock of experts", "merged without transpose", (".transpose(1, 2).flatten(2))", ".reshape(x.shape))"), "merge.viewed")
bug("OneGatePerHead", "no sigmoid", ("self.head_gate.sigmoid()", "self.head_gate"), "gate.no_sigmoid")
bug("OneGatePerHead", "no gate", ("(self.most * self.head_gate.sigmoid())", "(0 * self.head_gate + 1)"), "gate.missing")
bug("OneGatePerHead", "gated after the projection", [("context = context * (self.most * self.head_gate.sigmoid())[:, None, None]", "gate = self.head_gate.sigmoid().repeat_interleave(5)"),
    ("return self.out(context.transpose(1, 2).flatten(2))", "return self.out(context.transpose(1, 2).flatten(2)) * gate")], "choice.late")
bug("NormsTheContext", "normalised after the projection", [("self.out_proj(self.inner_norm(", "self.inner_norm(self.out_proj(")], "choice.late")
bug("LearnsItsShare", "applied after the projection", ("self.out_proj(self.gamma * self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v))", "self.gamma * self.out_proj(self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v))"), "choice.late")
bug("OneGatePerHead, up to 2", "up to 1", ("self.most * ", ""), "values.scaled")
bug("OneGatePerHead, up to 2", "no sigmoid", ("self.head_gate.sigmoid()", "self.head_gate"), "layer.step")
bug("TableByDistance", "the bias is subtracted", ("** -0.5 + bias", "** -0.5 - bias"), "bias.subtracted")
bug("LearnedSlopes", "distances are rewarded", ("** -0.5 - penalty", "** -0.5 + penalty"), "bias.subtracted")
bug("SettingsForOtherThings", "keys are cut off at 8", ("q, k, v)", "q, k[:, :, :8], v[:, :, :8])"), "length.cut")
bug("NormedQueries", "the keys are detached", ("self.k_norm(k), v", "self.k_norm(k.detach()), v"), "parameter.part")
bug("StartsAtZero", "no scale", ("is_causal=True", "is_causal=True, scale=1.0"), "scale.missing")
bug("StartsAtZero", "the future is open", (", is_causal=True", ""), "mask.ignored")
bug("StartsAtZero", "values are the keys", ("(self.wq, self.wk, self.wv))", "(self.wq, self.wk, self.wk))"), "project.unused")
bug("BoundedProjections", "the future is open in training", ("self.wo.weight)", "self.wo.weight); self.register_forward_hook(lambda m, a, y: y + 0.1 * y.mean(1, keepdim=True) if m.training else None)"), "mode.mask_in_evaluation")
bug("OneArgument", "True taken for may attend", ("attn_mask=_", "attn_mask=~_"), "mask.inverted")
bug("GroupedQueries", "heads are averaged, and the output projection is three times as wide as a head",
    [("(n_heads * self.head_dim, dim", "(self.head_dim, dim"), ("out.transpose(1, 2).reshape(b, n, -1)", "out.mean(1)")], "merge.averaged", build=lambda c: c(24, 3, 3), args=with_args("GroupedQueries", n_heads=3))
bug("BareParameters", "the values are not projected", ("@ values", "@ x[..., :values.shape[-1]]"), "project.unused")
bug(H, "the values are not projected, and not read", ("@ v", "@ x[..., :v.shape[-1]]"), "parameter.unused")
bug("BareParameters", "all weights are buffers", [(f"self.W_{name} = nn.Parameter(torch.rand(d_in, d_out))", f"self.register_buffer('W_{name}', torch.rand(d_in, d_out))")
                                                for name in ("query", "key", "value")], "parameter.none")
bug(HD, "kept from call to call", ("return self.dropout(weights) @ v", "self.last = 0.5 * getattr(self, 'last', 0) + v.detach().mean()\n        return self.dropout(weights) @ v + self.last"), "state.kept")
bug(HC, "the first word sees nothing", (".triu(1)", ".triu(0)"), "mask.not_itself_first")
bug(HC, "called, then read the wrong way", ("scores = q @", "q = x @ self.q_proj.weight + self.q_proj.bias\n        scores = q @"), "project.untransposed")
bug(HC, "the future is open from the sixteenth word on", (".triu(1)", ".triu(1)\n            future[16:] = False"), "length.future")
bug(HC, "a window of twelve that is not announced", (".triu(1)", ".triu(1)\n            future |= torch.ones_like(future).tril(-12)"), "window.narrow")
bug(H, "the first twelve keys only", ("q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)", "q, k, v = self.q_proj(x), self.k_proj(x[:, :12]), self.v_proj(x[:, :12])"), "length.cut")
bug("AttentionWithResidual", "the first twelve keys only", ("scaled_dot_product_attention(q, k, v)", "scaled_dot_product_attention(q, k[:, :, :12], v[:, :, :12])"), "length.cut")
bug("one head with faint weights", "no scale", (HSCALE, ""), "scale.missing")
bug("one head with faint weights", "softmax over the queries", ("dim=-1)", "dim=-2)"), "softmax.over_queries")
bug(H, "a small number in the denominator", ("weights = torch.softmax(scores, dim=-1)", "weights = (scores - scores.amax(-1, keepdim=True)).exp()\n        weights = weights / (weights.sum(-1, keepdim=True) + 1e-3)"), "softmax.epsilon", missed=True)
bug(H, "32 bits come back", ("self.dropout(weights) @ v", "self.dropout(weights).float() @ v.float()"), "dtype.other", args=with_args(H, dtype="any"))
bug("CausalWithABuffer", "the mask is a parameter", ('self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))',
    "self.mask = nn.Parameter(torch.triu(torch.ones(context_length, context_length), diagonal=1))"), "parameter.unused")

# Positions in the scores: rotations, penalties that grow with the distance, a bias of its own --------------------

RN, LB, BOTH = "RotatesNeighbours", "LinearBias", "LlamaLike, looks both ways"
bug(RN, "the root of the model's width", (" * q.shape[-1] ** -0.5", " * x.shape[-1] ** -0.5"), "scale.d_model_root")
bug(RN, "split with a view", [(".unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t", ".reshape(len(t), self.n_heads, t.shape[1], -1) for t")], "split.viewed")
bug(RN, "merged without transpose", ("@ v).transpose(1, 2).flatten(2))", "@ v).reshape(x.shape))"), "merge.viewed")
bug(RN, "softmax over the queries", ("scores.softmax(-1)", "scores.softmax(-2)"), "softmax.over_queries")
bug(RN, "the values are rotated, too", ("softmax(-1) @ v)", "softmax(-1) @ self.rotate(v))"), "rotation.values")
LSDPA = "F.scaled_dot_product_attention(q, k, v, attn_mask=bias)"
bug(LB, "no scale", (LSDPA, "F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)"), "scale.missing")
bug(LB, "the root of the model's width", (LSDPA, "F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=x.shape[-1] ** -0.5)"), "scale.d_model_root")
bug(LB, "merged without transpose", (LSDPA + ".transpose(1, 2).flatten(2)", LSDPA + ".reshape(x.shape)"), "merge.viewed")
bug(LB, "split with a view", ("p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)", "p(x).reshape(len(x), self.n_heads, n, -1)"), "split.viewed")
bug(LB, "softmax over the queries", (LSDPA, "((q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-2) @ v)"), "softmax.over_queries")
bug(LB, "masked after softmax", (LSDPA, "((q @ k.mT * q.shape[-1] ** -0.5 - 0.1 * distance.abs()).softmax(-1).tril() @ v)"), "mask.after_softmax", unnamed=True)
RBD = "RelativeBias, declared"
bug(RBD, "scaled, though none was said", ("q @ k.mT + bias", "q @ k.mT * q.shape[-1] ** -0.5 + bias"), "scale.usual")
bug(RBD, "the bias is subtracted", ("q @ k.mT + bias", "q @ k.mT - bias"), "bias.subtracted")
bug(RBD, "the bias is multiplied", ("q @ k.mT + bias", "q @ k.mT * bias"), "bias.multiplied")
bug(RBD, "the bias comes after the softmax", ("(q @ k.mT + bias).softmax(-1)", "((q @ k.mT).softmax(-1) + bias)"), "bias.after_softmax")
bug(RBD, "the bias is computed, and not added", ("q @ k.mT + bias", "q @ k.mT + 0 * bias"), "bias.ignored")
bug(RBD, "the bias is transposed", ("q @ k.mT + bias", "q @ k.mT + bias.mT"), "bias.transposed")
bug(RBD, "weights are dropped, and not rescaled", ("(q @ k.mT + bias).softmax(-1)", "((w := (q @ k.mT + bias).softmax(-1)) * (torch.rand_like(w) > 0.2 * self.training))"), "dropout.biased")
bug(RBD, "softmax over the queries", ("softmax(-1)", "softmax(-2)"), "softmax.over_queries")

# More bugs of layers ----------------------------------------------------------------------------------------------

MH, MHC = "MultiHead", "MultiHead, causal"
bug("MultiHead as self-attention", "the mask is made in forward, and saved", ("        scores = q @", "        if not hasattr(self, 'seen') or self.seen.shape[0] < n:\n            self.register_buffer('seen', torch.ones(n, n))\n        scores = q @"), "state.grows")
bug("MultiHead as self-attention", "weights come first", ("return self.out_proj(context)", "return weights, self.out_proj(context)"), "shape.weights_first")
bug(MH, "queries are the values", ("v = self.v_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)", "v = q"), "project.unused")
bug(MH, "keys are split in another order", ("k = self.k_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)", "k = self.k_proj(x).view(b, n, self.d_head, self.n_heads).permute(0, 3, 1, 2)"), "split.keys_apart")
bug(MH, "ReLU behind the projections", ("        scores = q @", "        q, k, v = q.relu(), k.relu(), v.relu()\n        scores = q @"), "route.relu")
bug(MH, "normalised over the words", ("        scores = q @", "        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)\n        scores = q @"), "norm.over_positions")
bug(MH, "scores are squashed", ("        if self.causal:", "        scores = scores.tanh()\n        if self.causal:"), "scores.tanh")
bug(MHC, "a mask times minus infinity", ('scores = scores.masked_fill(future, float("-inf"))', 'scores = scores + future.float() * float("-inf")'), "values.nan")
bug("SequenceFirstInside", "no scale", (" * self.head_dim ** -0.5", ""), "scale.missing")
bug("SequenceFirstInside", "merged as sentence first", (".transpose(0, 1).contiguous().view(n, b, width)", ".contiguous().view(n, b, width)"), "merge.batch")

# Softmax ---------------------------------------------------------------------------------------------------------

S, L = "shifted softmax", "over the last"
TOP = "x.max(dim=dim, keepdim=True).values"
bug(S, "not shifted", (f"x - {TOP}", "x"), "softmax.overflows")
bug(S, "shifted by the largest of all", (TOP, "x.max()"), "softmax.whole_maximum")
bug(S, "shifted by the mean", (TOP, "x.mean(dim=dim, keepdim=True)"), "softmax.overflows")
bug(S, "shifted by the smallest", (TOP, "x.min(dim=dim, keepdim=True).values"), "softmax.overflows")
bug("wide softmax", "the wider type comes back", (".to(x.dtype)", ""), "dtype.other", args=with_args("wide softmax", dtype="any"))
bug(S, "clamped at 50", (f"x - {TOP}", "x.clamp(max=50.0)"), "softmax.cut")
bug(S, "sums over everything", ("e.sum(dim=dim, keepdim=True)", "e.sum()"), "softmax.sum_over_all")
bug(S, "always over the last", (f"torch.exp(x - {TOP})", "torch.exp(x - x.amax(-1, keepdim=True)); dim = -1"), "softmax.dim")
bug(S, "always over the first", (f"torch.exp(x - {TOP})", "torch.exp(x - x.amax(0, keepdim=True)); dim = 0"), "softmax.dim")
bug(S, "the shift has a gradient of its own, the sum has none", ("e.sum(dim=dim, keepdim=True)", "e.sum(dim=dim, keepdim=True).detach()"), "grad.wrong")
bug(L, "over the rows' other dimension", ("exps.sum(-1, keepdim=True)", "exps.sum(-2, keepdim=True)"), "softmax.dim", unnamed=True)
bug(L, "in place", ("x = x - x.amax(-1, keepdim=True)", "x -= x.amax(-1, keepdim=True)"), "input.modified")
bug(L, "a sum that is broadcast the other way", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1)[..., None, :] if exps.ndim > 1 and exps.shape[-1] == exps.shape[-2] else exps.sum(-1, keepdim=True))"),
    "softmax.keepdim_shifted")
bug(L, "keepdim forgotten", ("exps.sum(-1, keepdim=True)", "exps.sum(-1)"), "softmax.only_square")
bug(L, "a small number in the denominator", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1, keepdim=True) + 0.01)"), "softmax.epsilon")
bug(L, "one too many in the denominator", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1, keepdim=True) + 1)"), "softmax.plus_one_shifted")
bug(L, "sigmoid", ("exps / exps.sum(-1, keepdim=True)", "torch.sigmoid(x)"), "weights.sums")
bug(L, "absolute values, no exponential", ("exps = x.exp()", "exps = x.abs() + 1e-6"), "softmax.unknown")
bug(L, "powers of two", ("x.exp()", "torch.exp2(x)"), "softmax.base_2")
bug(L, "a temperature by accident", ("exps = x.exp()", "exps = (x / x.shape[-1] ** 0.5).exp()"), "softmax.temperature")
bug(L, "twice", ("exps / exps.sum(-1, keepdim=True)", "torch.softmax(exps / exps.sum(-1, keepdim=True), -1)"), "softmax.twice")
bug(L, "all on the largest", ("exps / exps.sum(-1, keepdim=True)", "(x == 0).to(x.dtype) / (x == 0).sum(-1, keepdim=True)"), "softmax.argmax", also="grad.none")
bug(L, "squeezed", ("exps / exps.sum(-1, keepdim=True)", "(exps / exps.sum(-1, keepdim=True)).squeeze()"), "softmax.shape")
bug("by log softmax", "the logarithm is left", (".exp()", ""), "softmax.log")
bug("online softmax", "the old sum is not rescaled", ("total = total * (top - new).exp() +", "total = total +"), "weights.sums")
bug("wide softmax", "narrow", ("x.double() / temperature", "x.half() / temperature"), "dtype.narrow")
bug("softmax with its own backward", "a backward without the sum", ("(grad - (y * grad).sum(-1, keepdim=True))", "grad"), "grad.wrong")
bug(S, "the sum runs over all rows", ("e.sum(dim=dim, keepdim=True)", "e.sum()"), "softmax.sum_over_all")
bug(S, "computed in bfloat16", ("torch.exp(x - x.max(dim=dim, keepdim=True).values)", "torch.exp((x - x.max(dim=dim, keepdim=True).values).bfloat16())"), "dtype.narrow")
TOPS = "torch.stack([each.amax(-1) for each in x.split(part, -1)], -1).amax(-1, keepdim=True)"
bug("softmax in parts", "the largest of the first part", (TOPS, "x[..., :part].amax(-1, keepdim=True)"), "softmax.part_maximum")
bug("softmax in parts", "the largest of the last part, in long ones", [("part=4", "part=64"), (TOPS, "x.split(part, -1)[-1].amax(-1, keepdim=True)")], "softmax.part_maximum")
PS = "package: softmax"
bug(L, "a tiny number in the denominator", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1, keepdim=True) + 1e-4)"), "softmax.epsilon")
bug(PS, "not shifted", ("e = (z - z.amax(dim, keepdim=True).detach()).exp()", "e = z.exp()"), "softmax.overflows")
bug(PS, "another sum", ("return (e / e.sum(dim, keepdim=True)).to(x.dtype)", "return (e / e.sum(-2, keepdim=True)).to(x.dtype)"), "softmax.dim", unnamed=True)
bug(PS, "detached", ("return (e / e.sum(dim, keepdim=True)).to(x.dtype)", "return (e / e.sum(dim, keepdim=True)).detach().to(x.dtype)"), "grad.none")
misuse("F.softmax", "no dim given", "softmax.dim", build=lambda f: lambda x: f(x))

# Masked softmax --------------------------------------------------------------------------------------------------

X, Z = "fill softmax fill", "sums of the allowed"
bug(X, "the mask is ignored", [("scores.masked_fill(~mask, float(\"-inf\")).softmax", "scores.softmax"), ("return weights.masked_fill(~mask, 0)", "return weights")], "mask.ignored")
bug(X, "the mask is inverted", [("scores.masked_fill(~mask", "scores.masked_fill(mask"), ("weights.masked_fill(~mask", "weights.masked_fill(mask")],
    "mask.inverted")
bug(X, "32 bits come back", ("scores.masked_fill(~mask", "scores.float().masked_fill(~mask"), "dtype.other", args=with_args(X, dtype="any"))
bug(X, "nothing is returned", ("    return weights", "    weights"), "code.returns_nothing")
bug(X, "fully masked rows are NaN", ("weights.masked_fill(~mask, 0)", "weights"), "mask.empty_nan")
bug(X, "fully masked rows are uniform", [('float("-inf")', "torch.finfo(scores.dtype).min"), ("weights.masked_fill(~mask, 0)", "weights")], "mask.equal_weights")
bug(X, "-1e9, uniform rows, and float16 fails", [('float("-inf")', "-1e9"), ("weights.masked_fill(~mask, 0)", "weights")], "mask.equal_weights")
bug(X, "-1e9 in float16", ('float("-inf")', "-1e9"), "dtype.no_infinity", args=with_args(X, dtype="any"))
bug(X, "-100 for minus infinity", ('float("-inf")', "-100.0"), "softmax.cut")
bug(X, "0 for minus infinity", ('float("-inf")', "0.0"), "mask.sums")
bug(X, "masked after softmax", ("scores.masked_fill(~mask, float(\"-inf\")).softmax(dim=-1)", "scores.softmax(dim=-1)"), "mask.after_softmax")
bug(X, "masked after softmax, then renormalised", [("scores.masked_fill(~mask, float(\"-inf\")).softmax(dim=-1)", "scores.softmax(dim=-1)"),
    ("return weights.masked_fill(~mask, 0)", "weights = weights.masked_fill(~mask, 0)\n    return (weights / weights.sum(-1, keepdim=True)).nan_to_num(0)")],
    "mask.influence")
bug(X, "scores times mask", ("scores.masked_fill(~mask, float(\"-inf\")).softmax", "(scores * mask).softmax"), "mask.sums")
bug(X, "fills in place", ("scores.masked_fill(", "scores.masked_fill_("), "input.modified")
bug(X, "turns the mask in place", ("    weights = scores.masked_fill(~mask", "    mask.logical_not_()\n    weights = scores.masked_fill(mask"), "input.mask_modified")
bug(X, "softmax over the queries", ("softmax(dim=-1)", "softmax(dim=-2)"), "softmax.over_queries")
bug(X, "the mask is transposed where it is square", [("    weights = scores", "    mask = mask.mT if mask.ndim > 1 and mask.shape[-1] == mask.shape[-2] else mask\n    weights = scores")],
    "mask.axis")
bug(X, "only masks of the scores' own shape", [("    weights = scores", "    assert mask.shape == scores.shape\n    weights = scores")], "mask.broadcast")
bug(X, "the mask of the first of the batch", [("    weights = scores", "    mask = mask[:1] if mask.ndim == scores.ndim else mask\n    weights = scores")], "mask.axis")
bug("lowest number then mask", "added, not filled", ("torch.where(mask, scores, torch.finfo(scores.dtype).min)", "scores + torch.where(mask, 0.0, -1e4).to(scores.dtype)"),
    "mask.influence")
bug("lowest number then mask", "not masked again", (" * mask", ""), "mask.equal_weights")
bug("nan to num after", "uniform where nothing is allowed", (".nan_to_num(0.0)", ".nan_to_num(1 / scores.shape[-1])"), "mask.equal_weights")
bug("nan to num after", "the gradient of a fully masked row is NaN", ('torch.where(mask, scores, float("-inf"))', 'scores + torch.where(mask, 0.0, float("-inf")).to(scores.dtype)'), "mask.empty_gradient")
bug(Z, "the largest of all, blocked or not", ("scores.masked_fill(~mask, low).max(-1", "scores.max(-1"), "mask.influence")
bug(Z, "the sum of all, blocked or not", ("(scores.masked_fill(~mask, low) - top).exp().masked_fill(~mask, 0)", "(scores - top).exp()"), "mask.ignored")
bug(Z, "0 / 0", ("torch.where(total == 0, torch.ones_like(total), total)", "total"), "mask.empty_nan")
bug(Z, "a small number in the denominator", ("torch.where(total == 0, torch.ones_like(total), total)", "(total + 1e-2)"), "softmax.epsilon")
bug(Z, "no shift", (" - top).exp()", ").exp()"), "softmax.overflows")
bug(Z, "a tiny number in the denominator", ("torch.where(total == 0, torch.ones_like(total), total)", "(total + 1e-3)"), "softmax.epsilon")
bug("masked in log space", "the dead rows are left", ("exp().masked_fill(dead, 0)", "exp()"), "mask.equal_weights")
bug("bias where something is allowed", "computed in float16", ("F.softmax(scores.float() + bias.float(), dim=-1)", "F.softmax(scores.half() + bias.half(), dim=-1)"), "dtype.narrow")
bug("masked softmax in parts", "the largest of the first part", ("torch.stack([each.amax(-1) for each in filled], -1)", "filled[0]"), "softmax.part_maximum")
PM = "package: masked_softmax"
bug(PM, "NaN where nothing is allowed", ("total.masked_fill(total == 0, 1)", "total"), "mask.empty_nan")
bug(PM, "-inf minus -inf", ("top.masked_fill(top == float(\"-inf\"), 0)", "top"), "mask.empty_nan")
bug(PM, "the mask is inverted", ("z = at_least_float32(scores).masked_fill(~mask", "z = at_least_float32(scores).masked_fill(mask"), "mask.inverted")
bug(PM, "-1e4 for minus infinity", ('masked_fill(~mask, float("-inf"))', "masked_fill(~mask, -1e4)"), "mask.leaks_if_low", also="mask.equal_weights")

# Layers that were once not read: a sentence at a time, convolutions, blocks, stacked matrices ---------------------

bug("OneSentence", "softmax over the queries", ("dim=1) @ v", "dim=0) @ v"), "softmax.over_queries")
bug("OneSentence", "divides by √n", ("k.size(1) **", "k.size(0) **"), "scale.keys_root")
bug("Convolutions", "softmax over the queries", ("softmax(-1)", "softmax(-2)"), "softmax.over_queries")
bug("Convolutions", "the root of all heads' width", ("(x.shape[1] // self.n_heads) **", "x.shape[1] **"), "scale.d_model_root")
bug("FixedSlopes", "the root of all heads' width", ("q.shape[-1] ** 0.5", "x.shape[-1] ** 0.5"), "scale.d_model_root")
bug("GptBlock", "no scale", (" / k.shape[-1] ** 0.5", ""), "scale.missing")
bug("GptBlock", "softmax over the queries", ("softmax(-1)", "softmax(-2)"), "softmax.over_queries")
bug("GptBlock", "softmax over the heads", ("softmax(-1)", "softmax(1)"), "softmax.over_heads_or_batch")
bug("StackedMatrices", "no scale", (" / k.shape[-1] ** 0.5", ""), "scale.missing")
bug("StackedMatrices", "the root of the input's width", ("k.shape[-1] ** 0.5", "x.shape[-1] ** 0.5"), "scale.d_model_root")
bug("WeightsToo", "weights are returned transposed", (".flatten(2)), weights", ".flatten(2)), weights.mT"), "weights.returned_sums")
bug("WeightsToo", "a temperature", ("q.shape[-1] ** 0.5)", "q.shape[-1] ** 0.5 / 0.7)"), "scale.head_constant")
bug("WeightsToo", "a name that is not defined", ("weights = (q", "weights = (qs"), "code.error")
bug("RawScoresToo", "1 is added where forbidden", ('masked_fill(_causal_blocked(x.shape[1]), float("-inf"))', "add(_causal_blocked(x.shape[1]) / q.shape[-1] ** 0.5)"),
    "mask.added_inverted")
bug("GptBlock", "divides by √n, with five heads", ("k.shape[-1] **", "k.shape[-2] **"), "scale.keys_root",
    build=lambda c: c(30, 5), args=with_args("GptBlock", d_model=30))
bug("MultiHead, dropout", "a ReLU behind the output", ("return self.out_proj(context)", "return F.relu(self.out_proj(self.dropout(context)))"), "project.more")
bug("LlamaLike", "keys are split by view", ("out = F.scaled", "xk = rotate(self.wk(x).view(b, -1, n, self.head_dim))\n        out = F.scaled"), "split.viewed_k")


# Positions ------------------------------------------------------------------------------------------------------

RH = "rotates halves, found out"
SPEED = "base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])"
bug(RH, "gives rows back as they were", ("return (x * cos + rotated * sin).to(x.dtype)", "return x.clone()"), "rotary.identity")
bug(RH, "another base", ("base=10000.0", "base=500000.0"), "rotary.base")
bug(RH, "a base in no list", ("base=10000.0", "base=12345.0"), "rotary.base")
bug(RH, "exponents of whole pairs", (SPEED, "base ** (torch.arange(x.shape[-1] // 2).float() / x.shape[-1])"), "rotary.exponent")
bug(RH, "the two twice", (SPEED, "base ** (2 * torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])"), "rotary.exponent_twice")
bug(RH, "linspace with both ends", (SPEED, "base ** torch.linspace(0, 1, x.shape[-1] // 2)"), "rotary.exponent_ends")
bug(RH, "frequencies that grow", ("1.0 / base **", "base **"), "rotary.growing")
bug(RH, "places from one", ("positions.float()[:, None]", "(positions.float()[:, None] + 1)"), "rotary.from_one")
bug(RH, "places are ignored", ("positions.float()[:, None]", "torch.arange(x.shape[-2]).float()[:, None]"), "rotary.positions_ignored")
bug(RH, "degrees", ("positions.float()[:, None] * speeds", "torch.deg2rad(positions.float()[:, None] * speeds)"), "rotary.degrees")
bug(RH, "rounds, not radians", ("positions.float()[:, None] * speeds", "2 * math.pi * positions.float()[:, None] * speeds"), "rotary.rounds")
bug(RH, "angles repeated for neighbours", ("cos, sin = torch.cat((angles, angles), dim=-1).cos(), torch.cat((angles, angles), dim=-1).sin()",
                                           "cos, sin = (t.repeat_interleave(2, -1) for t in (angles.cos(), angles.sin()))"), "rotary.mixed")
bug(RH, "turns the other way", ("torch.cat((-x2, x1), dim=-1)", "torch.cat((x2, -x1), dim=-1)"), "rotary.backwards")
bug(RH, "a minus is forgotten", ("torch.cat((-x2, x1), dim=-1)", "torch.cat((x2, x1), dim=-1)"), "rotary.no_minus")
bug(RH, "sine and cosine swapped", ("x * cos + rotated * sin", "x * sin + rotated * cos"), "rotary.swapped")
bug(RH, "the sine is forgotten", ("x * cos + rotated * sin", "x * cos"), "rotary.cosine_only")
bug(RH, "a residual on top", ("x * cos + rotated * sin", "x + x * cos + rotated * sin"), "rotary.residual")
bug(RH, "scaled by the width", ("(x * cos + rotated * sin)", "((x * cos + rotated * sin) / x.shape[-1] ** 0.5)"), "rotary.scaled")
bug(RH, "angles in the type of the rows", ("positions.float()[:, None] * speeds", "positions.to(x.dtype)[:, None] * speeds.to(x.dtype)"), "rotary.half", args=with_args(RH, dtype="any"))
bug(RH, "from one, and the other way", (("positions.float()[:, None]", "(positions.float()[:, None] + 1)"),
                                        ("torch.cat((-x2, x1), dim=-1)", "torch.cat((x2, x1), dim=-1)")), "rotary.from_one+rotary.no_minus")
misuse(RH, "believed to pair neighbours", "rotary.pairing", args=with_args(RH, interleaved=True))
misuse("rotates by complex numbers, found out", "believed to pair halves", "rotary.pairing",
       args=with_args("rotates by complex numbers, found out", interleaved=False))
misuse(RH, "believed to be scaled", "rotary.unscaled", args=with_args(RH, scaling={"rope_type": "linear", "factor": 3.0}))
bug("rotates by complex numbers, found out", "all pairs alike", ("torch.arange(0, x.shape[-1], 2) / x.shape[-1]", "torch.zeros(x.shape[-1] // 2)"),
    "rotary.one_speed")
misuse("rotates a part", "believed to rotate all", "rotary.partial", args={"d_head": 12})
bug("rotates a part", "rotates all", ("torch.cat([rotates_halves(x[..., :4], positions), x[..., 4:]], -1)", "rotates_halves(x, positions)"), "rotary.partial")
bug("rotates a part", "the rest is lost", ("x[..., 4:]]", "0 * x[..., 4:]]"), "rotary.rest")
bug("rotates in loops", "overwritten in place", ("second.append(b * math.cos(angle) + a", "second.append(b * math.cos(angle) + first[-1]"), "rotary.in_place")
bug("rotates in loops", "the second number stays", ("second.append(b * math.cos(angle) + a * math.sin(angle))", "second.append(b)"), "rotary.half_only")
bug("alibi", "far words are raised", ("return -all_slopes", "return all_slopes"), "alibi.sign")
bug("alibi", "the first query at the first key", ("torch.arange(n_k - n_q, n_k)", "torch.arange(n_q)"), "alibi.corner")
bug("alibi", "slopes begin at one", ("start ** (i + 1)", "start ** i"), "alibi.slopes_from_one")
bug("ALiBi, 12 heads", "the formula of powers of two", ("slopes(near) + slopes(2 * near)[0::2][:n_heads - near]",
                                                                                  "[2 ** (-8 * (i + 1) / n_heads) for i in range(n_heads)]"), "alibi.not_a_power")
bug("alibi", "one slope for all", ("all_slopes[:, None, None] *", "all_slopes[:1, None, None].expand(n_heads, 1, 1) *"), "alibi.one_slope")
bug("ALiBi as in Bloom", "far words are raised", ("return (slopes", "return (-slopes"), "alibi.sign")
bug("alibi", "no absolute value", ("distance.abs()", "-distance"), "alibi.signed")
bug("alibi", "distances from one", ("distance.abs()", "(distance.abs() + 1)"), "alibi.from_one")
bug("alibi", "places make no difference", ("distance.abs()", "distance.abs() * 0"), "alibi.no_difference")
bug("learned by distance", "by place, not by distance", ("torch.arange(n_k)[None, :] - torch.arange(n_k - n_q, n_k)[:, None]",
                                                         "(torch.arange(n_k) - 3).expand(n_q, n_k)"), "alibi.absolute")
# Windows, sinks and packed texts --------------------------------------------------------------------------------

W, NEAR = "through a window", "(back >= 0) & (back < window)"
bug(W, "one word too few", ("back < window)", "back < window - 1)"), "window.size")
bug(W, "one word too many", ("back < window)", "back <= window)"), "window.size")
bug(W, "without the word itself", ("back >= 0", "back > 0"), "mask.not_itself")
bug(W, "wholly before the word", (NEAR, "(back > 0) & (back <= window)"), "window.shifted")
bug(W, "begins with the next word", (NEAR, "(back >= -1) & (back < window - 1)"), "window.band")
bug(W, "both sides", (NEAR, "back.abs() < window"), "window.band")
bug(W, "centred", (NEAR, "back.abs() <= window // 2"), "window.band")
bug(W, "looks ahead", (NEAR, "(back <= 0) & (-back < window)"), "window.band")
bug(W, "no window", (" & (back < window)", ""), "window.ignored")
bug(W, "upside down", ("back < window)", "back >= window)"), "window.inverted")
bug(W, "twice as wide", ("back < window)", "back < 2 * window)"), "window.size")
bug(W, "half as wide", ("back < window)", "back < window // 2)"), "window.size")
PLACES = "(torch.arange(n_k - n_q, n_k)[:, None] // window - torch.arange(n_k) // window"
bug(W, "blocks that do not slide", ("(back < window)", f"{PLACES} == 0)"), "window.blocks")
bug(W, "blocks that are open", (NEAR, f"{PLACES} == 0)"), "window.blocks_open")
bug(W, "its block and the one before", ("(back < window)", f"{PLACES} <= 1)"), "window.two_blocks")
bug(W, "the last keys for all", ("(back < window)", "(torch.arange(n_k) >= n_k - window)"), "window.last_keys")
bug(W, "uniform weights", ("F.scaled_dot_product_attention(q, k", "F.scaled_dot_product_attention(q * 0, k"), "softmax.uniform")
bug(W, "no scale", ("attn_mask=allowed)", "attn_mask=allowed, scale=1.0)"), "scale.missing")
bug(W, "the mask takes the window's place", ("allowed & mask", "mask"), "mask.replaces_causal")
bug("through a window, last query at the last key", "one word too many", ("back < window)", "back <= window)"), "window.size")
bug("window by gathering", "the padding is seen", ("arange(3) < 2", "arange(3) < 0"), "weights.sums")
bug("window by gathering", "one word too many", [("(0, 0, 2, 0)).unfold(-2, 3, 1)", "(0, 0, 3, 0)).unfold(-2, 4, 1)"), ("torch.arange(3) < 2", "torch.arange(4) < 3")],
    "window.size")
bug("band of a bias", "one word too few", ("tril(n_k - n_q - 3)", "tril(n_k - n_q - 2)"), "window.size")
bug("band of a bias", "one word too many", ("tril(n_k - n_q - 3)", "tril(n_k - n_q - 4)"), "window.size")
misuse("square causal", "believed to have a window", "window.ignored", args=dict(causal=True, window=4))
misuse(W, "believed to be wider", "window.size", args=dict(window=5))
misuse(W, "believed to keep a sink", "sinks.forgotten", args=dict(window=4, sinks=1))
S, KEPT = "window and sinks", "(back >= 0) & (near | kept)"
bug(S, "sinks forgotten", ("near | kept", "near"), "sinks.forgotten")
bug(S, "joined by and", ("near | kept", "near & kept"), "sinks.joined_by_and")
bug(S, "brackets forgotten", (KEPT, "(back >= 0) & near | kept"), "sinks.ahead")
bug(S, "one too few", ("torch.arange(n_k) < 2", "torch.arange(n_k) < 1"), "sinks.one_short")
bug(S, "one too many", ("torch.arange(n_k) < 2", "torch.arange(n_k) <= 2"), "sinks.one_long")
bug(S, "the window is off by one", ("back < 4", "back <= 4"), "window.size")
D = "packed"
bug(D, "texts leak", ("(ids[:, None] == ids) & ", ""), "documents.leak")
bug(D, "the border is off by one", ("torch.arange(n) // 4", "(torch.arange(n) + 1) // 4"), "documents.shifted")
bug(D, "the text before is seen", ("ids[:, None] == ids", "ids[:, None] - ids <= 1"), "documents.before")
bug(D, "the others only", ("ids[:, None] == ids", "ids[:, None] != ids"), "documents.inverted")
bug(D, "the future of its own text", (" & torch.ones(n, n, dtype=torch.bool).tril()", ""), "documents.future")
bug("packed, both ways", "texts leak", ("mine[:, None] == ids", "mine[:, None] >= 0"), "documents.leak")
bug("package: local_attention", "blocks see the whole window before", ("window_mask(step, span, window, q.device)", "torch.ones(step, span).bool()"), "mask.leaks")
bug("package: local_attention", "windows one too narrow", ("window = min(window, n_k)", "window = min(window, n_k) - 1"), "window.size")
bug("Band", "one word too many", ("back < self.far", "back <= self.far"), "window.size")
bug("Band", "one word too few", ("back < self.far", "back < self.far - 1"), "window.size")
bug("Band", "no window", (" & (back < self.far)", ""), "window.ignored")
bug("Band", "both sides", ("(back >= 0) & (back < self.far)", "back.abs() < self.far"), "mask.leaks", also="mask.narrow")
bug("Band, one head", "one word too many", ("back < self.far", "back <= self.far"), "window.size")
for WIDE in ("Band, as wide as the trial", "Band, wide", "Band, as wide as in gpt-oss", "Turns, through a window"):
    bug(WIDE, "one word too many", ("back < self.far", "back <= self.far"), "window.size")
    bug(WIDE, "one word too few", ("back < self.far", "back < self.far - 1"), "window.size")
    bug(WIDE, "no window", (" & (back < self.far)", ""), "window.ignored")
PLACES = "(torch.arange(x.shape[1])[:, None] // self.far == torch.arange(x.shape[1]) // self.far)"
bug("Band, wide", "blocks that do not slide", ("(back < self.far)", PLACES), "window.blocks", unnamed=True)
bug("Turns, through a window", "blocks that do not slide", ("(back < self.far)", PLACES), "window.blocks", unnamed=True)
bug("transformers: GptOss, a window of 4", "one word too many", (">= self.attention", "> self.attention"), "window.size")
bug("transformers: GptOss, a window of 16", "one word too many", (">= self.attention", "> self.attention"), "window.size")
# Layers with a cache ----------------------------------------------------------------------------------------------

W, GR, KV = "Writes", "Grows", "package: KVCache"
READ = "return self.k[:, :, :longest], self.v[:, :, :longest]"
ALLOWED = "allowed = torch.arange(k.shape[2]) <= places[..., None]"
bug(W, "only what is new is read", (READ, "return k, v"), "cache.forgets")
bug(W, "always written to the first place", [("self.k[row, :, start:start + n]", "self.k[row, :, :n]"), ("self.v[row, :, start:start + n]", "self.v[row, :, :n]")],
    "cache.stored")
bug(W, "the upper left corner", [(ALLOWED, ""), ("out = F.scaled_dot_product_attention(q, k, v, allowed[:, None])",
    "out = F.scaled_dot_product_attention(q, k, v, is_causal=True)")], "cache.corner")
bug(W, "the triangle of a first chunk", (ALLOWED, "allowed = (torch.arange(k.shape[2]) <= torch.arange(n)[:, None]).expand(b, -1, -1)"), "cache.corner")
bug(W, "the last four only", ("allowed = torch.arange(k.shape[2]) <= places[..., None]",
    "allowed = (torch.arange(k.shape[2]) <= places[..., None]) & ((torch.arange(k.shape[2]) > places[..., None] - 4) | (cache is None))"), "cache.drops")
bug(W, "the oldest word is overwritten", ("self.k[row, :, start:start + n] = k[row]\n",
    "self.k[row, :, start:start + n] = k[row]\n                self.k[row, :, :1] *= float(start == 0 or n > 1)\n                self.v[row, :, :1] *= float(start == 0 or n > 1)\n"),
    "cache.stored")
bug(W, "read before the new word is in", ("allowed = torch.arange(k.shape[2]) <= places[..., None]", "allowed = torch.arange(k.shape[2]) < places[..., None] + (cache is None)"),
    "cache.late")
bug(W, "places begin anew", ("q, k = _turned(q, places), _turned(k, places)",
    "q, k = _turned(q, torch.arange(n)[None]), _turned(k, torch.arange(n)[None])"), "cache.positions")
bug(W, "every word at place 0 when it is alone", ("q, k = _turned(q, places), _turned(k, places)",
    "q, k = (_turned(t, places * float(n > 1)) for t in (q, k))"), "cache.positions")
bug(W, "keys are kept unturned", [("q, k = _turned(q, places), _turned(k, places)", "q, k, raw = _turned(q, places), _turned(k, places), k"),
    ("k, v = cache.append(k, v)", "new, (k, v) = k, cache.append(raw, v)\n            k = torch.cat([k[:, :, :-n], new], dim=2)")], "cache.positions")
bug(GR, "turned keys are kept, and turned again", ("        q, k = _turned", "        if cache is not None:\n            cache.update(k=_turned(k, places))\n        q, k = _turned"),
    "cache.positions")
bug(W, "queries stand at place 0 with a cache", ("q, k = _turned(q, places), _turned(k, places)",
    "q, k = _turned(q, places * (cache is None)), _turned(k, places)"), "cache.query_positions")
bug(W, "the new word reads the old ones only", (ALLOWED, ALLOWED + " - ((places[..., None] > 0) * (0 if cache is None else 1))"), "cache.late")
bug(W, "values in the keys' memory", ("self.k[row, :, start:start + n] = k[row]", "self.k[row, :, start:start + n] = v[row]"), "cache.stored")
bug(W, "values are never written", ("self.v[row, :, start:start + n] = v[row]", "pass"), "cache.values")
bug(W, "keys are written to the first place, values to theirs", ("self.k[row, :, start:start + n]", "self.k[row, :, :n]"), "cache.stored")
bug(W, "heads are kept in another order", ("self.k[row, :, start:start + n] = k[row]", "self.k[row, :, start:start + n] = k[row].roll(1, 0)"), "cache.groups")
bug(W, "unscaled with a cache", ("allowed[:, None])", "allowed[:, None], scale=1.0 if cache else None)"), "cache.values")
bug(W, "all rows read the first one's keys", (READ, "return self.k[:1, :, :longest].expand_as(self.k[:, :, :longest]), self.v[:, :, :longest]"), "cache.mixes_sequences")
bug(W, "rows read their neighbour's words", (READ, "return self.k[:, :, :longest].roll(1, 0), self.v[:, :, :longest].roll(1, 0)"), "cache.mixes_sequences")
bug(W, "no mask", (ALLOWED, "allowed = torch.ones(b, n, k.shape[2], dtype=torch.bool)"), "cache.full_future")
bug(W, "no mask with a cache", (ALLOWED, ALLOWED + " + (n if cache else 0)"), "cache.chunk_future", also="cache.padding")
bug(W, "no mask for a chunk that goes on", (ALLOWED, ALLOWED + " + (n if k.shape[2] > n else 0)"), "cache.chunk_future", also="cache.padding")
bug(W, "a chunk looks at itself only", ("k, v = cache.append(k, v)",
    "new = k, v\n            k, v = cache.append(k, v)\n            k, v, places = (*new, torch.arange(n).expand(b, n)) if n > 1 else (k, v, places)"), "cache.chunk_alone")
bug(W, "a chunk's places begin anew", ("q, k = _turned(q, places), _turned(k, places)",
    "q, k = (_turned(t, places if n == 1 else torch.arange(n)[None]) for t in (q, k))"), "cache.chunk_positions")
bug(W, "places count from the length behind the chunk", ("q, k = _turned(q, places), _turned(k, places)",
    "q, k = (_turned(t, places + n) for t in (q, k))"), "cache.chunk_positions")
bug(W, "a chunk stands at one place", ("q, k = _turned(q, places), _turned(k, places)",
    "q, k = (_turned(t, places[:, :1].expand(b, n) if cache else places) for t in (q, k))"), "cache.chunk_positions")
bug(GR, "one cache for all texts", ("return {}", 'return vars(self).setdefault("kept", {})'), "cache.not_cleared")
bug(W, "reset forgets to", ("self.lengths = torch.zeros_like(self.lengths)", "pass"), "cache.reset")
bug(W, "truncate cuts the memory, not the length", ("self.lengths = self.lengths.clamp(max=n) if isinstance(n, int) else torch.minimum(self.lengths, n)",
    "self.k[:, :, int(torch.as_tensor(n).max()):] = 0"), "cache.truncate")
bug(W, "truncate takes n away", ("self.lengths.clamp(max=n) if isinstance(n, int) else torch.minimum(self.lengths, n)", "(self.lengths - n).clamp(min=0)"), "cache.truncate")
bug(W, "padding is seen", (ALLOWED, "allowed = (torch.arange(k.shape[2]) <= places.amax(0)[:, None]).expand(b, -1, -1)"), "cache.padding")
bug(W, "all rows end where the longest does", ("torch.minimum(self.lengths, n)", "torch.minimum(self.lengths, n) * 0 + n.max()"), "cache.padding")
bug(W, "words are turned by the places of the longest row", ("q, k = _turned(q, places), _turned(k, places)",
    "q, k = (_turned(t, places.amax(0, keepdim=True)) for t in (q, k))"), "cache.sequence_ends")
bug(W, "reorder moves nothing", ("self.k, self.v = self.k[rows], self.v[rows]\n            self.lengths = self.lengths[rows]", "pass"), "cache.reorder")
bug(W, "reorder the other way round", ("self.k, self.v = self.k[rows], self.v[rows]", "rows = rows.argsort()\n            self.k, self.v = self.k[rows], self.v[rows]"),
    "cache.reorder")
bug(W, "reorder moves keys only", ("self.k, self.v = self.k[rows], self.v[rows]", "self.k = self.k[rows]"), "cache.reorder")
bug(W, "reorder leaves the lengths", ("self.v[rows]\n            self.lengths = self.lengths[rows]", "self.v[rows]"), "cache.reorder")
bug(W, "reorder row by row, in place", ("self.k, self.v = self.k[rows], self.v[rows]",
    "for to, of in enumerate(rows.tolist()):\n                self.k[to], self.v[to] = self.k[of], self.v[of]"), "cache.reorder")
bug(W, "grows instead of refusing", ('raise ValueError("the cache is full")', "self.k, self.v = (F.pad(t, (0, 0, 0, n)) for t in (self.k, self.v))"), "cache.full_silent")
bug(W, "a full cache drops what is too much", ('raise ValueError("the cache is full")', "return self.k, self.v"), "cache.full_silent")
bug(W, "counts before it refuses", ('raise ValueError("the cache is full")', 'self.lengths = self.lengths + n\n                raise ValueError("the cache is full")'), "cache.full_changed")
misuse(GR, "believed to have a buffer made once", "cache.copies", args={"d_model": 24}, also="cache.full_silent")
bug(W, "what is kept is laid together anew", (READ, "self.k, self.v = (torch.cat([t[:, :, :longest], t[:, :, longest:]], dim=2) for t in (self.k, self.v))\n            " + READ), "cache.copies")
bug(W, "what is kept is copied", (READ, "self.k, self.v = self.k.clone(), self.v.clone()\n            " + READ), "cache.copies")
bug(KV, "always on the even path", ("self.equal_lengths = bool((lengths == self.longest).all())", "self.equal_lengths = True"), "cache.sequence_ends")
bug(KV, "the future of a chunk", ("<= queries[..., None])[:, None]", "<= queries[:, -1:, None])[:, None].expand(-1, -1, n_q, -1)"), "cache.chunk_future")
bug(KV, "lengths stay when rows move", ("self._set_lengths(self.lengths[chosen])", "self._set_lengths(self.lengths)"), "cache.reorder")
bug(KV, "truncate keeps at least n", ("lengths = torch.minimum(", "lengths = torch.maximum("), "cache.truncate")


# Cross-attention ----------------------------------------------------------------------------------------------------

X, WIDE, GROUPED, LISTED = "Translates", "Translates, another width", "SharesKeys", "ThreeArguments"
bug(X, "keys from x", ("self.key(memory)", "self.key(x)"), "route.reads_x")
bug(X, "values from x", ("self.value(memory)", "self.value(x)"), "route.reads_x")
bug(X, "keys and values from x", [("self.key(memory)", "self.key(x)"), ("self.value(memory)", "self.value(x)")], "route.reads_x")
bug(X, "queries from the memory", ("self.query(x)", "self.query(memory)"), "route.reads_memory")
bug(X, "x and memory exchanged", ("def forward(self, x, memory):", "def forward(self, memory, x):"), "route.exchanged")
bug(LISTED, "the memory is forgotten", ("(query, key, value)))", "(query, query, query)))"), "route.reads_x")
misuse("MemoryFirst", "called with x first", "route.exchanged", args={"d_model": 24})
bug(X, "no scale", (" / math.sqrt(self.d_k)", ""), "scale.missing")
bug(X, "the root of d_model", ("math.sqrt(self.d_k)", "math.sqrt(x.shape[-1])"), "scale.d_model_root")
bug(X, "divided by d_model", ("math.sqrt(self.d_k)", "x.shape[-1]"), "scale.by_d_model")
bug(WIDE, "the root of the memory's width", ("math.sqrt(self.d_k)", "math.sqrt(memory.shape[-1])"), "scale.head_constant")
bug(X, "the root of the number of keys", ("math.sqrt(self.d_k)", "math.sqrt(k.shape[2])"), "scale.keys_root")
bug(X, "softmax over the queries", ("softmax(dim=-1)", "softmax(dim=-2)"), "softmax.over_queries")
bug(X, "softmax over the heads", ("softmax(dim=-1)", "softmax(dim=1)"), "softmax.over_heads")
bug(X, "a causal mask left on", ("weights = scores", "scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -math.inf)\n        weights = scores"),
    "mask.causal_unasked")
bug(X, "a causal mask left on, square", ("weights = scores", "n = x.shape[1]\n        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)\n        weights = scores"),
    "shape.only_square")
bug(X, "memory cut to the words that ask", ("q, k, v = self", "memory = memory[:, :x.shape[1]]\n        q, k, v = self"), "length.cut")
bug(X, "memory cut to 16 words", ("q, k, v = self", "memory = memory[:, :16]\n        q, k, v = self"), "length.cut")
bug(X, "the last word of the memory is forgotten", ("q, k, v = self", "memory = memory[:, :-1]\n        q, k, v = self"), "mask.drops_last_key")
bug(X, "memory viewed with the length of x", ("return t.view(len(t), -1, self.h, self.d_k).transpose(1, 2)", "return t.view(len(t), self.n, self.h, self.d_k).transpose(1, 2)"),
    "shape.only_square", build=lambda c: asking(c(24, 3)))
bug(X, "memory detached", ("self.heads(self.key(memory)), self.heads(self.value(memory))", "*(self.heads(f(memory.detach())) for f in (self.key, self.value))"), "grad.unreached")
bug(X, "keys and values of the first call kept", ("q, k, v = self.heads(self.query(x)), self.heads(self.key(memory)), self.heads(self.value(memory))",
    "q = self.heads(self.query(x))\n        k, v = vars(self).setdefault('kept', (self.heads(self.key(memory)), self.heads(self.value(memory))))"), "state.kept")
bug(X, "kept as long as lengths are the same", ("q, k, v = self", "memory = vars(self).setdefault('kept', {}).setdefault(memory.shape, memory)\n        q, k, v = self"), "state.kept")
bug(X, "the first sentence's memory for all", ("q, k, v = self", "memory = memory[:1].expand(len(x), -1, -1)\n        q, k, v = self"), "batch.mixes")
bug(X, "the first sentence's keys and values for all", ("scores = q", "k, v = (t[:1].expand(t.shape) for t in (k, v))\n        scores = q"), "batch.first_keys_values")
bug(X, "the memories of a batch are mixed up", ("q, k, v = self", "memory = memory.roll(1, 0)\n        q, k, v = self"), "batch.mixes")
bug(X, "view for transpose", ("t.view(len(t), -1, self.h, self.d_k).transpose(1, 2)", "t.view(len(t), self.h, -1, self.d_k)"), "split.viewed")
bug(X, "heads of keys and values viewed", [("self.heads(self.key(memory))", "self.key(memory).view(len(x), self.h, -1, self.d_k)"),
    ("self.heads(self.value(memory))", "self.value(memory).view(len(x), self.h, -1, self.d_k)")], "split.viewed_kv")
bug(X, "heads merged without a transpose", ("(weights @ v).transpose(1, 2).reshape", "(weights @ v).reshape"), "merge.viewed")
bug(X, "keys are used as values", ("weights @ v", "weights @ k"), "route.keys_as_values")
bug(X, "the memory itself for values", ("self.heads(self.value(memory))", "self.heads(memory)"), "project.unused")
bug(X, "the output projection is forgotten", ("self.out((weights @ v)", "((weights @ v)"), "project.never")
bug(X, "x is added to the memory", ("q, k, v = self", "memory = memory + x.mean(1, keepdim=True)\n        q, k, v = self"), "order.queries")
bug(X, "the memory gets places", ("q, k, v = self", "memory = memory + torch.arange(memory.shape[1])[:, None] / 5\n        q, k, v = self"), "order.keys")
bug(X, "the batch is squeezed", ("return self.out((weights @ v).transpose(1, 2).reshape(len(x), x.shape[1], -1))",
    "return self.out((weights @ v).transpose(1, 2).reshape(len(x), x.shape[1], -1)).squeeze(1)"), "length.size")
bug("Conditioned", "x where there is a context", ("x if context is None else context", "x"), "route.reads_x")
bug("Conditioned", "no scale", (" * self.scale", ""), "scale.missing")
bug(GROUPED, "groups in the wrong order", ("t.repeat_interleave(self.n_heads // self.n_kv_heads, 1)", "t.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"), "split.groups")
bug(GROUPED, "keys and values exchanged", ("k, v = (t.unflatten", "v, k = (t.unflatten"), "split.keys_values")
bug(GROUPED, "the mask is lost", ("if memory_key_padding_mask is not None:", "if False:"), "mask.ignored")
bug(GROUPED, "the mask on queries", ("[:, None, None], -math.inf)", "[:, None, :, None], -math.inf)"), "mask.axis")
bug(GROUPED, "the mask after the softmax", [("            scores = scores.masked_fill(memory_key_padding_mask[:, None, None], -math.inf)\n", "            v = v.masked_fill(memory_key_padding_mask[:, None, :, None], 0)\n")], "mask.after_softmax",
    args=with_args(GROUPED, mask=("memory_key_padding_mask", "blocked")))
bug(GROUPED, "the mask cut at its start, and padded at its end", ("memory_key_padding_mask[:, None, None], -math", "F.pad(memory_key_padding_mask[:, 1:], (0, 1))[:, None, None], -math"), "mask.shifted",
    args=with_args(GROUPED, mask=("memory_key_padding_mask", "blocked")))
bug(GROUPED, "the first sentence's mask for all", ("memory_key_padding_mask[:, None, None], -math", "memory_key_padding_mask[:1, None, None], -math"), "mask.padding", unnamed=True,
    args=with_args(GROUPED, mask=("memory_key_padding_mask", "blocked")))
bug("Conditioned", "values shifted by one word", ("sim.softmax(dim=-1), v)", "sim.softmax(dim=-1), v.roll(1, 2))"), "route.values_shifted")
bug("Conditioned", "the memory is averaged", ("q, k, v = (t", "context = context.mean(1, keepdim=True)\n        q, k, v = (t"), "parameter.silent")
bug("Conditioned", "keys detached", ("self.to_k(context)", "self.to_k(context.detach())"), "grad.wrong", missed=True)
bug(LISTED, "dropout before the softmax", ("self.dropout(scores.softmax(dim=-1))", "self.dropout(scores).softmax(dim=-1)"), "dropout.biased")
bug(X, "a residual is added inside", ("return self.out(", "return x + self.out("), "project.residual")
bug(X, "the memory is filled up with zeros that no mask hides", ("q, k, v = self", "memory = F.pad(memory, (0, 0, 0, -memory.shape[1] % 8))\n        q, k, v = self"), "length.padded", missed=True)
bug("Conditioned", "keys and values are filled up with zeros", ("sim = torch", "k, v = (F.pad(t, (0, 0, 0, -t.shape[2] % 16)) for t in (k, v))\n        sim = torch"), "length.padded", missed=True, unnamed=True)
bug(LISTED, "the mask is transposed", ("mask.unsqueeze(1) == 0", "mask.mT.unsqueeze(1) == 0"), "mask.transposed")
bug(LISTED, "a billion below zero for minus infinity", ("torch.finfo(scores.dtype).min", "-1e9"), "dtype.no_infinity", args=with_args(LISTED, dtype="any"))
bug(GROUPED, "a billion below zero for minus infinity", ("-math.inf", "-1e9"), "dtype.no_infinity", args=with_args(GROUPED, dtype="any"))
bug(GROUPED, "scores are returned for weights", ("flatten(2)), weights", "flatten(2)), scores"), "weights.returned_scores", missed=True)
bug(X, "the words of x are asked, too", ("q, k, v = self", "memory = torch.cat([memory, x], 1)\n        q, k, v = self"), "order.queries")
bug(GROUPED, "dropout in evaluation", ("self.drop, self.training)", "self.drop)"), "dropout.in_evaluation")
misuse("nn.MultiheadAttention, with a memory", "it takes words first, and gets sentences", "batch.axes", build=lambda c: c(24, 3),
       args={"d_model": 24, "call": lambda m, x, memory: m(x, memory, memory)})
bug("package: MultiHeadAttention, with a memory", "values from x", ("self.v_proj(memory)", "self.v_proj(x)"), "route.reads_x")
bug("package: SelfAttention, with a memory", "the memory is forgotten", ("memory = x if memory is None else memory", "memory = x"), "route.reads_x")


def asking(layer):
    "A layer that keeps how many words ask."
    layer.query.register_forward_pre_hook(lambda _, args: setattr(layer, "n", args[0].shape[1]))
    return layer


# What a design may choose, and does not say; projections in wrappers, pictures, norms, rotations ------------------

A, WRAPPED, PICTURES = "Attends", "Attends, projections in wrappers", "OverPictures"
ON_AXIS = (".softmax(-1)", ".softmax(-2)")
NO_SCALE = ("return d ** -0.5", "return 1.0")
bug(WRAPPED, "softmax over the queries", ON_AXIS, "softmax.over_queries")
bug(WRAPPED, "no scale", NO_SCALE, "scale.missing")
bug(PICTURES, "no scale", (" * q.shape[-1] ** -0.5", ""), "scale.missing")
bug(PICTURES, "softmax over the queries", ("softmax(dim=-1)", "softmax(dim=-2)"), "softmax.over_queries")
bug("OverGrids", "no scale", (), "scale.missing", build=lambda c: unscaled(c(24, 4)))
bug("Attends, with adapters", "no scale", NO_SCALE, "scale.missing")
bug("Attends, a parametrisation", "no scale", NO_SCALE, "scale.missing")
bug("Attends, quantised", "no scale", NO_SCALE, "scale.missing")
bug("wrapped forward", "no scale", NO_SCALE, "scale.missing")
bug("Checkpointed, reentrant", "no scale", (), "scale.missing", build=lambda c: unscaled(c(24, 4, True)))
bug(A, "widened, and not cast back", (".mT * self.scale(q.shape[-1])).softmax(-1)", ".mT * self.scale(q.shape[-1])).float().softmax(-1)"), "dtype.widens", args=with_args(A, dtype="any"))
misuse("Unscaled", "believed to be scaled", "scale.missing", args={"d_model": 24, "n_heads": 4})
misuse("ByTheWidth", "believed to be scaled as usual", "scale.by_width", args={"d_model": 24, "n_heads": 4})
misuse(A, "believed to be unscaled", "scale.usual", args=with_args(A, scale=1.0))
misuse("SharesInTurns", "believed to share in blocks", "split.groups", args={"d_model": 24, "n_heads": 4, "n_kv_heads": 2})
misuse("OneLength", "believed to take any length", "shape.only_length", args={"d_model": 24, "n_heads": 4})
misuse("DropsScores", "believed to drop weights", "dropout.biased", args={"d_model": 24, "n_heads": 4})
misuse("LengthFirst", "believed to take sentences first", "batch.axes", args={"d_model": 24, "n_heads": 4})
bug("MultiplesOfFour, up to 64", "a block forgets the last key", ("attention(block, k, v)", "attention(block, k[..., :-1, :], v[..., :-1, :])"),
    "mask.drops_last_key")
bug("Yarn", "no scale", (), "scale.missing", build=lambda c: unscaled(c(24, 4, 1.0)))


def unscaled(layer):
    "A layer whose scale is 1."
    layer.scale = lambda d: 1.0
    return layer


def turned_wrongly(how):
    "A layer whose queries and keys are turned in a wrong way."
    def build(c):
        layer = c(24, 4)
        layer.rotated = lambda q, k: (how(q), how(k))
        return layer
    return build


def _angles(x, axis=-2):
    half = x.shape[-1] // 2
    angle = correct.torch.arange(x.shape[axis])[:, None] * 10000.0 ** (-correct.torch.arange(half) / half)
    return angle[:, None] if axis == -3 else angle


def backwards(x, cos=lambda a: a.cos(), sin=lambda a: -a.sin(), sign=-1, axis=-2):
    "A rotation, wrong in what is said."
    (a, b), angle = x.chunk(2, -1), _angles(x, axis)
    c, s = cos(angle).to(x), sin(angle).to(x)
    return correct.torch.cat([a * c + sign * b * s, a * s + b * c], -1)


rotated = {"args": {"d_model": 24, "n_heads": 4, "positions": True}, "check": "self_attention"}
bug(A, "rotated backwards", (), "rotation.backwards", build=turned_wrongly(backwards), **rotated)
bug(A, "cos and sin exchanged", (), "rotation.backwards",
    build=turned_wrongly(partial(backwards, cos=lambda a: a.sin(), sin=lambda a: a.cos())), **rotated)
bug(A, "a rotation without its minus", (), "rotation.sign",
    build=turned_wrongly(partial(backwards, sin=lambda a: a.sin(), sign=1)), **rotated)
bug(A, "turned over heads", (), "order.never", build=turned_wrongly(partial(backwards, sin=lambda a: a.sin(), axis=-3)), **rotated)

PADDING, EXTENDED = "TakesPadding", "TakesAnExtendedMask"
bug(PADDING, "the mask is lost", ("if key_padding_mask is not None:", "if False:"), "mask.ignored")
bug(PADDING, "applied after the softmax", [
    ("            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)\n", "            v = v.masked_fill(hidden.mT, 0)\n")], "mask.after_softmax",
    args=with_args(PADDING, mask=("key_padding_mask", "blocked")))
bug(PADDING, "applied after the softmax, and not declared", ("scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)", "v = v.masked_fill(hidden.mT, 0)"), "mask.after_softmax")
bug(PADDING, "a billion below zero for minus infinity", ("torch.finfo(scores.dtype).min", "-1e9"), "dtype.no_infinity", args=with_args(PADDING, dtype="any"))
bug(PADDING, "queries are masked", ("hidden = key_padding_mask[:, None, None]", "hidden = key_padding_mask[:, None, :, None]"), "mask.axis")
bug(PADDING, "queries are masked, as declared", ("hidden = key_padding_mask[:, None, None]", "hidden = key_padding_mask[:, None, :, None]"), "mask.axis",
    args=with_args(PADDING, mask=("key_padding_mask", "blocked")))
bug(PADDING, "the mask is turned in place", ("hidden = key_padding_mask[:, None, None]", "hidden = ~key_padding_mask.logical_not_()[:, None, None]"), "input.mask_modified")
TEXTS, ENDS = "TakesTexts", "TakesEnds"
bug(TEXTS, "they are ignored", ("None if document_ids is None else", "None if True else"), "documents.ignored")
bug(TEXTS, "earlier texts are seen", (" == document_ids[:, None, :]", " >= document_ids[:, None, :]"), "documents.leak")
bug(TEXTS, "only other texts are seen", (" == document_ids[:, None, :]", " != document_ids[:, None, :]"), "documents.leak")
bug(TEXTS, "texts behind the first get more", ("return self.out_proj(", "return self.out_proj((0 if document_ids is None else document_ids.to(x)[..., None]) + "), "documents.moved")
bug(ENDS, "they are ignored", ("cu_seqlens.diff().tolist()", "len(x)"), "documents.ignored")
bug(ENDS, "each but the last ends a word late", ("cu_seqlens.diff()", "torch.cat([cu_seqlens[:1], cu_seqlens[1:-1] + 1, cu_seqlens[-1:]]).diff()"), "documents.leak")
bug(EXTENDED, "added to the weights", [
    ("scores = scores if attention_mask is None else scores + attention_mask", "weights = scores.softmax(-1) + (0 if attention_mask is None else attention_mask)"),
    ("(scores.softmax(-1) @ v)", "(weights @ v)")], "mask.after_softmax")
bug(EXTENDED, "cut off in place", ("else scores + attention_mask", "else scores + attention_mask.clamp_(min=-1e4)"), "input.mask_modified")

# masks in layers that hide the future ------------------------------------------------------------------------------
LEFT, MUST = "DecodesWithPadding", "DecodesUnderAMask"
bug(LEFT, "the mask is forgotten", ("allowed & ~pad[:, None, None]", "allowed"), "mask.ignored")
bug(LEFT, "the mask is inverted", ("~pad[:, None, None]", "pad[:, None, None]"), "mask.meaning")
bug(LEFT, "either mask will do", ("allowed & ~pad", "allowed | ~pad"), "mask.replaces_causal")
bug(LEFT, "the mask takes the causal one's place", ("allowed & ~pad", "~pad"), "mask.replaces_causal")
bug(LEFT, "the first token is always seen", ("~pad[:, None, None]", "(~pad | (torch.arange(x.shape[1]) == 0))[:, None, None]"), "mask.padding")
bug(LEFT, "another scale under a mask", ("(q @ k.mT *", "(q @ k.mT * (1 if pad is None else 0.5) *"), "mask.padding")
bug(MUST, "the mask is forgotten", ("attention_mask if given else None, is_causal=not given", "None, is_causal=True"), "mask.ignored")
bug(MUST, "the mask is inverted", ("attention_mask if given", "~attention_mask if given"), "mask.meaning")

bug(PADDING, "-20 as minus infinity", ("torch.finfo(scores.dtype).min", "-20.0"), "mask.leaks_if_low")
misuse(PADDING, "believed to be True = may attend", "mask.meaning", args=with_args(PADDING, mask=("key_padding_mask", "allowed")))
bug(T, "-20 as minus infinity, and empty rows are not promised", [('float("-inf")', "-20.0"), ("weights.masked_fill(~mask, 0.0)", "weights")], "mask.leaks_if_low",
    args={"empty": "any"})
bug("causal and mask", "the mask is forgotten", ("else allowed & attn_mask", "else allowed"), "mask.ignored")

# families ------------------------------------------------------------------------------------------------------------
PLAIN = {"d_model": 24, "n_heads": 3}
HEADS_MOVED = ("q, k, v = self.heads(x)", "q, k, v = self.heads(x); v = v.flip(1)")
for family in ("WeakerValues", "Cosines", "LearnsTemperature", "ScalesAfterNorms", "MixesHeads", "LearnsKeys",
               "NormsTheContext", "BendsTheContext", "IndexesATable", "LooksUpAGrid", "BiasOfAFunction", "RotatesOnAGrid",
               "AsksForDistances", "LearnsScale"):
    bug(family, "values in reverse order", HEADS_MOVED, "heads.values_in_other_order")
misuse("WeakerValues", "believed to be usual", "values.scaled", args=PLAIN)
bug("WeakerValues", "the constant twice", ("0.707 * v", "0.707 * 0.707 * v"), "values.scaled")
bug("WeakerValues", "no scale", (" * self.d ** -0.5", ""), "scale.missing")
misuse("Cosines", "believed to be usual", "scores.cosine", args=PLAIN)
bug("Cosines", "keys of any length", ("F.normalize(k, dim=-1)", "k"), "norm.queries_only")
bug("Cosines", "cosines as they are", (" * 5.0", ""), "scale.missing")
bug("LearnsTemperature", "the exponential is forgotten", (".clamp(max=4.6052).exp()", ""), "layer.step")
bug("LearnsTemperature", "the first head's for all", ("self.logit_scale.clamp", "self.logit_scale[:1].clamp"), "scale.first")
bug("ScalesAfterNorms", "√d for d", (" * 8.0", " * 8.0 ** 0.5"), "scale.multiplied")
bug("MixesHeads", "scores are not mixed", (', self.pre)', ', torch.eye(3))'), "choice.missing")
bug("MixesHeads", "mixed over the queries' heads twice", ("weights @ v", "weights @ v.roll(1, 2)"), "route.values_shifted")
misuse("BendsTheContext", "believed to be usual", "context.activated", args=PLAIN)
bug("BendsTheContext", "applied to the values", [("F.hardswish(self.merged(", "(self.merged("), ("@ v)", "@ F.hardswish(v))")], "layer.unknown")
bug("IndexesATable", "the table is transposed", ("permute(2, 0, 1)", "permute(2, 1, 0)"), "bias.transposed")
bug("BiasOfAFunction", "added after the softmax", [(" + far_is_low(3, x.shape[1], x.shape[1])", ""), ("scores.softmax(-1)", "(scores.softmax(-1) + far_is_low(3, x.shape[1], x.shape[1]))")], "bias.after_softmax")
bug("AsksForDistances", "scores of distances are not scaled", [("+ far + (k @ DISTANCES[0])[..., None, :]) * self.d ** -0.5", ") * self.d ** -0.5 + far + (k @ DISTANCES[0])[..., None, :]")],
    "scale.term")
bug("AsksForDistances", "scores of one of the two are subtracted", ("+ far + (k", "+ far - (k"), "layer.step")
bug("AsksForDistances", "scores of distances are subtracted", ("+ far + (k", "- far - (k"), "bias.subtracted")
bug("AsksForDistances", "no scores of distances", ("+ far + (k @ DISTANCES[0])[..., None, :]", ""), "bias.ignored")
bug("LearnsScale", "divided by what multiplies", ("* self.sharpness", "/ self.sharpness"), "scale.divided")
bug("LearnsScale", "exp of what multiplies", ("* self.sharpness", "* self.sharpness.exp()"), "scale.exponential")
bug("LearnsTemperatures", "exp is forgotten", ("self.tau.exp()", "self.tau"), "layer.step")
bug("LearnsTemperatures", "divided by the temperatures", ("* self.tau.exp()", "/ self.tau.exp()"), "scale.divided",
    also="scale.beside")
bug("LearnsTemperatures", "no 1/√d beside them", (" * self.d ** -0.5", ""), "scale.beside")
bug("LearnsTemperatures", "no temperatures", (" * self.tau.exp()", ""), "choice.missing",
    also="scale.beside")
bug("LearnsItsShare", "the factor is forgotten", ("self.gamma * ", ""), "choice.missing")
bug("SumsFirst", "keys are normalised over features", ("k.softmax(-2)", "k.softmax(-1)"), "softmax.dim")
bug("SumsFirst", "values in reverse order", ("@ v)", "@ v.flip(2))"), "layer.attend")
bug("AttendsOverFeatures", "rows for columns", (".softmax(-1).mT", ".softmax(-1)"), "layer.step")
bug("LiesAsImages", "keys are used as values", ("softmax(-1) @ v", "softmax(-1) @ k"), "route.keys_as_values")
bug("KeysBesideValues", "values and keys exchanged", ("k, v = self", "v, k = self"), "split.keys_values")
bug("FusedUnderAnotherName", "keys come last", ("q, k, v =", "q, v, k ="), "split.fused_order")
bug("LatentUnderOtherNames", "scaled by the width without rotation", ("10 ** -0.5", "6 ** -0.5"), "scale.head_constant")
LU, SHARED = "LatentUnderOtherNames", "self.rotated(turned[:, None]).expand(-1, 3, -1, -1)"
bug(LU, "the shared key viewed as heads", (SHARED, "self.rotated(turned).repeat(1, 1, 3).view(len(x), 3, -1, 4)"), "split.shared_viewed")
bug(LU, "the shared key viewed before it is rotated", (SHARED, "self.rotated(turned.repeat(1, 3, 1).unflatten(1, (-1, 3)).transpose(1, 2))"), "split.shared_viewed")
bug(LU, "features of the shared key repeated", (SHARED, "self.rotated(turned).repeat_interleave(3, -1).unflatten(-1, (3, 4)).transpose(1, 2)"), "split.shared_features")
bug(LU, "the shared key for the first head", (SHARED, "F.pad(self.rotated(turned[:, None]), (0, 0, 0, 0, 0, 2))"), "heads.shared_first")
bug(LU, "the keys' parts joined the other way", (f"[k, {SHARED}]", f"[{SHARED}, k]"), "route.parts_swapped")
bug("LatentRotatedFirst", "the queries' parts joined the other way", ("[self.rotated(q[..., :4]), q[..., 4:]]", "[q[..., 4:], self.rotated(q[..., :4])]"), "route.parts_swapped")
bug("RotatesOnAGrid", "only the queries are rotated", ("self.rotated(q), self.rotated(k)", "self.rotated(q), k"), "rotation.queries_only")
bug("ByConvolutions", "√d_model", ("8 ** -0.5", "24 ** -0.5"), "scale.d_model_root")
bug("WideValues", "√ of the values' width", ("8 ** -0.5", "16 ** -0.5"), "scale.value_width")
bug("NormedBlock", "values of other words than the keys", ("memory, memory,", "memory, memory.flip(1),"), "order.keys")
bug("NormedBlock", "other words ask", ("self.norm(x)", "self.norm(x.flip(1))"), "order.queries")
