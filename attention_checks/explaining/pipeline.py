"""Attention as named stages: a bug replaces one or more of them.

How a check finds that the scores are not scaled (`scale.missing`):

1. A row in catalogue/ holds the code, the sentence, and the wrong scale, `lambda work: 1.0`. It
   becomes a `Bug` with that `factor`. Other rows become bugs with `steps`, which replace stages.
2. The check calls the code under test. It keeps what went in as `Work` (q, k, v and the right
   scale), and what came out; the two are a `Case`. `right_output(work)` goes through
   `STAGES` and gives another output: so a property fails.
3. `explain` in search.py takes the right scale and those of all such bugs as one tensor. With it,
   one `run` through the stages gives an output for each scale.
4. `alike` tells that the output for 1.0 is the one that was seen. `explain` returns this one bug,
   with both scales in its sentence. If no scale gave what was seen, it would replace stages by the
   `steps` of other bugs, one bug at a time, and then two.
5. examine.py blames the property that failed on this bug. The report shows its sentence, and
   `scale=1`, with which an author declares that it is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_nb.grouped_heads import soft_cap
from attention_nb.softmax import masked_softmax


class Work(NamedTuple):
    "What the stages hand on: the last three fields are computed on the way."

    q: Tensor = torch.empty(0)  # queries, (b, h, n_q, d_k)
    k: Tensor = torch.empty(0)  # keys, (b, h, n_k, d_k)
    v: Tensor = torch.empty(0)  # values, (b, h, n_k, d_v)
    allowed: Tensor = torch.tensor(True)  # True = may attend, broadcasts to (b, h, n_q, n_k)
    scale: float | Tensor = 1.0  # of the scores; several at once are (s, 1, 1, 1, 1)
    d_model: int = 0  # width of the hidden states that queries are made from
    masked: bool = False  # was a mask given?
    bias: Tensor = torch.zeros(())  # added to the scores, broadcasts to them
    softcap: float | None = None  # scores become softcap · tanh(scores / softcap)
    bias_last: bool = False  # is the bias added after the soft cap?
    scores: Tensor = torch.empty(0)  # (b, h, n_q, n_k), with several scales (s, b, h, n_q, n_k)
    weights: Tensor = torch.empty(0)  # the shape of the scores
    out: Tensor = torch.empty(0)  # (b, h, n_q, d_v), then what the layer makes of it


def work_of(
    q: Tensor,  # queries, (b, h, n_q, d_k)
    k: Tensor,  # keys, (b, h, n_k, d_k)
    v: Tensor,  # values, (b, h, n_k, d_v)
    mask: Tensor | None = None,  # boolean, True = may attend; broadcasts to (b, h, n_q, n_k)
    scale: float | None = None,  # the right factor of the scores; default 1 / √d_k
    d_model: int | None = None,  # width that queries are made from; default h * d_k
) -> Work:  # before the first stage
    "Set out what attention starts from."
    allowed = torch.ones(*q.shape[:-1], k.shape[-2], dtype=torch.bool, device=q.device)
    return Work(
        q,
        k,
        v,
        allowed=allowed if mask is None else allowed & mask,
        scale=q.shape[-1] ** -0.5 if scale is None else scale,
        d_model=d_model or q.shape[-3] * q.shape[-1],
        masked=mask is not None,
    )


Step = Callable[[Work], Work]


def unchanged(work: Work) -> Work:
    "Leave everything as it is."
    return work


def adding(bias: Tensor, last: bool = False) -> Step:
    "Make a step that adds a bias to the scores, perhaps after they are capped."
    return lambda work: work._replace(bias=work.bias + bias, bias_last=last)


def scoring(f: Callable[[Tensor, Tensor, float | Tensor], Tensor]) -> Step:  # for the stage `score`
    "Make a step that makes scores of q kᵀ, bias and scale, with no bias if that comes last."

    def step(work: Work) -> Work:
        bias = torch.zeros(()) if work.bias_last else work.bias
        return work._replace(scores=f(work.q @ work.k.mT, bias, work.scale))

    return step


def capping_by(
    f: Callable[[Tensor], Tensor],  # scores → capped ones
    bias: Callable[[Tensor, Tensor], Tensor] = torch.add,  # capped scores, bias → scores
) -> Step:  # for the stage `cap`
    "Make a step that caps scores, and adds the bias if that comes last."

    def step(work: Work) -> Work:
        capped = f(work.scores)
        return work._replace(scores=bias(capped, work.bias) if work.bias_last else capped)

    return step


def _cap(work: Work) -> Work:
    "Cap the scores softly, if that is declared."
    cap = work.softcap
    return capping_by(lambda scores: scores if cap is None else soft_cap(scores, cap))(work)


# In their order, each as it should be. Behind each: what it does, and where in catalogue/ its bugs
# stand.
STAGES: dict[str, Step] = {
    "route": unchanged,  # which q, k and v meet: scales_and_routes, heads
    "rotate": unchanged,  # q and k by their positions: layer_rotations
    "score": scoring(lambda scores, bias, scale: scores * scale + bias),  # scales_and_routes
    "cap": _cap,  # the scores: choices
    "mask": unchanged,  # what is allowed: masks, windows
    # scores become weights: softmax, masks, choices
    "weigh": lambda work: work._replace(weights=masked_softmax(work.scores, work.allowed)),
    # the weighted mean of values: scales_and_routes, flash_attention
    "mix": lambda work: work._replace(out=work.weights @ work.v),
    "merge": unchanged,  # the heads of `out` stand side by side: layers
    "project": unchanged,  # the output's projection: layers
}
LAYER_STAGES: dict[str, Step] = {
    "before split": unchanged,  # norms over all heads at once: choices
    "split": unchanged,  # into heads; key and value heads are repeated for theirs: layers
    **STAGES,
}


def after(stage: str) -> str:  # such as "after route"
    "Name the stage of a layer's own that follows one of every layer."
    return f"after {stage}"


def with_own(
    stages: Mapping[str, Step],  # in their order
    own: Mapping[str, tuple[Step, Any]],  # replaces a stage, or follows it: "after route"
) -> dict[str, Step]:
    "Insert the stages of a layer's own; raise ValueError for one that would stand nowhere."
    if unknown := own.keys() - {*stages, *map(after, stages)}:
        raise ValueError(f"expected stages among {', '.join(stages)}; got {', '.join(unknown)}")
    found: dict[str, Step] = {}
    for name, step in stages.items():
        found[name] = own.get(name, (step,))[0]
        if after(name) in own:
            found[after(name)] = own[after(name)][0]
    return found


class Bug(NamedTuple):
    "One known mistake."

    code: str  # what is wrong and how, such as "scale.missing"
    says: str  # the same in one sentence, for people; braces stand for what is found out
    steps: Mapping[str, Step] = {}  # the stages that it replaces
    needs: str = ""  # "mask": it shows only where one is given
    factor: Callable[[Work], float] | None = None  # a wrong scale
    symptom: bool = False  # does it give way to a bug that the numbers tell?
    declare: str = ""  # the argument that declares it, if it may be meant; braces as in `says`

    def about(self, **facts: object) -> Bug:
        "Fill in what was found out."
        return self._replace(says=self.says.format(**facts), declare=self.declare.format(**facts))

    def fits(self, work: Work) -> bool:
        "Return whether what it needs is there; if not, it cannot show here."
        return self.needs != "mask" or work.masked


RightStep = tuple[Step, list[Bug]]  # a step that may be the right one, and the bugs in its place
# stages of a layer's own, with their steps, of which each may be meant
StageChoices = Iterator[tuple[str, list[RightStep]]]


def bugs_of_lines(table: str) -> list[Bug]:
    """Make bugs that replace no stage: a line is `code: sentence`, or `code: sentence | declare`,
    and goes on where it is indented; `~` marks a symptom.
    """
    rows = re.sub(r"\n +", " ", table.strip()).splitlines()
    if wrong := [row for row in rows if not re.match(r"~?\w+(\.\w+)+: \S", row)]:
        raise ValueError(f"expected `code: sentence`; got {wrong[0]!r}")
    parts = [row.partition(": ") for row in rows]
    return [
        _row(code.lstrip("~"), text)._replace(symptom=code[0] == "~") for code, _, text in parts
    ]


def _row(code: str, text: str) -> Bug:
    "Make a bug of its sentence, and what declares it if that follows."
    says, _, declare = text.partition(" | ")
    return Bug(code, says, declare=declare)


def bugs_of_stage(
    stage: str,  # which stage they replace
    form: Callable[[Any], Step],  # makes a step of what stands in the table
    table: Mapping[str, tuple[str, Any]],  # code → its sentence, and what the stage does
    needs: str = "",  # as in `Bug`
) -> list[Bug]:  # in the order of the table
    "Make bugs that replace one stage of a table."
    return [
        _row(code, text)._replace(steps={stage: form(f)}, needs=needs)
        for code, (text, f) in table.items()
    ]


def listed(*tables: Mapping[str, tuple[str, Any]]) -> list[Bug]:  # without what they do
    "List the bugs of tables by their sentences."
    return [_row(code, text) for table in tables for code, (text, _) in table.items()]


def sentence(bugs: Iterable[Bug]) -> str:
    "Say what is wrong."
    return "; and ".join(bug.says for bug in bugs)


Memo = dict[tuple[Step, ...], "Work | None"]  # what stages made, by the steps up to there


def run(
    work: Work,  # before the first stage
    bugs: Iterable[Bug] = (),  # what is wrong; no two with the same stage
    memo: Memo | None = None,  # what earlier runs from the same start made
    stages: Mapping[str, Step] = STAGES,  # in their order, each as it should be
) -> Work | None:  # after the last stage; None where a bug does not fit the shapes
    "Go through the stages, each as it should be unless a bug replaces it."
    wrong: dict[str, Step] = {}
    for bug in bugs:
        wrong |= bug.steps
    memo = {} if memo is None else memo
    path: tuple[Step, ...] = ()
    for stage, right in stages.items():
        step = wrong.get(stage, right)
        path = (*path, step)
        if path not in memo:
            memo[path] = _step_or_none(step, work)
        made = memo[path]
        if made is None:
            return None
        work = made
    return work


def _step_or_none(step: Step, work: Work) -> Work | None:
    "Take a step; give None if these shapes do not allow it, whatever a declared function raises."
    try:
        return step(work)
    except Exception:
        return None


def right_output(work: Work) -> Tensor:
    "Go through the stages, each as it should be."
    for step in STAGES.values():
        work = step(work)
    return work.out
