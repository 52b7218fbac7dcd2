"""The catalogue: each bug by its code, what it does to a stage of attention, and its repair."""

from __future__ import annotations

from attention_checks.catalogue.any_code import UNSTAGED_ANY_CODE_BUGS
from attention_checks.catalogue.choices import CHOICES
from attention_checks.catalogue.distributed import UNSTAGED_DISTRIBUTED_BUGS
from attention_checks.catalogue.flash_attention import (
    UNSTAGED_BLOCK_BUGS,
    UNSTAGED_FLASH_BUGS,
    blocks,
)
from attention_checks.catalogue.heads import HEAD_BUGS
from attention_checks.catalogue.kv_cache import UNSTAGED_CACHE_BUGS
from attention_checks.catalogue.latent import latent_step
from attention_checks.catalogue.layers import GROUP_BUGS, LAYER_CATALOGUE
from attention_checks.catalogue.masks import (
    BIAS,
    MASK_APPLICATIONS,
    SHIFTED_MASKS,
    UNREQUESTED_MASKS,
    UNSTAGED_MASK_BUGS,
    WINDOW,
    WRONG_MASKS,
)
from attention_checks.catalogue.positions import (
    ALIBI,
    UNSTAGED_BIAS_BUGS,
    UNSTAGED_ROTARY_BUGS,
    rotary_bugs,
)
from attention_checks.catalogue.scales_and_routes import (
    CONTEXT_BUGS,
    LATE_SCALES,
    QKV_BUGS,
    SCALE,
    UNDECLARED_NORMS,
    UNSTAGED_ATTENTION_BUGS,
)
from attention_checks.catalogue.softmax import (
    EPSILON,
    OTHER_DIM,
    ROUNDED,
    UNMASKED_SOFTMAX_BUGS,
    UNSTAGED_SOFTMAX_BUGS,
    WEIGHTS,
)
from attention_checks.catalogue.whole_models import UNSTAGED_MODEL_BUGS
from attention_checks.catalogue.windows import BAND, SIZE, reach_bugs
from attention_checks.pipeline import Bug
from attention_checks.reach import Reach

# The bugs that any attention may have, in the order of trying.
ATTENTION: list[Bug] = [
    *SCALE,
    *LATE_SCALES,
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
    *UNSTAGED_SOFTMAX_BUGS,
    *UNSTAGED_MASK_BUGS,
    *SHIFTED_MASKS,
    *UNSTAGED_BLOCK_BUGS,
    *UNSTAGED_FLASH_BUGS,
    *UNSTAGED_ATTENTION_BUGS,
    *UNSTAGED_ANY_CODE_BUGS,
    *LAYER_CATALOGUE,
    *GROUP_BUGS,
    *latent_step(1)[1],
    *CHOICES,
    *UNSTAGED_CACHE_BUGS,
    *UNSTAGED_MODEL_BUGS,
    *UNSTAGED_DISTRIBUTED_BUGS,
    *rotary_bugs(8),
    *UNSTAGED_ROTARY_BUGS,
    *ALIBI,
    *UNSTAGED_BIAS_BUGS,
    *(BAND, SIZE, WINDOW),  # with the braces of what is found out
]
CATALOGUE: dict[str, Bug] = {bug.code: bug for bug in _ALL}

# what goes wrong in 16 bits alone
IN_SIXTEEN_BITS = {code for code, bug in CATALOGUE.items() if bug.declare == 'dtype="float32"'}


def known(
    code: str,  # of a bug in the catalogue
    **facts: object,  # what stands in the braces of its sentence
) -> Bug:  # KeyError for a code that is not there
    "Look up a bug, and fill in its sentence."
    return CATALOGUE[code].about(**facts) if facts else CATALOGUE[code]
