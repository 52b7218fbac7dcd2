"""What each layer does, beside what config and caller promise of it."""

from __future__ import annotations

from attention_checks.audit.report import Layer
from attention_checks.audit.session import Session


def layers(s: Session) -> tuple[Layer, ...]:
    "List the layers in which tokens see each other."
    return tuple(Layer(path, {"mask": reach.kind}, {}) for path, reach in s.reaches.items())
