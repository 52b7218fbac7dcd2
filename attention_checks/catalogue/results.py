"""Numbers that differ from the right ones by a sign, a factor, an order, or in one position."""

from __future__ import annotations

from attention_checks.pipeline import Bug, signs

RESULT_SIGNS: list[Bug] = signs(
    """
result.kind: it returns {got} where {want} is expected
result.transposed: the result is transposed: its last two axes are exchanged
result.shape: the shape is wrong
result.dtype: the type is wrong: {got}, where {want} is expected
result.inverted: True and False are exchanged
result.nan: it gives NaN or infinity
result.sign: the sign is wrong
result.factor: all is {found} times as large as it should be
result.named: it does what was declared as a likely mistake: {found}
"""
)
