"""The catalogue: each bug by its code, what it does to a stage of attention, and its repair."""

from collections.abc import Iterable
from itertools import chain

from attention_checks.catalogue import (
    any_code,
    choices,
    distributed,
    flash_attention,
    heads,
    kv_cache,
    latent,
    layer_codes,
    layer_rotations,
    layers,
    masks,
    positions,
    scales_and_routes,
    softmax,
    whole_models,
    windows,
)
from attention_checks.explaining.pipeline import Bug

# The bugs that any attention may have, in the order of trying.
ATTENTION: list[Bug] = [
    *scales_and_routes.SCALE,
    *scales_and_routes.LATE_SCALES,
    *softmax.WEIGHTS,
    *masks.UNREQUESTED_MASKS,
    *masks.WRONG_MASKS,
    *masks.MASK_APPLICATIONS,
    *scales_and_routes.QKV_BUGS,
    *scales_and_routes.CONTEXT_BUGS,
    *heads.BUGS,
]
_TABLES = (
    scales_and_routes,
    softmax,
    masks,
    heads,
    flash_attention,
    windows,
    any_code,
    layers,
    layer_rotations,
    layer_codes,
    latent,
    choices,
    kv_cache,
    whole_models,
    distributed,
    positions,
)


def by_code(
    bugs: Iterable[Bug],  # some with braces, and the same with what was found out
) -> dict[str, Bug]:  # with braces where there are any
    "Map codes to bugs; raise ValueError for two sentences of one code."
    sentences: dict[str, dict[str, Bug]] = {}
    for bug in bugs:
        sentences.setdefault(bug.code, {})[bug.says] = bug
    found: dict[str, Bug] = {}
    for code, each in sentences.items():
        left = [bug for says, bug in each.items() if "{" in says] or [*each.values()]
        if len(left) > 1:
            got = " and ".join(bug.says for bug in left)
            raise ValueError(f"{code}: expected one sentence; got {got}")
        found[code] = left[0]
    return found


CATALOGUE: dict[str, Bug] = by_code(chain.from_iterable(table.BUGS for table in _TABLES))
IN_SIXTEEN_BITS = {bug.code for bug in any_code.SIXTEEN_BITS}  # what goes wrong there alone


def known(
    code: str,  # of a bug in the catalogue
    **facts: object,  # what stands in the braces of its sentence
) -> Bug:  # KeyError for a code that is not there
    "Look up a bug, and fill in its sentence."
    return CATALOGUE[code].about(**facts) if facts else CATALOGUE[code]
