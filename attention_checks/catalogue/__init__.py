"""The catalogue: each bug by its code, what it does to a stage of attention, and its repair."""

from __future__ import annotations

from attention_checks.catalogue.any_code import ANY_CODE_CODES
from attention_checks.catalogue.choices import CHOICES
from attention_checks.catalogue.distributed import DISTRIBUTED_CODES
from attention_checks.catalogue.flash_attention import BLOCK_CODES, FLASH_CODES, blocks
from attention_checks.catalogue.heads import HEAD_BUGS
from attention_checks.catalogue.kv_cache import CACHE_CODES
from attention_checks.catalogue.layers import GROUP_BUGS, LAYER_CATALOGUE
from attention_checks.catalogue.masks import (
    BIAS,
    MASK_APPLICATIONS,
    MASK_CODES,
    SHIFTED_MASKS,
    UNREQUESTED_MASKS,
    WINDOW,
    WRONG_MASKS,
)
from attention_checks.catalogue.positions import ALIBI, BIAS_CODES, ROTARY_CODES, rotary_bugs
from attention_checks.catalogue.scales_and_routes import (
    ATTENTION_CODES,
    CONTEXT_BUGS,
    QKV_BUGS,
    SCALE,
    UNDECLARED_NORMS,
)
from attention_checks.catalogue.softmax import (
    EPSILON,
    OTHER_DIM,
    ROUNDED,
    SOFTMAX_CODES,
    UNMASKED_SOFTMAX_BUGS,
    WEIGHTS,
)
from attention_checks.catalogue.whole_models import MODEL_CODES
from attention_checks.catalogue.windows import BAND, SIZE, reach_bugs
from attention_checks.pipeline import Bug
from attention_checks.reach import Reach

# The bugs that any attention may have, in the order of trying.
ATTENTION: list[Bug] = [
    *SCALE,
    *WEIGHTS,
    *UNREQUESTED_MASKS,
    *WRONG_MASKS,
    *MASK_APPLICATIONS,
    *QKV_BUGS,
    *CONTEXT_BUGS,
    *HEAD_BUGS,
]
_ALL: list[Bug] = [
    *ATTENTION,
    *UNDECLARED_NORMS,
    *BIAS,
    *UNMASKED_SOFTMAX_BUGS,
    OTHER_DIM,
    EPSILON,
    ROUNDED,
    *blocks(2),
    *reach_bugs(Reach(3, 2, 4)),
    *SOFTMAX_CODES,
    *MASK_CODES,
    *SHIFTED_MASKS,
    *BLOCK_CODES,
    *FLASH_CODES,
    *ATTENTION_CODES,
    *ANY_CODE_CODES,
    *LAYER_CATALOGUE,
    *GROUP_BUGS,
    *CHOICES,
    *CACHE_CODES,
    *MODEL_CODES,
    *DISTRIBUTED_CODES,
    *rotary_bugs(8),
    *ROTARY_CODES,
    *ALIBI,
    *BIAS_CODES,
    *(BAND, SIZE, WINDOW),  # with the braces of what is found out
]
CATALOGUE: dict[str, Bug] = {bug.code: bug for bug in _ALL}


def known(
    code: str,  # of a bug in the catalogue
    **facts: object,  # what stands in the braces of its sentence
) -> Bug:  # KeyError for a code that is not there
    "Look up a bug, and fill in its sentence."
    return CATALOGUE[code].about(**facts) if facts else CATALOGUE[code]
