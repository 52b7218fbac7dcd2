"""Classic bugs, each the smallest edit of something correct, and what a fair message would say about it."""
from mutants import correct
from mutants.zoo import Register, bred_from

REGISTER = Register()


def bug(base: str, name: str, edits, says: str, inside: str = "", **changes) -> None:
    "Plant `name` in the correct animal `base`: (what was written, what stands there now), or several such pairs."
    REGISTER.add(bred_from(correct.REGISTER.animals[base], f"{base}: {name}", edits, says, inside, **changes))


def misuse(base: str, name: str, says: str, **changes) -> None:
    "A correct implementation that is called, set up or believed wrongly: other arguments, the same source."
    bug(base, name, (), says, **changes)


def with_args(base: str, **args) -> dict:
    "The arguments of `base`'s check, with some changed."
    return {**correct.REGISTER.animals[base].args, **args}


SCALE = r"scal|√|sqrt|temperature"
QUERIES = r"dim\s*=?\s*-?2|over (the )?quer|column|wrong dim|along (the )?(wrong|quer)"
LEAK = r"futur|caus|leak|later|ahead"
MASK = r"mask|block|forbid|may attend|allowed"
DEAD = r"fully.masked|nothing (is )?allowed|allowed nothing|all.masked|no allowed|empty row|attend to nothing|may attend to no"
NAN = r"nan|inf\b|infinit|finite|overflow|underflow"
GRAD = r"grad|detach|train"
BATCH = r"batch|other (example|sentence|sample)|independent"
CHANGES_INPUT = r"in.?place|modif|changes? (its|the|your) input|overwr|mutat|written"
HALF = r"float16|half|16.bit|1e9|-1e\+?9|bfloat16"
LOST = r"unused|no gradient|not used|never used|without gradient|receives? no|does not (reach|influence)"
SPLIT = r"split|view|transpos|reshape|heads? (is|are)? ?(mixed|cut)|position|permut"
MERGE = r"merg|view|transpos|reshape|concat|permut"
ORDER = r"order|chunk|swap|exchang|layout|q, k|fused|mix"
REGISTERED = r"regist|state.?dict|nn\.Parameter|ModuleList|parameters\(\)|Python list|plain tensor|no parameters|not? (a )?parameter"
DROPOUT = r"dropout"

# Functions of q, k and v: scale ---------------------------------------------------------------------------------

T = "textbook"
SQRT_D = " / math.sqrt(q.shape[-1])"
bug(T, "no scale", (SQRT_D, ""), SCALE)
bug(T, "divides by d, not √d", (SQRT_D, " / q.shape[-1]"), SCALE)
bug(T, "multiplies by √d", (SQRT_D, " * math.sqrt(q.shape[-1])"), SCALE)
bug(T, "scales twice", (SQRT_D, " / math.sqrt(q.shape[-1]) / math.sqrt(q.shape[-1])"), SCALE)
bug(T, "divides by √n", (SQRT_D, " / math.sqrt(k.shape[-2])"), SCALE)
bug(T, "the root of the values' width", (SQRT_D, " / math.sqrt(v.shape[-1])"), SCALE)
bug(T, "the root of all heads' width", (SQRT_D, " / math.sqrt(q.shape[-1] * q.shape[1])"), SCALE)
bug(T, "a scale made for width 64", (SQRT_D, " / 8"), r"multiplied by 0\.125")
bug("causal textbook", "a scale made for width 100", (" / math.sqrt(q.shape[-1])", " * 0.1"), r"multiplied by 0\.1,")
bug("loops", "no scale", (" / width ** 0.5", ""), SCALE)
bug("scale shared between q and k", "the root on both sides", ("-0.25", "-0.5"), SCALE)
bug("online softmax in tiles", "no scale", (" * q.shape[-1] ** -0.5", ""), SCALE)
misuse("unscaled on purpose", "believed to be scaled", SCALE, args={})
bug("package: scaled_dot_product_attention", "1 / d", ("q.shape[-1] ** -0.5", "q.shape[-1] ** -1"), SCALE)
bug("package: fused_attention", "scale left at 1", ("dropout_p, is_causal=causal)", "dropout_p, is_causal=causal, scale=1.0)"), SCALE)
bug("causal textbook", "no scale", (SQRT_D, ""), SCALE)

# what stands in softmax's place, and over what it sums
LAST = "torch.softmax(scores, dim=-1)"
bug(T, "softmax over the queries", (LAST, "torch.softmax(scores, dim=-2)"), QUERIES)
bug(T, "softmax over the heads", (LAST, "torch.softmax(scores, dim=1)"), r"head|dim\s*=?\s*1|wrong dim|-3")
bug(T, "softmax over the batch", (LAST, "torch.softmax(scores, dim=0)"), BATCH + r"|dim\s*=?\s*0|wrong dim")
bug(T, "softmax without a dim", (LAST, "F.softmax(scores)"), r"head|dim|batch")
bug(T, "softmax over queries and keys together", (LAST, "torch.softmax(scores.flatten(-2), dim=-1).view_as(scores)"),
    r"sum to 1|over all|everything|whole|flatten|both|together|1/n")
bug(T, "softmax twice", (LAST, "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)"), r"twice|two times|again|flat|uniform|second softmax")
bug(T, "no softmax", (LAST, "scores"), r"softmax|sum to 1|negative|normali[sz]|raw scores")
bug(T, "sigmoid in its place", (LAST, "torch.sigmoid(scores)"), r"sigmoid|sum to 1|normali[sz]")
bug(T, "ReLU in its place", (LAST, "torch.relu(scores)"), r"relu|sum to 1|normali[sz]|negative")
bug(T, "log-softmax", (LAST, "torch.log_softmax(scores, dim=-1)"), r"log|negative|exp")
bug(T, "divided by the sum without the exponential", (LAST, "scores / scores.sum(-1, keepdim=True)"), r"exp|negative|softmax")
bug(T, "exponentials that overflow", (LAST, "scores.exp() / scores.exp().sum(-1, keepdim=True)"), NAN + r"|maxim|stab|largest|huge|large scores")
bug(T, "the largest of all is subtracted", (LAST, "(scores - scores.max()).exp() / (scores - scores.max()).exp().sum(-1, keepdim=True)"),
    NAN + r"|row|global|maxim")
bug(T, "the sum is broadcast along the queries", (LAST, "(e := (scores - scores.amax(-1, keepdim=True)).exp()) / e.sum(-2, keepdim=True)"),
    QUERIES + r"|sum to 1")
bug(T, "one too many in the denominator", (LAST, "(e := (scores - scores.amax(-1, keepdim=True)).exp()) / (1 + e.sum(-1, keepdim=True))"),
    r"sum to 1|denomin|normali[sz]|sink|extra")
bug("online softmax in tiles", "old sums are not rescaled", ("acc = acc * fix + p", "acc = acc + p"), r"resc|online|tile|block|oracle|differ|running|largest|hull|weighted mean")
bug("online softmax in tiles", "the last tile is forgotten", ("range(0, k.shape[-2], tile)", "range(0, k.shape[-2] - tile + 1, tile)"),
    r"last|never attend|ignored|tile|some keys|every key|not attended")
TILES, FIRST = "online softmax in tiles", r"\A[^\n]*"  # the first line says it
RUNNING = [("acc = acc * fix + p", "acc = acc + p"), ("total = total * fix + p", "total = total + p")]
bug(TILES, "nothing is rescaled", RUNNING, FIRST + "blocks of 3: the running context and sum are not rescaled")
bug("online softmax in tiles", "each tile by itself", [("torch.maximum(top, s.amax(-1, keepdim=True))", "s.amax(-1, keepdim=True)"), *RUNNING],
    FIRST + "each block subtracts its own largest")
NO_RUNNING = ("torch.maximum(top, s.amax(-1, keepdim=True))", "s.amax(-1, keepdim=True)")
bug(TILES, "no running maximum", NO_RUNNING, "without a running maximum")
bug(TILES, "no running maximum, in long tiles", [("tile=3", "tile=16"), NO_RUNNING], FIRST + "softmax in blocks without a running maximum")
bug(TILES, "the first one's maximum, in long tiles", [("tile=3", "tile=64"),
    (NO_RUNNING[0], "s.amax(-1, keepdim=True) if start == 0 else top")], FIRST + ".*the first one's largest score")
bug(TILES, "nothing is rescaled, in long tiles", [("tile=3", "tile=16"), *RUNNING], FIRST + "blocks of 16: .*not rescaled")
bug(TILES, "old sums are not rescaled, in long tiles", [("tile=3", "tile=64"), RUNNING[0]], FIRST + "blocks of 64: .*not rescaled")
bug(TILES, "the last long tile is forgotten", [("tile=3", "tile=32"), ("range(0, k.shape[-2], tile)",
    "range(0, max(tile, k.shape[-2] - tile + 1), tile)")], FIRST + r"the last of many keys .*\(the tail\)")
TM, SB = "tiles with a mask", "scores and a bias"
bug(TM, "the mask's first columns for every tile", ("allowed[..., start:stop]", "allowed[..., :stop - start]"), FIRST + "blocks of 16, each takes the mask's first columns")
bug(TM, "the mask's last columns for every tile", ("allowed[..., start:stop]", "allowed[..., start - stop:]"), FIRST + "blocks of keys do not get their own columns")
bug(TM, "-inf minus -inf in a tile that is all forbidden", ("torch.finfo(q.dtype).min", "-math.inf"), "block of keys that are all forbidden gives NaN")
bug(SB, "the bias is scaled, too", [(" * query.shape[-1] ** -0.5", ""), ("dead = scores", "scores = scores * query.shape[-1] ** -0.5\n    dead = scores")],
    FIRST + "the bias is scaled, too: ")
bug(SB, "the bias is subtracted", ("scores + attention_mask", "scores - attention_mask"), FIRST + "the bias is subtracted, not added")
bug(SB, "only minus infinity counts", ("scores + attention_mask", "scores.masked_fill(attention_mask.isinf(), -math.inf)"), FIRST + "the bias is ignored where")
bug("two halves", "their mean", ("torch.stack([total for total, _ in parts]).softmax(0)", "1 / len(parts)"), FIRST + "keys in two parts, the first 4 and the others")
bug("some queries at a time", "each time from the first key on", ("triu(start + 1)", "triu(1)"), FIRST + "in blocks of 4 queries, the causal mask begins anew")
bug("causal and mask", "the mask takes the causal one's place", ("else allowed & attn_mask", "else attn_mask"), "takes the place of the causal one")
misuse("unscaled on purpose", "believed to be scaled by 0.3", "divided|multiplied", args={"scale": 0.3})
bug("square causal", "the future is open from the 64th word on", ("diagonal=1).bool()", "diagonal=1).bool()\n    future[64:] = False"),
    FIRST + "from query 64 on the future leaks")
bug("sum with a tiny epsilon", "a small one", ("1e-6", "1e-3"), FIRST + r"an epsilon, about 0\.001")
bug(T, "keepdim forgotten", (LAST, "scores.exp() / scores.exp().sum(-1)"), FIRST + "keepdim=True is missing")
bug(T, "only the three largest scores", ("    if mask is not None:\n        scores", "    scores = scores.masked_fill(scores < scores.topk(min(3, scores.shape[-1])).values[..., -1:], -math.inf)\n    if mask is not None:\n        scores"),
    FIRST + "only the 3 largest")
bug(T, "the whole tensor's largest is subtracted", (LAST, "(e := (scores - scores.max()).exp()) / e.sum(-1, keepdim=True)"),
    "largest score of the whole tensor")
bug(T, "a constant scale", (SQRT_D, " * 0.25"), FIRST + "divided by 4, a constant")
bug(T, "widened, and not cast back", (LAST, "torch.softmax(scores.float(), dim=-1)"), FIRST + "it widens to float32 and does not cast back")
bug("bmm over flat heads", "heads and sentences exchanged in the merge",
    ("q.reshape(b * h, n_q, d), k.reshape(b * h, n_k, d), v.reshape(b * h, n_k, -1)", "(t.transpose(0, 1).flatten(0, 1) for t in (q, k, v))"),
    FIRST + "sentences and heads are mixed up")
misuse("a mask of keys", "its mask is said to hide", r'pass mask="allowed"', args={"mask": "blocked"})
misuse("causal, and refuses a mask", "a mask is promised", "the code raises AssertionError", args={"mask": "allowed", "causal": True})

# which tensor is where
bug(T, "q and k exchanged", ("q @ k.transpose(-2, -1)", "k @ q.transpose(-2, -1)"), r"swap|exchang|transpos|quer|n_q|shape|raises")
bug(T, "the scores are transposed", ("weights @ v, weights", "weights.mT @ v, weights"), r"transpos|swap|exchang|quer|shape|size|sum to 1|n_q|fails|raises")
bug(T, "keys in the values' place", ("weights @ v, weights", "weights @ k, weights"), r"value|\bv\b|key")
bug(T, "queries against queries", ("q @ k.transpose", "q @ q.transpose"), r"\bk\b|key|quer|n_q|raises")
bug(T, "queries of length 1", ("q @ k.transpose(-2, -1)", "F.normalize(q, dim=-1) @ k.transpose(-2, -1)"), r"queries are normalised")
bug(T, "cosines, unscaled", ("q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])", "F.cosine_similarity(q.unsqueeze(-2), k.unsqueeze(-3), dim=-1)"), r"queries and keys are normalised")
bug(T, "weights times keys, no v", ("return weights @ v, weights", "return weights @ k"), r"as wide as the keys")
bug(T, "the product with v is missing", ("return weights @ v, weights", "return weights"), r"product with v")
bug(T, "axes swapped at the end", ("return weights @ v, weights", "return (weights @ v).transpose(1, 2), weights"), r"axes")
bug(T, "keys of the next head", ("    scores = q", "    k, v = k.roll(1, 1), v.roll(1, 1)\n    scores = q"), r"another head")
bug(T, "the last key is never attended", ("    weights = torch", "    scores = torch.cat([scores[..., :-1], scores[..., -1:] - torch.inf], -1)\n    weights = torch"),
    r"last|never|ignored|key")
bug(T, "the first key is always added", ("weights @ v, weights", "weights @ v + v[..., :1, :], weights"), r"hull|first|weights|sum to 1|mean|add|oracle|residual|more than")
bug(T, "the mean of the values is added", ("weights @ v, weights", "weights @ v + v.mean(-2, keepdim=True), weights"), r"hull|resid|add|mean|sum to|more than|twice")
bug(T, "weights of the first of the batch for all", ("weights @ v, weights", "weights[:1] @ v, weights"), BATCH + r"|weights")
bug(T, "weights averaged over the heads", ("weights @ v, weights", "weights.mean(1, keepdim=True) @ v, weights"), r"head|averag|mean")
bug(T, "weights averaged over the batch", ("weights @ v, weights", "weights.mean(0, keepdim=True) @ v, weights"), BATCH)
bug("bmm over flat heads", "heads and batch unfolded in the wrong order", (".view(b, h, n_q, -1)", ".view(h, b, n_q, -1).transpose(0, 1)"), BATCH + r"|head|reshape|view")
bug("bmm over flat heads", "length and heads folded without transpose",
    ("q.reshape(b * h, n_q, d), k.reshape(b * h, n_k, d), v.reshape(b * h, n_k, -1)",
     "q.transpose(1, 2).reshape(b * h, n_q, d), k.transpose(1, 2).reshape(b * h, n_k, d), v.transpose(1, 2).reshape(b * h, n_k, -1)"),
    r"head|transpos|reshape|view|permut|mix|fold|layout")
bug("heads after the length", "the length is not brought back", (').permute(0, 2, 1, 3)', ')'), r"shape|layout|transpos|permut|expected")
bug("package: naive_attention", "the weights are of the key before", ("zip(w_i, v_b)", "zip(w_i, v_b.roll(1, 0))"), r"value|weights|key|permut|order|shift")

# what a function may not do to its inputs, or expect of them
bug(T, "scales q in place", ("    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
                             "    q /= math.sqrt(q.shape[-1])\n    scores = q @ k.transpose(-2, -1)"), CHANGES_INPUT)
bug(T, "fills the mask in place", ("    if mask is not None:\n        scores",
                                   "    if mask is not None:\n        mask[..., 0] = True\n        scores"), CHANGES_INPUT + "|" + MASK)
bug(T, "squeezes the context", ("return weights @ v, weights", "return (weights @ v).squeeze(), weights"), r"squeeze|length 1|shape|size 1|single|batch of 1|one (key|query|head)")
bug(T, "squeezes the weights' batch", ("weights @ v, weights", "weights @ v, weights.squeeze(0)"), r"squeeze|batch|shape|size 1|one example|b = 1|single")
bug("bmm over flat heads", "believes that memory is contiguous",
    ("q.reshape(b * h, n_q, d), k.reshape(b * h, n_k, d)", "q.view(b * h, n_q, d), k.view(b * h, n_k, d)"), r"contig|stride|view|reshape|memory")
bug(T, "reads memory past its strides", ("    scores = q", "    k = torch.as_strided(k, k.shape, torch.empty(k.shape).stride(), k.storage_offset())\n    scores = q"),
    r"contig|stride|memory")
bug("bmm over flat heads", "three heads, whatever comes", ("b * h, n_q, d), k", "b * 3, n_q, d), k"), r"head|shape|raises|size|fail|error")
bug(T, "transposes every dimension of k", ("k.transpose(-2, -1)", "k.T"), r"\.T\b|transpos|shape|raises|error|fail")
bug(T, "transposes by k.transpose(0, -1)", ("k.transpose(-2, -1)", "k.transpose(0, -1)"), r"axes are mixed up")
bug("mask turned on a copy", "no copy: the caller's mask is turned", ("mask.clone().logical_not_()", "mask.logical_not_()"), r"modifies its mask")
bug(T, "computed in float16", ("torch.softmax(scores, dim=-1)", "torch.softmax(scores.half(), dim=-1).to(q.dtype)"), r"float16|half|precis|16.bit|round|accura|toleran")
bug(T, "scores rounded to bfloat16", ("    weights = torch", "    scores = scores.bfloat16().to(q.dtype)\n    weights = torch"), r"precis")
bug("in double precision", "the wider type comes back", ("(w @ v.double()).to(v.dtype)", "w @ v.double()"), r"returns float64 for v in float16")
bug(T, "16 bits come back as 32", ("weights @ v, weights", "weights.float() @ v.float(), weights"), r"returns float32 for v in float16")
bug(T, "-1e9 in float16", ('float("-inf")', "-1e9"), HALF + r"|" + NAN)
bug(T, "scores are detached", ("    weights = torch", "    scores = scores.detach()\n    weights = torch"), GRAD)
bug(T, "the keys are detached", ("q @ k.transpose", "q @ k.detach().transpose"), GRAD)
bug(T, "weights made of .data", (LAST, "torch.softmax(scores.data, dim=-1)"), GRAD)
bug("package: scaled_dot_product_attention", "the values are detached", ("F.dropout(weights, dropout_p) @ v", "F.dropout(weights, dropout_p) @ v.detach()"), GRAD)
bug("flash with its own backward", "the scale is missing in the backward", ("(grad * out).sum(-1, keepdim=True)) * scale", "(grad * out).sum(-1, keepdim=True))"), GRAD)
bug("flash with its own backward", "the sum is missing in the backward", (" - (grad * out).sum(-1, keepdim=True)", ""), GRAD)
bug("a fourth argument that is no mask", "dropout cannot be switched off", ("F.dropout(torch.softmax(q @ k.mT * scale, -1), dropout_p)",
    "F.dropout(torch.softmax(q @ k.mT * scale, -1), 0.1)"), DROPOUT + r"|random|determin|same input|twice|two calls")
bug("module with dropout, in eval", "dropout stays on in eval", ("self.dropout(self.attention_weights)", "F.dropout(self.attention_weights, 0.3)"),
    DROPOUT + r"|random|determin|same input|twice|two calls")
bug(T, "keys and values of the first call are kept", ("    scores = q", "    k, v = vars(textbook).setdefault('kept', (k, v)) if k.shape == (2, 3, 7, 17) else (k, v)\n    scores = q"),
    r"kept from the first call.* k and v")
bug(T, "counts its calls", ("    scores = q", "    vars(textbook)['calls'] = calls = vars(textbook).get('calls', 0) + 1\n    q = q * calls\n    scores = q"), r"kept from call to call")
bug("MaskKept", "the mask of the first call, however long", ("if n > len(self.future):", "if not len(self.future):"), r"one length only")
bug("module without dropout", "the first call's weights are kept", ("self.attention_weights = F", "self.attention_weights = getattr(self, 'attention_weights', None) if getattr(self, 'attention_weights', torch.empty(0)).shape == scores.shape else F"),
    r"state|call|cache|kept|keeps|remember|depend|same input|determin")

# the future ------------------------------------------------------------------------------------------------------

C = "causal textbook"
bug(C, "no mask at all", ("scores.masked_fill(~allowed, float(\"-inf\")).softmax(dim=-1).masked_fill(~allowed, 0)", "scores.softmax(dim=-1)"), LEAK)
bug(C, "sees one ahead", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q + 1)"), LEAK + r"|off by one|one (too )?(far|many)|next")
bug(C, "does not see itself", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q - 1)"), r"itself|own (place|position)|off by one|diagonal|present|one too few|fully")
bug(C, "only the first word sees itself", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q - 1) | (torch.arange(n_k) + torch.arange(n_q)[:, None] == 0)"), r"itself|own (place|position)|diagonal")
bug(C, "looks at the future only", (".tril(diagonal=n_k - n_q)", ".triu(diagonal=n_k - n_q)"), LEAK + r"|triu|inver|wrong way|upper")
bug(C, "aligned at the first key", (".tril(diagonal=n_k - n_q)", ".tril()"), r"align|lower.right|upper.left|top.left|bottom.right|last (key|query)|n_q")
bug(C, "weights are masked after softmax", ("scores.masked_fill(~allowed, float(\"-inf\")).softmax(dim=-1).masked_fill(~allowed, 0)",
                                            "scores.softmax(dim=-1).masked_fill(~allowed, 0)"), r"after (the )?softmax|sum to 1|denomin|renorm")
bug(C, "masked after softmax, then renormalised", ("scores.masked_fill(~allowed, float(\"-inf\")).softmax(dim=-1).masked_fill(~allowed, 0)",
    "(w := scores.softmax(dim=-1).masked_fill(~allowed, 0)) / w.sum(-1, keepdim=True)"), r"after (the )?softmax|denomin|renorm|underflow|" + NAN + "|" + LEAK)
bug(C, "0 as minus infinity", ('float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', '0.0).softmax(dim=-1)'), LEAK + r"|" + MASK)
bug(C, "-100 as minus infinity", ('float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', '-100.0).softmax(dim=-1)'), r"-inf|finite|infinit|large|huge|-100|not enough|" + LEAK)
bug(C, "-1e4 as minus infinity", ('float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', '-1e4).softmax(dim=-1)'), r"-inf|finite|infinit|large|huge|1e4|not enough|" + LEAK)
bug(C, "scores times mask", ('scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)', "(scores * allowed).softmax(dim=-1)"), LEAK + r"|multipl|-inf")
bug(C, "uniform over the past", ("scores = q @ k", "scores = 0 * q @ k"), r"uniform|equal|mean|scores|depend|ignor|quer|oracle")
bug(C, "a window by accident", (".tril(diagonal=n_k - n_q)", ".tril(diagonal=n_k - n_q).triu(n_k - n_q - 2)"), r"window|band|past|far|distan|early|old|never|first|blocks")
bug(C, "the first key is never attended", ("    scores =", "    allowed[:, 0] = False\n    scores ="), r"first|never|past|blocks|allowed")
bug(C, "the first key is always attended", ("weights @ v", "0.9 * weights @ v + 0.1 * v[..., :1, :]"), r"first|oracle|weights|differ|expected|weighted mean")
bug("square causal", "as hard to read in one direction only: lower triangle blocked", ("torch.triu(torch.ones(n, n), diagonal=1)", "torch.tril(torch.ones(n, n), diagonal=-1)"), LEAK + r"|wrong way|inver|tril|triu")
bug("square causal", "the diagonal is blocked too", ("diagonal=1", "diagonal=0"), r"diagonal")
bug("square causal", "the diagonal is blocked too, by -1e9", [("diagonal=1", "diagonal=0"), ('float("-inf")', "-1e9")], r"diagonal")
bug("square causal", "tril of the scores, zeros left in", ('att.masked_fill(future, float("-inf"))', "att.tril()"), r"a forbidden score becomes 0")
bug("square causal", "a mask of six places", ("torch.ones(n, n), diagonal=1)", "torch.ones(6, 6), diagonal=1)"), r"length|size|fixed|hard|n =")
bug("tiles that skip the future", "tiles see to their own end", ("torch.arange(stop) > torch.arange(i, stop)[:, None]", "torch.arange(stop) > stop"), LEAK + r"|tile|block")
bug("upper left causal", "blocks what it should allow", ("cols <= rows[:, None], 0.0, float(\"-inf\")", "cols <= rows[:, None], float(\"-inf\"), 0.0"), LEAK + r"|inver|nan|wrong way|" + MASK)
misuse("the same with is_causal", "believed to be aligned at the last key", r"align|lower.right|upper.left|top.left|bottom.right|last (key|query)|n_q",
       args={"causal": "lower-right"})
misuse("the fused function of PyTorch, as it is", "believed to be causal", LEAK, args={"causal": True})
bug("package: fused_attention, causal", "aligned at the first key", ("causal and (mask is not None or n_q != n_k)", "causal and mask is not None"),
    r"align|lower.right|upper.left|top.left|bottom.right|last (key|query)|n_q")
bug("package: fused_attention, causal", "with a mask, the future is open", ("return triangle if mask is None else triangle & mask", "return triangle if mask is None else mask"), LEAK + r"|" + MASK)
bug("package: fused_attention, causal", "one ahead where keys are more than queries", (".tril(n_k - n_q)", ".tril(n_k - n_q + 1)"), LEAK + r"|off by one|align|one", inside="masks")

# masks that are given --------------------------------------------------------------------------------------------

bug(T, "the mask is ignored", [("    if mask is not None:\n        scores = scores.masked_fill(~mask, float(\"-inf\"))\n", ""),
                               ("    if mask is not None:\n        weights = weights.masked_fill(~mask, 0.0)\n", "")], MASK)
bug(T, "the mask is inverted", [("scores.masked_fill(~mask", "scores.masked_fill(mask"), ("weights.masked_fill(~mask", "weights.masked_fill(mask")],
    r"invert|opposite|polarity|True|wrong way|revers|blocked")
misuse("true means blocked", "believed to be True = may attend", r"invert|opposite|polarity|True|wrong way|revers|blocked", args={})
misuse("true means blocked", "its mask is not announced", r'pass mask="blocked"', args={})
misuse("baddbmm with a bias", "its mask is not announced, though the name tells of a bias", r'pass mask="bias"', args={"mask": "allowed"})
misuse("the same with a bias", "believed to be True = blocked", r'boolean|pass mask="allowed"', args={"mask": "blocked"})
misuse(T, "believed to be True = blocked", r"invert|opposite|polarity|True|wrong way|revers|blocked|allowed", args={"mask": "blocked"})
bug(T, "fully masked rows are NaN", ("weights = weights.masked_fill(~mask, 0.0)", "pass"), DEAD + r"|nan")
bug(T, "fully masked rows are a mean", [('float("-inf")', "torch.finfo(scores.dtype).min"), ("weights = weights.masked_fill(~mask, 0.0)", "pass")], DEAD + r"|mean|uniform")
bug(T, "fully masked rows look right, their gradient is NaN", [("scores.masked_fill(~mask, float(\"-inf\"))", "scores + torch.zeros_like(scores).masked_fill(~mask, float(\"-inf\"))")],
    GRAD + "|" + DEAD)
bug(T, "blocks queries, not keys", [("scores.masked_fill(~mask,", "scores.masked_fill(~mask.mT,"), ("weights.masked_fill(~mask,", "weights.masked_fill(~mask.mT,")],
    r"mask is transposed")
bug(T, "only the first of the batch has a mask", [("scores.masked_fill(~mask,", "scores.masked_fill(~mask[:1],"), ("weights.masked_fill(~mask,", "weights.masked_fill(~mask[:1],")],
    r"batch|broadcast|first|" + MASK)
bug(T, "only the first head has a mask", [("scores.masked_fill(~mask,", "scores.masked_fill(~mask[..., :1, :, :].expand(*mask.shape[:-3], 1, *mask.shape[-2:]) if mask.ndim == 4 else ~mask,")],
    r"head|broadcast|first|" + MASK)
bug(T, "masked after softmax", [('scores = scores.masked_fill(~mask, float("-inf"))', "pass")], r"after (the )?softmax|sum to 1|denomin|renorm|" + MASK)
bug(T, "-1e4 as minus infinity in the mask", [('float("-inf")', "-1e4"), ("weights.masked_fill(~mask, 0.0)", "weights")], r"-inf|finite|infinit|large|huge|1e4|" + DEAD + "|" + MASK)
bug(T, "-1e4 is added", [('scores.masked_fill(~mask, float("-inf"))', "scores + ~mask * -1e4"), ("weights.masked_fill(~mask, 0.0)", "weights")], r"finite number such as -1e4")
bug(T, "infinity times the mask", [('scores.masked_fill(~mask, float("-inf"))', 'scores + ~mask * float("-inf")'), ("weights.masked_fill(~mask, 0.0)", "weights")], r"0 · inf is NaN")
bug(T, "a square mask is transposed", ("    if mask is not None:\n        scores", "    mask = mask.mT if mask is not None and mask.shape[-1] == mask.shape[-2] else mask\n    if mask is not None:\n        scores"),
    r"mask is transposed")
bug(T, "scores times mask", [('scores.masked_fill(~mask, float("-inf"))', "scores * mask"), ("weights.masked_fill(~mask, 0.0)", "weights")], MASK)
bug(T, "the mask is added as 0 and 1", [('scores.masked_fill(~mask, float("-inf"))', "scores + mask"), ("weights.masked_fill(~mask, 0.0)", "weights")], MASK)
bug(T, "every query gets the mask of the last", ("    if mask is not None:\n        scores", "    mask = mask if mask is None else mask[..., -1:, :]\n    if mask is not None:\n        scores"),
    FIRST + "every query gets the mask of the last")
bug(T, "every sentence gets the mask of the first", ("    if mask is not None:\n        scores", "    mask = mask[:1] if mask is not None and mask.ndim > 2 else mask\n    if mask is not None:\n        scores"),
    FIRST + "every sentence gets the mask of the first")
bug(T, "masked after softmax, then renormalised with an epsilon", [('scores = scores.masked_fill(~mask, float("-inf"))', "pass"),
    ("weights = weights.masked_fill(~mask, 0.0)", "weights = weights * mask; weights = weights / (weights.sum(-1, keepdim=True) + 1e-4)")],
    FIRST + "the mask comes after the softmax")
bug(T, "weights that were not used are returned", ("return weights @ v, weights", "return weights @ v, torch.softmax(q @ k.mT, -1)"), r"weights")
bug(T, "scores are returned as weights", ("weights @ v, weights", "weights @ v, scores"), r"weights|sum to 1|scores|negative")
bug("package: scaled_dot_product_attention", "the mask is lost", ("attention_scores(q, k, scale), mask)", "attention_scores(q, k, scale), None)"), MASK)
bug("baddbmm with a bias", "the bias is scaled with the scores", ("beta=1, alpha=1 / d ** 0.5)", "beta=0, alpha=1 / d ** 0.5)"), r"bias|mask|ignored")
bug("causal and mask", "a mask replaces the causal one", ("allowed & attn_mask", "attn_mask"), LEAK + r"|" + MASK)
bug("causal and mask", "either mask will do", ("allowed & attn_mask", "allowed | attn_mask"), LEAK + r"|" + MASK)

# Layers with one head --------------------------------------------------------------------------------------------

H, HC, HD = "OneHead", "one head, causal", "one head, dropout"
HSCALE = " / math.sqrt(k.shape[-1])"
bug(H, "no scale", (HSCALE, ""), SCALE)
bug(H, "divides by d", (HSCALE, " / k.shape[-1]"), SCALE)
bug(H, "the root of the model's width", (HSCALE, " / math.sqrt(x.shape[-1])"), SCALE)
bug(H, "softmax over the queries", ("dim=-1)", "dim=-2)"), QUERIES)
bug(H, "softmax over the batch", ("dim=-1)", "dim=0)"), BATCH + r"|dim")
bug(H, "no softmax", ("torch.softmax(scores, dim=-1)", "scores"), r"softmax|normali[sz]|sum to 1|weights")
bug(H, "k uses q's projection", ("self.k_proj(x)", "self.q_proj(x)"), LOST + r"|k_proj")
bug(H, "v uses k's projection", ("self.v_proj(x)", "self.k_proj(x)"), LOST + r"|v_proj")
bug(H, "k and q are tied", ("self.k_proj = nn.Linear(d_model, d_k)", "self.k_proj = self.q_proj"), r"tied|share|same (tensor|weight|parameter)|k_proj")
bug(H, "weights transposed", ("@ v", ".mT @ v"), r"transpos|swap|exchang|quer|dim")
bug(H, "values without projection", ("self.v_proj(x)", "(self.v_proj(x) * 0 + x[..., :self.v_proj.out_features])"), r"v_proj|projection|gradient|value")
bug(H, "plain tensors for weights", [("self.q_proj = nn.Linear(d_model, d_k)", "self.q_proj = torch.randn(d_model, d_k)"), ("self.q_proj(x)", "x @ self.q_proj")], REGISTERED)
bug("BareParameters", "tensors that are not parameters", [("nn.Parameter(torch.rand(d_in, d_out))\n        self.W_key", "torch.rand(d_in, d_out)\n        self.W_key"),
    ("nn.Parameter(torch.rand(d_in, d_out))\n        self.W_value", "torch.rand(d_in, d_out)\n        self.W_value")], REGISTERED + r"|plain|W_query|W_key")
bug("BareParameters", "queries and keys from one matrix", ("x @ self.W_query, x", "x @ self.W_key, x"), LOST + r"|W_query")
bug("BareParameters", "no scale", (" / keys.shape[-1] ** 0.5", ""), SCALE)
bug("BareParameters", "scaled by the number of words", ("keys.shape[-1] ** 0.5", "keys.shape[-2] ** 0.5"), SCALE)
bug("BareParameters", "weights from .data", ("torch.softmax(attn_scores", "torch.softmax(attn_scores.data"), GRAD + "|" + LOST)
bug(H, "a projection made anew at each call", ("self.dropout(weights) @ v", "nn.Linear(v.shape[-1], v.shape[-1])(self.dropout(weights) @ v)"),
    r"new|each call|every call|differ|determin|forward|regist|random|same input|twice")
bug(H, "under no_grad", ("scores = q @", "q, k = q.detach(), k.detach()\n        scores = q @"), GRAD + "|" + LOST)
bug(H, "batch mixed by the mean of keys", ("scores = q @ k", "k = k - k.mean(0)\n        scores = q @ k"), BATCH)
bug(H, "normalised over the batch", ("q, k, v = self.q_proj(x)", "x = x - x.mean((0, 1))\n        q, k, v = self.q_proj(x)"), BATCH)
bug(H, "changes x in place", ("q, k, v = self", "x *= 1 / math.sqrt(x.shape[-1])\n        q, k, v = self"), CHANGES_INPUT)
bug(H, "squeezes away a batch of one", ("return self.dropout(weights) @ v", "return (self.dropout(weights) @ v).squeeze(0)"), r"squeeze|batch of (1|one)|shape|batch|b = 1")
bug(H, "squeezes away a length of one", ("return self.dropout(weights) @ v", "return (self.dropout(weights) @ v).squeeze(1)"), r"squeeze|length|shape|one (word|token|position)|n = 1")
bug(H, "keys of all calls are kept", ("        scores = q @", "        self.keys = torch.cat([self.keys, k], 1) if hasattr(self, 'keys') and len(self.keys) == len(k) else k\n"
    "        self.values = torch.cat([self.values, v], 1) if hasattr(self, 'values') and len(self.values) == len(v) else v\n"
    "        k, v = self.keys.detach(), self.values.detach()\n        scores = q @"), r"state|call|cache|kept|keeps|remember|depend|same input|twice|determin|grad")
bug(HC, "no mask", ("if self.causal", "if not self.causal"), LEAK)
bug(HC, "sees one ahead", (".triu(1)", ".triu(2)"), LEAK + r"|off by one|next")
bug(HC, "does not see itself", (".triu(1)", ".triu(0)"), r"itself|own|off by one|diagonal|nan|fully|first")
bug(HC, "looks at the future only", (".triu(1)", ".tril(-1)"), LEAK + r"|wrong way|inver")
bug(HC, "masked in training only", ("if self.causal", "if self.causal and self.training"), r"eval|train")
bug(HC, "masked in eval only", ("if self.causal", "if self.causal and not self.training"), r"eval|train")
bug(HC, "masked only where gradients are wanted", ("if self.causal", "if self.causal and torch.is_grad_enabled()"), r"no_grad|grad|inference")
bug(HC, "a mask of the first length", ("future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)",
    "if not hasattr(self, 'future'):\n                self.future = torch.ones(n, n, dtype=torch.bool).triu(1)\n            future = self.future"),
    r"length|cache|first|size|shape|another|state")
bug(HC, "a longer input is not masked beyond the first length", ("future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)",
    "self.m = getattr(self, 'm', n)\n            future = torch.zeros(n, n, dtype=torch.bool)\n            future[:self.m, :self.m] = torch.ones(n, n).triu(1).bool()[:self.m, :self.m]"),
    r"length|cache|first|size|state|" + LEAK)
bug(HC, "-1e4 as minus infinity", ('float("-inf")', "-1e4"), r"-inf|finite|infinit|large|huge|1e4|" + LEAK)
bug(HC, "a batch of one is not masked", ("if self.causal:", "if self.causal and len(x) > 1:"), LEAK + r"|batch")
bug(HD, "dropout on in eval", ("self.dropout(weights)", "F.dropout(weights, 0.5)"), DROPOUT + r"|random|determin|eval")
bug(HD, "dropped weights are not rescaled", ("return self.dropout(weights) @ v", "keep = torch.rand_like(weights) > 0.5 if self.training else torch.ones_like(weights)\n        return (weights * keep) @ v"),
    r"dropout|resc|unbias|bias|mean|1 ?/ ?\(1 ?- ?p\)")
bug(HD, "dropout on the scores", [("torch.softmax(scores, dim=-1)", "torch.softmax(self.dropout(scores), dim=-1)"), ("self.dropout(weights) @ v", "weights @ v")], DROPOUT + r"|unbias|train")
bug(HD, "dropout scales the wrong way in eval", ("return self.dropout(weights) @ v", "return self.dropout(weights) @ v * (1.0 if self.training else 0.5)"), DROPOUT + r"|eval|train|sum|scale")
bug("CausalWithABuffer", "the mask is transposed", ("torch.triu(torch.ones(context_length, context_length), diagonal=1)", "torch.tril(torch.ones(context_length, context_length), diagonal=-1)"), LEAK + r"|wrong way|inver")
bug("CausalWithABuffer", "the scores are masked after softmax", [("        scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)\n", ""),
    ("self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))", "self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1).masked_fill(self.mask.bool()[:n, :n], 0))")],
    r"after (the )?softmax|denomin|renorm|" + LEAK)
bug("CausalWithABuffer", "the buffer cut at the wrong end", ("[:n, :n], -torch.inf", "[-n:, :n], -torch.inf"), LEAK + r"|cut|slice|corner")
bug("TinyHead", "the root of the model's width", ("self.key.out_features ** -0.5", "x.shape[-1] ** -0.5"), SCALE)
bug("TinyHead", "multiplied by the mask", ('wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))', "wei * self.tril[:T, :T]"), LEAK + r"|multipl")
bug("package: SelfAttention", "memory for the queries", ("self.q_proj(x), self.k_proj(memory)", "self.k_proj(memory), self.q_proj(x)"), r"swap|exchang|q_proj|k_proj|transpos|quer") 
bug("package: SelfAttention", "no scale", ("q.shape[-1] ** -0.5 if scale is None", "1.0 if scale is None"), SCALE)
bug("package: SelfAttention", "softmax over the queries", ("return softmax(scores, dim)", "return softmax(scores, -2)"), QUERIES, inside="softmax")
bug("package: SelfAttention", "values from the queries", ("self.v_proj(memory), mask)", "self.v_proj(self.q_proj.weight.new_zeros(memory.shape)) + self.v_proj(memory).mean(-2, keepdim=True), mask)"),
    r"value|mean|uniform|weights|reference|v_proj|expected|oracle")
bug("Block", "normalised over length and width", ("x = x + self.attn(self.ln1(x))", "x = x + self.attn(self.ln1(x) - x.mean((1, 2), keepdim=True))"), LEAK + r"|norm")
bug("Block", "the MLP is forgotten", ("return x + self.mlp(self.ln2(x))", "return x + self.ln2(x)"), LOST + r"|mlp")
bug("Block", "the second norm is forgotten", ("self.mlp(self.ln2(x))", "self.mlp(x)"), LOST + r"|ln2")
bug("AttentionWithResidual", "normalised over the batch", ("self.norm(x + self", "self.norm(x - x.mean(0) + self"), BATCH)
bug("LlamaLike", "the future is open", ("is_causal=self.causal", "is_causal=False"), LEAK)
bug("LlamaLike", "is_causal off in eval", ("is_causal=self.causal", "is_causal=self.causal and self.training"), r"eval|train")
bug("SlidingWindow, not announced", "one word too many", ("distance < self.window", "distance <= self.window"), r"window is off")
bug("SlidingWindow, not announced", "one word too few", ("distance < self.window", "distance < self.window - 1"), r"window is off")
bug("SlidingWindow", "half of the window lies in the future", ("(distance >= 0) & (distance < self.window)", "distance.abs() < self.window"), LEAK)
bug("LinearBias", "the penalty is there, the mask is not", (".masked_fill(distance < 0, float(\"-inf\"))", ".masked_fill(distance < 0, -10.0)"), LEAK)
misuse("nn.MultiheadAttention as self-attention", "batch_first forgotten", BATCH + r"|batch_first", build=lambda c: c(18, 3))
misuse("nn.TransformerEncoderLayer, causal", "the mask is not given", LEAK, args={"d_model": 24, "causal": True})

# Layers with many heads ------------------------------------------------------------------------------------------

M, MC, MD = "MultiHead", "MultiHead, causal", "MultiHead, dropout"
MSCALE = " / math.sqrt(self.d_head)"
bug(M, "no scale", (MSCALE, ""), SCALE)
bug(M, "√d_model for √d_head", (MSCALE, " / math.sqrt(d_model)"), SCALE)
bug(M, "divided by heads twice", (MSCALE, " / math.sqrt(self.d_head // self.n_heads)"), SCALE)
bug(M, "the root of the number of heads", (MSCALE, " / math.sqrt(self.n_heads)"), SCALE)
bug(M, "divides by d_head", (MSCALE, " / self.d_head"), SCALE)
bug(M, "softmax over the queries", ("dim=-1))", "dim=-2))"), QUERIES)
bug(M, "softmax over the heads", ("dim=-1))", "dim=1))"), r"head|dim")
bug(M, "softmax twice", ("torch.softmax(scores, dim=-1)", "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)"), r"twice|two times|again|second softmax")
bug(M, "sigmoid for softmax", ("torch.softmax(scores, dim=-1)", "torch.sigmoid(scores)"), r"sigmoid|sum to 1|softmax|normali[sz]")
Q_SPLIT, K_SPLIT, V_SPLIT = (f"self.{p}_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)" for p in "qkv")
RAW = ".view(b, self.n_heads, n, self.d_head)"
bug(M, "view for transpose in the split", [(s, f"self.{p}_proj(x){RAW}") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))], SPLIT)
bug(M, "heads transposed back before the merge", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).mT.reshape(b, n, d_model)"), r"\A[^\n]*merge")
bug(M, "heads added up", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).sum(1).repeat(1, 1, self.n_heads)"), r"added up")
bug(M, "words attend to their own heads", [("scores = q @", "q, k, v = (t.transpose(1, 2) for t in (q, k, v))\n        scores = q @"), ("(weights @ v).transpose(1, 2)", "(weights @ v)")], r"its own heads")
bug(M, "values and output are tied", ("self.out_proj = nn.Linear(d_model, d_model)", "self.out_proj = self.v_proj"), r"\A[^\n]*tied")
bug(M, "view for transpose in the merge", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).reshape(b, n, d_model)"), MERGE)
bug(M, "view for transpose in split and merge", [*((s, f"self.{p}_proj(x){RAW}") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))),
    ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).reshape(b, n, d_model)")], SPLIT + "|" + MERGE)
bug(M, "only the values are viewed", (V_SPLIT, f"self.v_proj(x){RAW}"), SPLIT + r"|value|v_proj")
bug(M, "width before heads in the split", [(s, f"self.{p}_proj(x).view(b, n, self.d_head, self.n_heads).permute(0, 3, 1, 2)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"))],
    SPLIT + r"|interleav|layout|head")
bug(M, "merged width first", ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).permute(0, 2, 3, 1).reshape(b, n, d_model)"), MERGE + r"|interleav|head|order")
bug(M, "heads attend to each other, not places", [(s, f"self.{p}_proj(x).view(b, n, self.n_heads, self.d_head)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))] +
    [("(weights @ v).transpose(1, 2).reshape", "(weights @ v).reshape")], r"head|transpos|position|place|other words|each word")
bug(M, "batch and length exchanged", [("b, n, d_model = x.shape", "x = x.transpose(0, 1)\n        b, n, d_model = x.shape"), ("return self.out_proj(context)", "return self.out_proj(context).transpose(0, 1)")],
    BATCH + r"|batch_first")
bug(M, "one head, for all their width", [(s, f"self.{p}_proj(x).view(b, n, 1, d_model).transpose(1, 2)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))] +
    [(MSCALE, " / math.sqrt(d_model)")], r"head")
bug(M, "heads averaged", [("nn.Linear(d_model, d_model)\n        self.dropout", "nn.Linear(self.d_head, d_model)\n        self.dropout"),
    ("(weights @ v).transpose(1, 2).reshape(b, n, d_model)", "(weights @ v).mean(1)")], r"head|averag|mean|concat|out_proj|shape")
bug(M, "weights averaged over the heads before use", ("(weights @ v)", "(weights.mean(1, keepdim=True) @ v)"), r"head|averag|mean")
bug(M, "the first head's weights for all", ("(weights @ v)", "(weights[:, :1] @ v)"), r"weights of the first head")
bug(M, "the first head's context for all", ("(weights @ v).", "(weights @ v)[:, :1].expand_as(v)."), r"every head gives what the first")
bug(M, "the first head's queries and keys for all", ("scores = q @ k.", "scores = q[:, :1] @ k[:, :1]."), r"first head|every head")
bug(M, "one head, repeated", [(f"self.{p}_proj = nn.Linear(d_model, d_model)", f"self.{p}_proj = nn.Linear(d_model, d_model // n_heads)") for p in "qkv"] +
    [(s, f"self.{p}_proj(x)[:, None].expand(-1, self.n_heads, -1, -1)") for s, p in ((Q_SPLIT, "q"), (K_SPLIT, "k"), (V_SPLIT, "v"))], r"repeated|copies|copy")
bug(M, "weights of nn.Linear not transposed", [(f"self.{p}_proj(x)", f"(x @ self.{p}_proj.weight + self.{p}_proj.bias)") for p in "qkv"], r"untransposed")
bug(M, "one weight of nn.Linear not transposed", ("self.k_proj(x)", "(x @ self.k_proj.weight + self.k_proj.bias)"), r"k_proj.weight is used untransposed")
bug(M, "the output weight not transposed", ("return self.out_proj(context)", "return context @ self.out_proj.weight + self.out_proj.bias"), r"out_proj.weight is used untransposed")
bug(M, "weights not transposed, and no scale", [(MSCALE, ""), *((f"self.{p}_proj(x)", f"(x @ self.{p}_proj.weight + self.{p}_proj.bias)") for p in "qkv")], r"untransposed")
bug("SquareParameters", "no scale", (" / math.sqrt(q.shape[-1])", ""), SCALE)
bug("ReadsItsWeights", "no scale", ("(q, k, v).transpose", "(q, k, v, scale=1.0).transpose"), SCALE)
bug(M, "heads in reverse order", ("(weights @ v).transpose", "(weights @ v).flip(1).transpose"), r"head|order|permut|merge")
bug(M, "the output projection is forgotten", ("return self.out_proj(context)", "return context"), LOST + r"|out_proj|output projection")
bug(M, "the output projection is used twice", ("return self.out_proj(context)", "return self.out_proj(self.out_proj(context))"), r"out_proj|output proj|twice|differ|reference|expected")
bug(M, "a residual too many", ("return self.out_proj(context)", "return x + self.out_proj(context)"), r"resid|input is added|adds|x \+|skip")
bug(M, "k_proj forgotten", ("self.k_proj(x).view", "x.view"), LOST + r"|k_proj|projection")
bug(M, "v is k", (V_SPLIT, "k"), LOST + r"|v_proj|value")
bug(M, "q and k exchanged", [("self.q_proj(x)", "self.Q(x)"), ("self.k_proj(x)", "self.q_proj(x)"), ("self.Q(x)", "self.k_proj(x)")], r"swap|exchang|q_proj|k_proj|transpos")
bug(M, "q and v exchanged", [("self.q_proj(x)", "self.Q(x)"), ("self.v_proj(x)", "self.q_proj(x)"), ("self.Q(x)", "self.v_proj(x)")], r"swap|exchang|q_proj|v_proj|order")
bug(M, "tied projections", ("self.v_proj = nn.Linear(d_model, d_model)", "self.v_proj = self.k_proj"), r"tied|share|same (tensor|weight|parameter)|v_proj")
bug(M, "weights transposed", ("(weights @ v)", "(weights.mT @ v)"), r"transpos|quer|dim|swap")
bug(M, "four heads, whatever was asked", ("self.n_heads, self.d_head = n_heads, d_model // n_heads", "self.n_heads, self.d_head = 4, d_model // 4"), r"head")
bug(M, "projections in a list", [("self.q_proj = nn.Linear(d_model, d_model)", "self.projections = [nn.Linear(d_model, d_model)]"), ("self.q_proj(x)", "self.projections[0](x)")], REGISTERED)
bug(M, "the context is detached", ("self.out_proj(context)", "self.out_proj(context.detach())"), GRAD + "|" + LOST)
bug(MC, "leaks", ("if self.causal", "if False"), LEAK)
bug(MC, "sees one ahead", ("diagonal=1", "diagonal=2"), LEAK + r"|off by one|next")
bug(MC, "does not see itself", ("diagonal=1", "diagonal=0"), r"itself|own|off by one|diagonal|nan|fully|first")
bug(MC, "masked in training only", ("if self.causal", "if self.causal and self.training"), r"eval|train")
bug(MC, "only the first head is masked", ("scores.masked_fill(future, float(\"-inf\"))", "torch.cat([scores[:, :1].masked_fill(future, float(\"-inf\")), scores[:, 1:]], 1)"), LEAK + r"|head")
bug(MC, "masked after softmax", [("scores = scores.masked_fill(future, float(\"-inf\"))", "pass"), ("torch.softmax(scores, dim=-1))", "torch.softmax(scores, dim=-1).tril())")],
    r"after (the )?softmax|denomin|renorm|" + LEAK)
bug(MD, "dropout on in eval", ("self.dropout(torch.softmax(scores, dim=-1))", "F.dropout(torch.softmax(scores, dim=-1), 0.5)"), DROPOUT + r"|random|determin|eval")
bug("FusedQkv", "chunks in the order k, q, v", ("q, k, v = qkv", "k, q, v = qkv"), ORDER)
bug("FusedQkv", "chunks in the order v, k, q", ("q, k, v = qkv", "v, k, q = qkv"), ORDER)
bug("FusedQkv", "scale of the whole width", ("(dim // num_heads) ** -0.5", "dim ** -0.5"), SCALE)
bug("FusedQkv", "scaled before and after", ("(q * self.scale) @ k.transpose(-2, -1)", "(q * self.scale) @ k.transpose(-2, -1) * self.scale"), SCALE)
bug("FusedQkv", "merged without transpose", ("(attn @ v).transpose(1, 2).reshape", "(attn @ v).reshape"), MERGE)
bug("FusedPerHead", "softmax over the queries", ("dim=-1)\n        values", "dim=-2)\n        values"), QUERIES)
bug("FusedPerHead", "merged without transpose", ("(attention @ v).permute(0, 2, 1, 3).reshape", "(attention @ v).reshape"), MERGE)
bug("ToQkv, causal", "no scale", (" * self.scale", ""), SCALE)
bug("ToQkv, causal", "lower triangle blocked", (".triu(j - i + 1)", ".tril(j - i - 1)"), LEAK + r"|wrong way|inver")
bug("GptLike", "is_causal off in eval", ("is_causal=True", "is_causal=self.training"), r"eval|train")
bug("GptLike", "the fused kernel without is_causal", (", is_causal=True", ""), LEAK)
bug("GptLike, dropout", "the fused kernel's dropout stays on in eval", [("if self.flash", "if True"), ("self.dropout if self.training else 0", "self.dropout")], DROPOUT + r"|random|determin|eval")
bug("GptLike without the fused kernel", "mask compared the wrong way", ("== 0, float", "== 1, float"), LEAK + r"|nan|inver|wrong way|itself")
bug("GptLike without the fused kernel", "the output projection is forgotten", ("self.c_proj(y)", "y"), LOST + r"|c_proj|output projection")
bug("GptLike without the fused kernel", "q and k in the wrong order", ("q, k, v = self.c_attn", "k, q, v = self.c_attn"), ORDER)
bug("WidthsOfItsOwn", "the root of the whole width", ("self.head_dim ** 0.5", "self.d_out ** 0.5"), SCALE)
bug("WidthsOfItsOwn", "merged without transpose", ("(weights @ values).transpose(1, 2)", "(weights @ values)"), MERGE)
bug("WidthsOfItsOwn", "the fused call without its mask", ("        scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)\n", ""), LEAK)
bug("HeadsInTheBatch", "unfolded as heads first", ("output.reshape(-1, self.num_heads, *output.shape[1:]).permute(0, 2, 1, 3)",
    "output.reshape(self.num_heads, -1, *output.shape[1:]).permute(1, 2, 0, 3)"), r"head|batch|merg|reshape|order|fold")
bug("HeadsInTheBatch", "folded without transpose", ("self.num_heads, -1).permute(0, 2, 1, 3)", "self.num_heads, -1)"), SPLIT + r"|head|mix|raises|error")
bug("FourLinears", "the last projection is the first", ("self.linears[-1]", "self.linears[0]"), LOST + r"|linears|projection|twice|shared")
bug("FourLinears", "key and value from one layer", ("zip(self.linears, (query, key, value))", "zip([self.linears[0], self.linears[1], self.linears[1]], (query, key, value))"), LOST + r"|linears")
bug("FourLinears, causal", "the mask is turned round", ("mask.unsqueeze(1) == 0", "mask.unsqueeze(1)"), LEAK + r"|inver|wrong way|itself")
bug("FourLinears, causal", "-1e9 in float16", ("torch.finfo(scores.dtype).min", "-1e9"), HALF + "|" + NAN)
bug("StackOfHeads", "heads in a Python list", ("nn.ModuleList(OneHead(d_model, d_model // n_heads, causal) for _ in range(n_heads))", "[OneHead(d_model, d_model // n_heads, causal) for _ in range(n_heads)]"), REGISTERED)
bug("StackOfHeads", "one head, repeated", ("nn.ModuleList(OneHead(d_model, d_model // n_heads, causal) for _ in range(n_heads))", "nn.ModuleList([OneHead(d_model, d_model // n_heads, causal)] * n_heads)"), r"tied|share|same|head")
bug("StackOfHeads", "heads are stacked along the length", ("dim=-1))", "dim=-2).unflatten(-2, (-1, x.shape[1])).movedim(-3, -1).flatten(-2))"), MERGE + r"|order|interleav|head")
bug("WeightPerHead", "no scale", (" / q.shape[-1] ** 0.5", ""), SCALE)
bug("WeightPerHead", "pattern summed over the heads", ('"bhqk,bkhd->bqhd"', '"bgqk,bkhd->bqhd"'), r"head|sum")
bug("GroupedQueries", "groups repeated in the wrong order", [("k = k.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "k = k.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"),
    ("v = v.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "v = v.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)")], r"group|repeat|interleav|kv.head|head")
bug("GroupedQueries", "keys repeated one way, values the other", ("v = v.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)", "v = v.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"),
    r"group|repeat|interleav|kv.head|head")
bug("HalfTheScaleEach", "the whole scale on each side", ("** -0.25", "** -0.5"), SCALE)
bug("WeightsTheOtherWay", "sees one ahead", (".triu(1)", ".triu(2)"), LEAK + r"|off by one|next")
bug("InTwoParts", "values are the keys", ("(self.query, self.key, self.value))\n", "(self.query, self.key, self.key))\n"), LOST + r"|value")
P = "package: MultiHeadAttention"
bug(P, "split without transpose", ("x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)", "x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1)"), SPLIT)
bug(P, "merged without transpose", ("x.transpose(-3, -2).flatten(-2)", "x.reshape(*x.shape[:-3], x.shape[-2], -1)"), MERGE)
bug(P, "values are the keys", ("self.v_proj(memory)\n", "self.k_proj(memory)\n"), LOST + r"|v_proj|value")
bug(P + ", causal", "leaks where no weights are wanted", ("fused_attention(q, k, v, mask, causal, dropout_p)", "fused_attention(q, k, v, mask, False, dropout_p)"), LEAK)
bug(P + ", causal", "dropout on in eval", ("self.dropout if self.training else 0.0", "self.dropout"), DROPOUT + r"|random|determin|eval")
bug(P + ", weights", "leaks where weights are wanted", ("mask = _and_causal(mask, q, k) if causal else mask", "pass"), LEAK)
bug(P + ", weights", "half the scale", ("q.shape[-1] ** -0.5", "q.shape[-1] ** -0.25"), SCALE, inside="self_attention")
misuse("nn.MultiheadAttention", "batch_first forgotten", BATCH + r"|batch_first", build=lambda c: c(24, 3))
misuse("nn.MultiheadAttention, causal by attn_mask", "True taken for may attend", LEAK + r"|inver|polarity|wrong way|itself",
       args=with_args("nn.MultiheadAttention, causal by attn_mask",
                      call=lambda m, x: m(x, x, x, attn_mask=~correct._causal_blocked(x.shape[1]))))

# Layers that hide a bug: fused groups, rotations, zeros, what is kept ---------------------------------------------

FG = "FusedGroups, two for four"
bug("FusedGroups", "no scale", ("is_causal=True", "is_causal=True, scale=1.0"), SCALE)
bug(FG, "√d_model for √d_head", ("is_causal=True", "is_causal=True, scale=c ** -0.5"), SCALE)
bug(FG, "groups repeated in the wrong order", ("t.repeat_interleave(self.n_heads // self.n_groups, dim=1)", "t.repeat(1, self.n_heads // self.n_groups, 1, 1)"), r"group|repeat|interleav")
bug(FG, "values cut before keys", ("q, k, v = rows.unflatten", "q, v, k = rows.unflatten"), ORDER)
bug(FG, "merged without transpose", ("out.transpose(1, 2).reshape", "out.reshape"), MERGE)
bug("LlamaLike", "no scale", ("is_causal=self.causal", "is_causal=self.causal, scale=1.0"), SCALE)
bug("LlamaLike", "the keys are not rotated", ("rotate(xq), rotate(xk)", "rotate(xq), xk"), r"rotat.*quer|keys? (are|is) not rotated|RoPE")
bug("LlamaLike, looks both ways", "softmax over the queries", ("F.scaled_dot_product_attention(xq, xk, xv, is_causal=self.causal, enable_gqa=True)",
    "(xq @ xk.mT / self.head_dim ** 0.5).softmax(-2) @ xv"), QUERIES)
bug("LlamaLike, looks both ways", "the root of the model's width", ("enable_gqa=True", "enable_gqa=True, scale=x.shape[-1] ** -0.5"), SCALE)
bug("RotatesNeighbours", "no scale", (" * q.shape[-1] ** -0.5", ""), SCALE)
bug("RotatesNeighbours", "only the keys are rotated", ("self.rotate(q) @", "q @"), r"rotat.*keys|RoPE")
bug("NormedQueries", "the keys are detached", ("self.k_norm(k), v", "self.k_norm(k.detach()), v"), GRAD + "|" + LOST)
bug("StartsAtZero", "no scale", ("is_causal=True", "is_causal=True, scale=1.0"), SCALE)
bug("StartsAtZero", "the future is open", (", is_causal=True", ""), LEAK)
bug("StartsAtZero", "values are the keys", ("(self.wq, self.wk, self.wv))", "(self.wq, self.wk, self.wk))"), LOST + r"|wv")
bug("BoundedProjections", "the future is open in training", ("self.wo.weight)", "self.wo.weight); self.register_forward_hook(lambda m, a, y: y + 0.1 * y.mean(1, keepdim=True) if m.training else None)"), r"train")
bug("OneArgument", "True taken for may attend", ("attn_mask=_", "attn_mask=~_"), LEAK + r"|inver|itself")
bug("GroupedQueries", "heads are averaged, and the output projection is three times as wide as a head",
    [("(n_heads * self.head_dim, dim", "(self.head_dim, dim"), ("out.transpose(1, 2).reshape(b, n, -1)", "out.mean(1)")], r"averaged", build=lambda c: c(24, 3, 3), args=with_args("GroupedQueries", n_heads=3))
bug("BareParameters", "the values are not projected", ("@ values", "@ x[..., :values.shape[-1]]"), r"W_value is not used")
bug(H, "the values are not projected, and not read", ("@ v", "@ x[..., :v.shape[-1]]"), LOST + r"|v_proj")
bug("BareParameters", "all weights are buffers", [(f"self.W_{name} = nn.Parameter(torch.rand(d_in, d_out))", f"self.register_buffer('W_{name}', torch.rand(d_in, d_out))")
                                                for name in ("query", "key", "value")], r"has no parameters")
bug(HD, "kept from call to call", ("return self.dropout(weights) @ v", "self.last = 0.5 * getattr(self, 'last', 0) + v.detach().mean()\n        return self.dropout(weights) @ v + self.last"), r"kept|state")
bug(HC, "the first word sees nothing", (".triu(1)", ".triu(0)"), r"diagonal|itself")
bug(HC, "called, then read the wrong way", ("scores = q @", "q = x @ self.q_proj.weight + self.q_proj.bias\n        scores = q @"), r"used untransposed")
bug(HC, "the future is open from the sixteenth word on", (".triu(1)", ".triu(1)\n            future[16:] = False"), LEAK)
bug(HC, "a window of twelve that nobody announced", (".triu(1)", ".triu(1)\n            future |= torch.ones_like(future).tril(-12)"), r"11 places away")
bug(H, "the first twelve keys only", ("q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)", "q, k, v = self.q_proj(x), self.k_proj(x[:, :12]), self.v_proj(x[:, :12])"), r"first 12")
bug("AttentionWithResidual", "the first twelve keys only", ("scaled_dot_product_attention(q, k, v)", "scaled_dot_product_attention(q, k[:, :, :12], v[:, :, :12])"), r"first 12")
bug("one head with faint weights", "no scale", (HSCALE, ""), SCALE)
bug("one head with faint weights", "softmax over the queries", ("dim=-1)", "dim=-2)"), QUERIES)
bug(H, "a small number in the denominator", ("weights = torch.softmax(scores, dim=-1)", "weights = (scores - scores.amax(-1, keepdim=True)).exp()\n        weights = weights / (weights.sum(-1, keepdim=True) + 1e-3)"), r"added to the softmax's sum")
bug(H, "32 bits come back", ("self.dropout(weights) @ v", "self.dropout(weights).float() @ v.float()"), r"returns float32")
bug("CausalWithABuffer", "the mask is a parameter", ('self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))',
    "self.mask = nn.Parameter(torch.triu(torch.ones(context_length, context_length), diagonal=1))"), r"register_buffer")

# Places in the scores: no reference, but probes -------------------------------------------------------------------

RN, LB, BOTH = "RotatesNeighbours", "LinearBias", "LlamaLike, looks both ways"
bug(RN, "the root of the model's width", (" * q.shape[-1] ** -0.5", " * x.shape[-1] ** -0.5"), SCALE)
bug(RN, "split with a view", [(".unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t", ".reshape(len(t), self.n_heads, t.shape[1], -1) for t")], SPLIT)
bug(RN, "merged without transpose", ("@ v).transpose(1, 2).flatten(2))", "@ v).reshape(x.shape))"), MERGE)
bug(RN, "softmax over the queries", ("scores.softmax(-1)", "scores.softmax(-2)"), QUERIES)
bug(RN, "the values are rotated, too", ("softmax(-1) @ v)", "softmax(-1) @ self.rotate(v))"), r"values? .*rotat|rotat.*values?")
LSDPA = "F.scaled_dot_product_attention(q, k, v, attn_mask=bias)"
bug(LB, "no scale", (LSDPA, "F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)"), SCALE)
bug(LB, "the root of the model's width", (LSDPA, "F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=x.shape[-1] ** -0.5)"), SCALE)
bug(LB, "merged without transpose", (LSDPA + ".transpose(1, 2).flatten(2)", LSDPA + ".reshape(x.shape)"), MERGE)
bug(LB, "split with a view", ("p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)", "p(x).reshape(len(x), self.n_heads, n, -1)"), SPLIT)
bug(LB, "softmax over the queries", (LSDPA, "((q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-2) @ v)"), QUERIES)
bug(LB, "masked after softmax", (LSDPA, "((q @ k.mT * q.shape[-1] ** -0.5 - 0.1 * distance.abs()).softmax(-1).tril() @ v)"), r"after (the )?softmax|sum to 1|denomin|renorm")
bug("RelativeBias", "softmax over the queries", ("softmax(-1)", "softmax(-2)"), QUERIES)
bug("RelativeBias", "merged without transpose", ("@ v).transpose(1, 2).flatten(2)", "@ v).reshape(x.shape)"), MERGE)

# More bugs of layers ----------------------------------------------------------------------------------------------

MH, MHC = "MultiHead", "MultiHead, causal"
bug("MultiHead as self-attention", "the mask is made in forward, and saved", ("        scores = q @", "        if not hasattr(self, 'seen') or self.seen.shape[0] < n:\n            self.register_buffer('seen', torch.ones(n, n))\n        scores = q @"), r"state.?dict|persistent|register")
bug("MultiHead as self-attention", "weights come first", ("return self.out_proj(context)", "return weights, self.out_proj(context)"), r"\(weights, output\)|order of .*return")
bug(MH, "queries are the values", ("v = self.v_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)", "v = q"), r"v_proj is (never|not) used|as values|v_proj is not")
bug(MH, "keys are split in another order", ("k = self.k_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)", "k = self.k_proj(x).view(b, n, self.d_head, self.n_heads).permute(0, 3, 1, 2)"), r"split|order")
bug(MH, "ReLU behind the projections", ("        scores = q @", "        q, k, v = q.relu(), k.relu(), v.relu()\n        scores = q @"), r"relu|negative")
bug(MH, "normalised over the words", ("        scores = q @", "        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)\n        scores = q @"), r"norm")
bug(MH, "scores are squashed", ("        if self.causal:", "        scores = scores.tanh()\n        if self.causal:"), r"tanh|squash")
bug(MHC, "a mask times minus infinity", ('scores = scores.masked_fill(future, float("-inf"))', 'scores = scores + future.float() * float("-inf")'), r"0 · inf|masked_fill")
bug("SequenceFirstInside", "no scale", (" * self.head_dim ** -0.5", ""), SCALE)
bug("SequenceFirstInside", "merged as sentence first", (".transpose(0, 1).contiguous().view(n, b, width)", ".contiguous().view(n, b, width)"), MERGE + "|" + BATCH)

# Softmax ---------------------------------------------------------------------------------------------------------

S, L = "shifted softmax", "over the last"
TOP = "x.max(dim=dim, keepdim=True).values"
bug(S, "not shifted", (f"x - {TOP}", "x"), NAN + r"|maxim|largest|stab|subtract")
bug(S, "shifted by the largest of all", (TOP, "x.max()"), r"row|global|underflow|largest of all|maxim|" + NAN)
bug(S, "shifted by the mean", (TOP, "x.mean(dim=dim, keepdim=True)"), NAN + r"|maxim|largest|stab")
bug(S, "shifted by the smallest", (TOP, "x.min(dim=dim, keepdim=True).values"), NAN + r"|maxim|largest|stab")
bug("wide softmax", "the wider type comes back", (".to(x.dtype)", ""), r"returns float64 for x in float16")
bug(S, "clamped at 50", (f"x - {TOP}", "x.clamp(max=50.0)"), r"clamp|large|clip|differ|shift|saturat|torch.softmax|expected")
bug(S, "sums over everything", ("e.sum(dim=dim, keepdim=True)", "e.sum()"), r"sum to 1|everything|over all|dim|whole")
bug(S, "always over the last", (f"torch.exp(x - {TOP})", "torch.exp(x - x.amax(-1, keepdim=True)); dim = -1"), r"dim")
bug(S, "always over the first", (f"torch.exp(x - {TOP})", "torch.exp(x - x.amax(0, keepdim=True)); dim = 0"), r"dim")
bug(S, "the shift has a gradient of its own, the sum has none", ("e.sum(dim=dim, keepdim=True)", "e.sum(dim=dim, keepdim=True).detach()"), GRAD)
bug(L, "over the rows' other dimension", ("exps.sum(-1, keepdim=True)", "exps.sum(-2, keepdim=True)"), r"dim|sum to 1|column|last")
bug(L, "in place", ("x = x - x.amax(-1, keepdim=True)", "x -= x.amax(-1, keepdim=True)"), CHANGES_INPUT)
bug(L, "a sum that is broadcast the other way", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1)[..., None, :] if exps.ndim > 1 and exps.shape[-1] == exps.shape[-2] else exps.sum(-1, keepdim=True))"),
    r"keepdim|square|broadcast|dim|sum to 1|transpos|column")
bug(L, "keepdim forgotten", ("exps.sum(-1, keepdim=True)", "exps.sum(-1)"), "keepdim=True is missing")
bug(L, "a small number in the denominator", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1, keepdim=True) + 0.01)"), r"sum to 1|eps|denomin")
bug(L, "one too many in the denominator", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1, keepdim=True) + 1)"), r"sum to 1|denomin|extra")
bug(L, "sigmoid", ("exps / exps.sum(-1, keepdim=True)", "torch.sigmoid(x)"), r"sum to 1|sigmoid|normali[sz]")
bug(L, "absolute values, no exponential", ("exps = x.exp()", "exps = x.abs() + 1e-6"), r"exp|order|differ|larg|monoton|negative|torch.softmax|expected")
bug(L, "powers of two", ("x.exp()", "torch.exp2(x)"), r"exp|base|2|temperature|differ|sharp|flat")
bug(L, "a temperature by accident", ("exps = x.exp()", "exps = (x / x.shape[-1] ** 0.5).exp()"), r"scal|temperature|sharp|flat|differ|expected")
bug(L, "twice", ("exps / exps.sum(-1, keepdim=True)", "torch.softmax(exps / exps.sum(-1, keepdim=True), -1)"), r"twice|again|flat|uniform|two")
bug(L, "all on the largest", ("exps / exps.sum(-1, keepdim=True)", "(x == 0).to(x.dtype) / (x == 0).sum(-1, keepdim=True)"), r"hard|argmax|largest|one.hot|gradient|differ")
bug(L, "squeezed", ("exps / exps.sum(-1, keepdim=True)", "(exps / exps.sum(-1, keepdim=True)).squeeze()"), r"squeeze|shape|size 1|length 1")
bug("by log softmax", "the logarithm is left", (".exp()", ""), r"log|negative|exp")
bug("online softmax", "the old sum is not rescaled", ("total = total * (top - new).exp() +", "total = total +"), r"resc|online|sum to 1|running|maxim|denomin")
bug("wide softmax", "narrow", ("x.double() / temperature", "x.half() / temperature"), r"precis|float16|half|16.bit|accura|round|" + NAN)
bug("softmax with its own backward", "a backward without the sum", ("(grad - (y * grad).sum(-1, keepdim=True))", "grad"), GRAD + r"|jacobian|backward")
bug(S, "the sum runs over all rows", ("e.sum(dim=dim, keepdim=True)", "e.sum()"), r"whole|all rows|one dim")
bug(S, "computed in bfloat16", ("torch.exp(x - x.max(dim=dim, keepdim=True).values)", "torch.exp((x - x.max(dim=dim, keepdim=True).values).bfloat16())"), r"bfloat16|precis|round")
PARTS, TOPS = r"maximum .* part of the row", "torch.stack([each.amax(-1) for each in x.split(part, -1)], -1).amax(-1, keepdim=True)"
bug("softmax in parts", "the largest of the first part", (TOPS, "x[..., :part].amax(-1, keepdim=True)"), PARTS)
bug("softmax in parts", "the largest of the last part, in long ones", [("part=4", "part=64"), (TOPS, "x.split(part, -1)[-1].amax(-1, keepdim=True)")], PARTS)
PS = "package: softmax"
bug(L, "a tiny number in the denominator", ("exps.sum(-1, keepdim=True)", "(exps.sum(-1, keepdim=True) + 1e-4)"), r"an epsilon, about 0\.0001")
bug(PS, "not shifted", ("e = (z - z.amax(dim, keepdim=True).detach()).exp()", "e = z.exp()"), NAN + r"|maxim|largest|stab")
bug(PS, "another sum", ("return (e / e.sum(dim, keepdim=True)).to(x.dtype)", "return (e / e.sum(-2, keepdim=True)).to(x.dtype)"), r"dim|sum to 1|column")
bug(PS, "detached", ("return (e / e.sum(dim, keepdim=True)).to(x.dtype)", "return (e / e.sum(dim, keepdim=True)).detach().to(x.dtype)"), GRAD)
misuse("F.softmax", "no dim given", r"dim|sum to 1", build=lambda f: lambda x: f(x))

# Masked softmax --------------------------------------------------------------------------------------------------

X, Z = "fill softmax fill", "sums of the allowed"
bug(X, "the mask is ignored", [("scores.masked_fill(~mask, float(\"-inf\")).softmax", "scores.softmax"), ("return weights.masked_fill(~mask, 0)", "return weights")], MASK)
bug(X, "the mask is inverted", [("scores.masked_fill(~mask", "scores.masked_fill(mask"), ("weights.masked_fill(~mask", "weights.masked_fill(mask")],
    r"invert|opposite|polarity|True|wrong way|revers")
bug(X, "32 bits come back", ("scores.masked_fill(~mask", "scores.float().masked_fill(~mask"), r"returns float32 for scores in float16")
bug(X, "nothing is returned", ("    return weights", "    weights"), r"returns nothing")
bug(X, "fully masked rows are NaN", ("weights.masked_fill(~mask, 0)", "weights"), DEAD + r"|nan")
bug(X, "fully masked rows are uniform", [('float("-inf")', "torch.finfo(scores.dtype).min"), ("weights.masked_fill(~mask, 0)", "weights")], DEAD + r"|uniform|mean|1/n")
bug(X, "-1e9, uniform rows, and float16 fails", [('float("-inf")', "-1e9"), ("weights.masked_fill(~mask, 0)", "weights")], DEAD + r"|uniform|" + HALF)
bug(X, "-1e9 in float16", ('float("-inf")', "-1e9"), HALF + "|" + NAN)
bug(X, "-100 for minus infinity", ('float("-inf")', "-100.0"), r"-inf|finite|infinit|large|huge|100|sum to 1|not enough")
bug(X, "0 for minus infinity", ('float("-inf")', "0.0"), r"-inf|sum to 1|denomin|infinit|blocked")
bug(X, "masked after softmax", ("scores.masked_fill(~mask, float(\"-inf\")).softmax(dim=-1)", "scores.softmax(dim=-1)"), r"after (the )?softmax|sum to 1|denomin|renorm")
bug(X, "masked after softmax, then renormalised", [("scores.masked_fill(~mask, float(\"-inf\")).softmax(dim=-1)", "scores.softmax(dim=-1)"),
    ("return weights.masked_fill(~mask, 0)", "weights = weights.masked_fill(~mask, 0)\n    return (weights / weights.sum(-1, keepdim=True)).nan_to_num(0)")],
    r"after (the )?softmax|denomin|renorm|underflow|large|huge|" + NAN + "|" + GRAD)
bug(X, "scores times mask", ("scores.masked_fill(~mask, float(\"-inf\")).softmax", "(scores * mask).softmax"), r"multipl|sum to 1|denomin|-inf|blocked")
bug(X, "fills in place", ("scores.masked_fill(", "scores.masked_fill_("), CHANGES_INPUT)
bug(X, "turns the mask in place", ("    weights = scores.masked_fill(~mask", "    mask.logical_not_()\n    weights = scores.masked_fill(mask"), CHANGES_INPUT + "|" + MASK)
bug(X, "softmax over the queries", ("softmax(dim=-1)", "softmax(dim=-2)"), QUERIES + r"|dim|sum to 1")
bug(X, "the mask is transposed where it is square", [("    weights = scores", "    mask = mask.mT if mask.ndim > 1 and mask.shape[-1] == mask.shape[-2] else mask\n    weights = scores")],
    r"transpos|square|axis|" + MASK)
bug(X, "only masks of the scores' own shape", [("    weights = scores", "    assert mask.shape == scores.shape\n    weights = scores")], r"broadcast|shape|raises")
bug(X, "the mask of the first of the batch", [("    weights = scores", "    mask = mask[:1] if mask.ndim == scores.ndim else mask\n    weights = scores")], r"batch|broadcast|first|" + MASK)
bug("lowest number then mask", "added, not filled", ("torch.where(mask, scores, torch.finfo(scores.dtype).min)", "scores + torch.where(mask, 0.0, -1e4).to(scores.dtype)"),
    r"-inf|finite|infinit|large|huge|1e4|not enough|sum to 1")
bug("lowest number then mask", "not masked again", (" * mask", ""), DEAD + r"|uniform|mean")
bug("nan to num after", "uniform where nothing is allowed", (".nan_to_num(0.0)", ".nan_to_num(1 / scores.shape[-1])"), DEAD + r"|uniform|mean|zero")
bug("nan to num after", "the gradient of a fully masked row is NaN", ('torch.where(mask, scores, float("-inf"))', 'scores + torch.where(mask, 0.0, float("-inf")).to(scores.dtype)'), GRAD + "|" + DEAD)
bug(Z, "the largest of all, blocked or not", ("scores.masked_fill(~mask, low).max(-1", "scores.max(-1"), r"largest|maxim|underflow|blocked|large|huge|zero|sum to 1|" + NAN)
bug(Z, "the sum of all, blocked or not", ("(scores.masked_fill(~mask, low) - top).exp().masked_fill(~mask, 0)", "(scores - top).exp()"), MASK + r"|sum to 1|" + NAN)
bug(Z, "0 / 0", ("torch.where(total == 0, torch.ones_like(total), total)", "total"), DEAD + r"|nan")
bug(Z, "a small number in the denominator", ("torch.where(total == 0, torch.ones_like(total), total)", "(total + 1e-2)"), r"sum to 1|eps|denomin")
bug(Z, "no shift", (" - top).exp()", ").exp()"), NAN + r"|maxim|largest|stab|shift")
bug(Z, "a tiny number in the denominator", ("torch.where(total == 0, torch.ones_like(total), total)", "(total + 1e-3)"), r"an epsilon, about 0\.001")
bug("masked in log space", "the dead rows are left", ("exp().masked_fill(dead, 0)", "exp()"), DEAD + r"|uniform|mean")
bug("bias where something is allowed", "computed in float16", ("F.softmax(scores.float() + bias.float(), dim=-1)", "F.softmax(scores.half() + bias.half(), dim=-1)"), r"precis|float16|half|16.bit|accura|round|" + NAN)
bug("masked softmax in parts", "the largest of the first part", ("torch.stack([each.amax(-1) for each in filled], -1)", "filled[0]"), PARTS)
PM = "package: masked_softmax"
bug(PM, "NaN where nothing is allowed", ("total.masked_fill(total == 0, 1)", "total"), DEAD + r"|nan")
bug(PM, "-inf minus -inf", ("top.masked_fill(top == float(\"-inf\"), 0)", "top"), DEAD + r"|nan")
bug(PM, "the mask is inverted", ("z = at_least_float32(scores).masked_fill(~mask", "z = at_least_float32(scores).masked_fill(mask"), r"invert|opposite|polarity|True|wrong way|revers")
bug(PM, "-1e4 for minus infinity", ('masked_fill(~mask, float("-inf"))', "masked_fill(~mask, -1e4)"), r"-inf|finite|infinit|large|huge|1e4|uniform|" + DEAD)

# Layers that were once not read: a sentence at a time, convolutions, blocks, stacked matrices ---------------------

bug("OneSentence", "softmax over the queries", ("dim=1) @ v", "dim=0) @ v"), r"over queries")
bug("OneSentence", "divides by √n", ("k.size(1) **", "k.size(0) **"), r"root of the number of (keys|queries)")
bug("Convolutions", "softmax over the queries", ("softmax(-1)", "softmax(-2)"), r"over queries")
bug("Convolutions", "the root of all heads' width", ("(x.shape[1] // self.n_heads) **", "x.shape[1] **"), r"root of d_model")
bug("FixedSlopes", "the root of all heads' width", ("q.shape[-1] ** 0.5", "x.shape[-1] ** 0.5"), r"root of d_model")
bug("GptBlock", "no scale", (" / k.shape[-1] ** 0.5", ""), r"not scaled")
bug("GptBlock", "softmax over the queries", ("softmax(-1)", "softmax(-2)"), r"over queries")
bug("GptBlock", "softmax over the heads", ("softmax(-1)", "softmax(1)"), r"over heads or sentences")
bug("StackedMatrices", "no scale", (" / k.shape[-1] ** 0.5", ""), r"not scaled")
bug("StackedMatrices", "the root of the input's width", ("k.shape[-1] ** 0.5", "x.shape[-1] ** 0.5"), r"root of d_model")
bug("WeightsToo", "weights are returned transposed", (".flatten(2)), weights", ".flatten(2)), weights.mT"), r"returns are transposed")
bug("WeightsToo", "a temperature", ("q.shape[-1] ** 0.5)", "q.shape[-1] ** 0.5 / 0.7)"), r"multiplied by 0\.50")
bug("WeightsToo", "a name that is not defined", ("weights = (q", "weights = (qs"), r"error of the code.*NameError")
bug("RawScoresToo", "1 is added where forbidden", ('masked_fill(_causal_blocked(x.shape[1]), float("-inf"))', "add(_causal_blocked(x.shape[1]) / q.shape[-1] ** 0.5)"),
    r"0 and 1, 1 where forbidden")
bug("GptBlock", "divides by √n, with five heads", ("k.shape[-1] **", "k.shape[-2] **"), r"root of the number of (keys|queries)",
    build=lambda c: c(30, 5), args=with_args("GptBlock", d_model=30))
bug("MultiHead, dropout", "a ReLU behind the output", ("return self.out_proj(context)", "return F.relu(self.out_proj(self.dropout(context)))"), r"ReLU comes after")
bug("LlamaLike", "keys are split by view", ("out = F.scaled", "xk = rotate(self.wk(x).view(b, -1, n, self.head_dim))\n        out = F.scaled"), r"without a transpose")
