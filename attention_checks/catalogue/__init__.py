"""The catalogue: each bug by its code, what it does to a stage of attention, and its repair."""

from __future__ import annotations

from attention_checks.catalogue.any_code import ANY_CODE_SIGNS
from attention_checks.catalogue.distributed import DISTRIBUTED_SIGNS
from attention_checks.catalogue.families import FAMILIES
from attention_checks.catalogue.flash_attention import BLOCK_SIGNS, FLASH_SIGNS, blocks
from attention_checks.catalogue.grouped_heads import GROUPED_ALL
from attention_checks.catalogue.kv_cache import CACHE_SIGNS
from attention_checks.catalogue.layers import LAYER_ALL
from attention_checks.catalogue.local_attention import BAND, SIZE, reach_bugs
from attention_checks.catalogue.masks import APPLIED, BIAS, MASK_SIGNS, UNASKED, WINDOW, WRONG
from attention_checks.catalogue.multi_head_attention import HEADS
from attention_checks.catalogue.positions import ALIBI, BIAS_SIGNS, ROTARY_SIGNS, rotary_bugs
from attention_checks.catalogue.self_attention import ATTENTION_SIGNS, MIXES, NORMS, ROUTES, SCALE
from attention_checks.catalogue.softmax import (
    EPSILON,
    OTHER_DIM,
    PLAIN,
    ROUNDED,
    SOFTMAX_SIGNS,
    WEIGHTS,
)
from attention_checks.catalogue.whole_models import MODEL_SIGNS
from attention_checks.pipeline import Bug
from attention_checks.reach import Reach

# The bugs that any attention may have, in the order of trying.
ATTENTION: list[Bug] = [*SCALE, *WEIGHTS, *UNASKED, *WRONG, *APPLIED, *ROUTES, *MIXES, *HEADS]
_ALL: list[Bug] = [
    *ATTENTION,
    *NORMS,
    *BIAS,
    *PLAIN,
    OTHER_DIM,
    EPSILON,
    ROUNDED,
    *blocks(2),
    *reach_bugs(Reach(3, 2, 4)),
    *SOFTMAX_SIGNS,
    *MASK_SIGNS,
    *BLOCK_SIGNS,
    *FLASH_SIGNS,
    *ATTENTION_SIGNS,
    *ANY_CODE_SIGNS,
    *LAYER_ALL,
    *GROUPED_ALL,
    *FAMILIES,
    *CACHE_SIGNS,
    *MODEL_SIGNS,
    *DISTRIBUTED_SIGNS,
    *rotary_bugs(8),
    *ROTARY_SIGNS,
    *ALIBI,
    *BIAS_SIGNS,
    *(BAND, SIZE, WINDOW),  # with the braces of what is found out
]
CATALOGUE: dict[str, Bug] = {bug.code: bug for bug in _ALL}


def known(
    code: str,  # of a bug in the catalogue
    **facts: object,  # what stands in the braces of its sentence
) -> Bug:  # KeyError for a code that is not there
    "Look up a bug, and fill in its sentence."
    return CATALOGUE[code].about(**facts) if facts else CATALOGUE[code]
