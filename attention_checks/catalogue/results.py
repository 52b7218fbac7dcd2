"""Results of another kind, shape or type than the right ones."""

from __future__ import annotations

from attention_checks.pipeline import Bug, signs

RESULT_SIGNS: list[Bug] = signs(
    """
result.kind: it returns {got} where {want} is expected
result.transposed: the result is transposed: its last two axes are exchanged
result.shape: the shape is wrong
result.dtype: the type is wrong: {got}, where {want} is expected
result.nan: it gives NaN or infinity
result.named: it does what was declared as a likely mistake: {found}
"""
)
