"""What is checked, and what properties that are written once know of it."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

TensorFunction = Callable[..., Tensor]


class UnderTest(Protocol):
    "What is tried, be it a function of q, k and v, a layer, a softmax, or a rotation."

    def inputs(self, seed: int = 0) -> dict[str, Any]:
        "Draw its arguments, by name; real numbers come first."

    def raw_inputs(self) -> dict[str, Any]:
        "Draw its arguments in the very form in which the code takes them."

    def __call__(self, *inputs: Any) -> Tensor:
        "Return its output; it is called on copies."

    def on_these(self, *inputs: Any) -> Tensor:
        "Return its output; it is called on these very tensors."


class WithReference(UnderTest, Protocol):
    "What is tried, and has a reference for each call."

    @property
    def sound(self) -> bool:
        "Return whether its numbers are right; if not, what else fails may be a symptom."

    def reference(self, *inputs: Any) -> Tensor:
        "Return the right output."
