"""The cases of `sparse_attention`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import (
    Case,
    args,
    dtypes,
    floats,
    masks,
    number_in,
    qkv,
    refuse,
    right_attention,
    scales,
    shapes_of,
    sizes,
    unmasked,
    whole,
)


def best_of(row, n_keep, may):
    "The positions of the highest scores; of equal ones the first."
    order = sorted((j for j in range(len(row)) if may[j]), key=lambda j: (-row[j], j))
    return [j in order[:n_keep] for j in range(len(row))]


def right_keys(scores, n_keep, mask=None):
    whole(n_keep)
    refuse(scores.is_floating_point() and scores.ndim > 1 and 0 not in scores.shape)
    refuse(mask is None or mask.dtype == torch.bool)
    may = torch.ones(scores.shape).bool() if mask is None else mask.expand(scores.shape)
    n = scores.shape[-1]
    rows = zip(scores.reshape(-1, n).tolist(), may.reshape(-1, n).tolist())
    return torch.tensor([best_of(row, n_keep, m) for row, m in rows]).view(scores.shape)


def scored(q, k):
    return torch.einsum("...id,...jd->...ij", q.detach(), k.detach())


def right_top(q, k, v, n_keep, mask=None, causal=False, scale=None):
    refuse(q.shape[:-2] == k.shape[:-2] and isinstance(causal, bool))
    scores, (n_q, n_k) = scored(q, k), (q.shape[-2], k.shape[-2])
    scores = scores * (1 if scale is None else number_in(scale))
    if causal:
        past = torch.tensor([[j - n_k <= i - n_q for j in range(n_k)] for i in range(n_q)])
        mask = past if mask is None else mask & past
    return right_attention(q, k, v, right_keys(scores, n_keep, mask), scale)[0]


def right_blocks(q, k, v, block, n_blocks, how="bound"):
    whole(block, n_blocks)
    refuse(how in ("bound", "mean") and q.shape[:-2] == k.shape[:-2])
    scores, (n_q, n_k) = of_blocks(q, k, block, how), (q.shape[-2], k.shape[-2])
    rows = []
    for row in scores.reshape(-1, n_q, scores.shape[-1]).tolist():
        for i, p in enumerate(range(n_k - n_q, n_k)):
            own = p // block
            may = [b < own for b in range(len(row[i]))]
            chosen = best_of(row[i], n_blocks - 1, may)
            kept = [b for b in range(len(chosen)) if chosen[b] or b == own]
            rows.append([j <= p and j // block in kept for j in range(n_k)])
    return right_attention(q, k, v, torch.tensor(rows).view(*q.shape[:-1], n_k))[0]


def of_blocks(q, k, block, how):
    "The score of every query with every block: one block after the other."
    found = []
    for start in range(0, k.shape[-2], block):
        part = k.detach()[..., start : start + block, :]
        products = q.detach()[..., :, None, :] * part[..., None, :, :]  # (..., n_q, block, d)
        by_key = products.sum(-1).mean(-1)
        found.append(by_key if how == "mean" else products.amax(-2).sum(-1))
    return torch.stack(found, -1)


def apart(scores):
    "Whether no two scores of a row are so near that rounding could exchange them."
    ordered = scores.double().sort(-1).values.diff(dim=-1)
    return scores.shape[-1] == 1 or bool((ordered > 1e-3).all())


def right_index(self, x, memory=None):
    memory = x if memory is None else memory
    refuse(x.shape[:-2] == memory.shape[:-2])
    wq, wk, ww = (p.weight.to(x) for p in (self.q_proj, self.k_proj, self.w_proj))
    q = torch.einsum("...id,hcd->...hic", x, wq.view(self.n_heads, -1, wq.shape[-1]))
    k = torch.einsum("...jd,cd->...jc", memory, wk)
    met = torch.einsum("...hic,...jc->...hij", q, k).clamp(min=0)
    return torch.einsum("...hij,...id,hd->...ij", met, x, ww)


def decided(a):
    "Whether no product is so near 0 that rounding could change what ReLU does."
    x = a["x"].double()
    memory = x if a["memory"] is None else a["memory"].double()
    wq, wk = (p.weight.double() for p in (a["self"].q_proj, a["self"].k_proj))
    q = (x @ wq.mT).unflatten(-1, (a["self"].n_heads, -1)).transpose(-2, -3)
    return bool(((q @ (memory @ wk.mT).mT.unsqueeze(-3)).abs() > 0.02).all())


@st.composite
def index_calls(draw):
    dtype, lead = draw(dtypes), draw(st.lists(st.integers(1, 3), max_size=2))
    d, n_q, n_k = draw(sizes), draw(sizes), draw(sizes)
    torch.manual_seed(draw(st.integers(0, 999)))
    indexer = nb.Indexer(d, draw(sizes), draw(sizes)).to(dtype)
    memory = draw(st.none() | floats((*lead, n_k, d), dtype))
    return {"self": indexer, "x": draw(floats((*lead, n_q, d), dtype)), "memory": memory}


@st.composite
def rows_of_scores(draw):
    shape = (*draw(st.lists(sizes, max_size=2)), draw(sizes), draw(sizes))
    return {
        "scores": draw(floats(shape, draw(dtypes))),
        "n_keep": draw(sizes),
        "mask": draw(masks(shape)),
    }


CASES = {
    "top_keys": Case(
        nb.top_keys, rows_of_scores(), right_keys, also={"mask": "scores"}, exact=True, finite=True
    ),
    "top_k_attention": Case(
        nb.top_k_attention,
        qkv(n_keep=sizes, causal=st.booleans(), scale=scales).filter(
            lambda a: apart(scored(a["q"].double(), a["k"].double()))
        ),
        right_top,
        "q",
        finite=True,
    ),
    "block_sparse_attention": Case(
        nb.block_sparse_attention,
        unmasked(block=sizes, n_blocks=sizes, how=st.sampled_from(["bound", "mean"])).filter(
            lambda a: apart(of_blocks(a["q"].double(), a["k"].double(), a["block"], a["how"]))
        ),
        right_blocks,
        "q",
        finite=True,
    ),
    "Indexer": Case(
        lambda d_model, n_heads, d_head: shapes_of(nb.Indexer(d_model, n_heads, d_head)),
        args(d_model=sizes, n_heads=sizes, d_head=sizes),
        lambda d_model, n_heads, d_head: (
            whole(d_model, n_heads, d_head)
            or {
                "q_proj.weight": (n_heads * d_head, d_model),
                "k_proj.weight": (d_head, d_model),
                "w_proj.weight": (n_heads, d_model),
            }
        ),
    ),
    "Indexer.forward": Case(
        nb.Indexer.forward,
        index_calls().filter(decided),
        right_index,
        "x",
        fixed=("self",),
        finite=True,
    ),
}
