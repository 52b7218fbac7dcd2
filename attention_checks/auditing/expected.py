"""Which tokens may see which, as the author of a model declares it: one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Expected:
    "Hold which tokens may see which, and what layers promise besides what the config says."

    causal: bool = True  # is the future hidden?
    prefix: int = 0  # tokens at the beginning that see each other, as of a prefix language model
    spans: tuple[tuple[int, int], ...] = ()  # (first, end) of tokens that see each other: an image
    documents: bool = False  # are packed documents kept apart where positions begin anew?
    windows: Mapping[str, int | None] | None = None  # path of a layer → its window; None: no window
    scales: Mapping[str, float] | None = None  # path of a layer → factor of its scores

    def allowed(self, n: int) -> Tensor:  # boolean, (n, n): may the row depend on the column?
        "Say which token may depend on which."
        i = torch.arange(n)
        allowed = (i[None] <= i[:, None]) | (not self.causal)
        for first, end in ((0, self.prefix), *self.spans):
            inside = (first <= i) & (i < end)
            allowed = allowed | (inside[:, None] & inside)
        return allowed
