"""Which keys a query may attend to: a window, sinks, packed documents, and no future."""

from typing import NamedTuple

import torch
from torch import Tensor


class Reach(NamedTuple):
    "Which keys a query may attend to, as it was declared."

    window: int = 0  # the query's own position and those before it; 0: all
    sinks: int = 0  # keys at the beginning that every query may attend to besides
    documents: int = 0  # tokens of each packed document; 0: one document
    causal: bool = True  # is the future hidden?
    upper_left: bool = False  # True: the first query stands at the first key; else last at last
    ahead: int = 0  # keys after the query that it sees besides; 0: as `causal` says

    def not_future(self, i: Tensor, j: Tensor) -> Tensor:
        "Return where key j is not hidden as the future of query i."
        if self.ahead:
            return j - i <= self.ahead
        return (j <= i) | (not self.causal)

    def in_window(self, i: Tensor, j: Tensor) -> Tensor:
        "Return where key j is in the window of query i."
        if not self.window:
            return self.not_future(i, j)
        return (j - i <= self.ahead) & (i - j < self.window)

    def is_sink(self, i: Tensor, j: Tensor) -> Tensor:
        "Return where key j is a sink that query i sees."
        return self.not_future(i, j) & (j < self.sinks)

    def same_document(self, i: Tensor, j: Tensor) -> Tensor:
        "Return where key j is in the document of query i."
        return i // self.documents == j // self.documents if self.documents else j <= j

    def positions(self, n_q: int, n_k: int) -> tuple[Tensor, Tensor]:  # (n_q, 1) and (1, n_k)
        "Return the positions of queries and of keys."
        start = 0 if self.upper_left else n_k - n_q
        return torch.arange(start, start + n_q)[:, None], torch.arange(n_k)[None]

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        "Return where query i may attend to key j."
        return (self.in_window(i, j) | self.is_sink(i, j)) & self.same_document(i, j)

    def mask(self, n_q: int, n_k: int) -> Tensor:
        "Return the whole mask."
        return self.sees(*self.positions(n_q, n_k))
