"""Gradients: they reach every input, and are those of the reference."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers.autograd import gradients_of
from attention_checks.numbers.tensors import must_be_near
from attention_checks.numbers.tolerance import LONG_SUMS
from attention_checks.outcomes import Broken
from attention_checks.subjects import TensorFunction, WithReference


def must_match_gradients(atol: float = LONG_SUMS) -> Callable[[WithReference], None]:
    "Try that gradients are those of the reference, as near as that."

    def holds(subject: WithReference) -> None:
        "Raise Broken if a gradient is not that of the reference."
        inputs = subject.inputs()
        real = {name: t for name, t in inputs.items() if t.is_floating_point()}
        rest = list(inputs.values())[len(real) :]  # real numbers come first
        got = lambda *leaves: subject(*leaves, *rest)
        want = lambda *leaves: subject.reference(*leaves, *rest)
        must_have_gradients(got, want, real, subject.sound, atol)

    return holds


def must_have_gradients(
    f: TensorFunction,  # the code under test
    oracle: TensorFunction,  # slow code that is right
    inputs: Mapping[str, Tensor],  # its arguments by name
    compare: bool = True,  # are its values right, so that gradients must be, too?
    atol: float = LONG_SUMS,  # how close is the same
) -> None:
    "Raise Broken unless gradients reach every input, and are those of the oracle."
    for name, got, want in zip(inputs, _gradients(f, inputs), _gradients(oracle, inputs)):
        if got is None or (got == 0).all():
            bug = known("grad.unreached", name=name)
            raise Broken(f"the gradient of {name} is zero", bug, symptom=not compare)
        if compare:
            must_be_near(got, want, f"gradient of {name}", known("grad.wrong"), atol)


def _gradients(f: TensorFunction, inputs: Mapping[str, Tensor]) -> Sequence[Any]:
    "Return the gradients of a random mixture of all outputs."
    leaves = [t.clone().requires_grad_() for t in inputs.values()]
    return gradients_of_mixture(f(*leaves), leaves)


def gradients_of_mixture(
    out: Tensor,  # what was computed
    leaves: Sequence[Tensor],  # from what
) -> tuple[Tensor | None, ...]:  # one for each, None where nothing depends on it
    "Differentiate a random mixture of all outputs; Broken if they require no gradient."
    if not out.requires_grad:
        raise Broken("the output does not require a gradient", known("grad.none"))
    up = torch.randn(out.shape, generator=torch.Generator().manual_seed(4))
    return gradients_of(out, leaves, up.to(out))
