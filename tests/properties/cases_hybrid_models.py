"""The cases of `hybrid_models`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch.nn.functional as F
from tests.properties.common import Case, args, dtypes, floats

CASES = {
    "hybrid_models_normalize": Case(
        nb.decay_mask,
        args(x=dtypes.flatmap(lambda t: floats((2, 3), t))),
        lambda x: F.normalize(x, p=1, dim=-1),
        "x",
        finite=True,
    ),
}
