"""Attention of SpeechBrain."""

from typing import Any

from tests.third_party.families import D, H
from tests.third_party.subjects import layer


def relative(m: Any, x: Any) -> Any:
    "With the places that its encoder makes."
    from speechbrain.nnet.attention import RelPosEncXL

    return m(x, x, x, pos_embs=RelPosEncXL(D)(x))


def turned(m: Any, x: Any) -> Any:
    "Turned by place."
    return m(x, x, x)


SUBJECTS = [
    layer(
        "speechbrain.nnet.attention.MultiheadAttention",
        lambda cls: cls(H, D),
        lambda m, x: m(x, x, x),
        d_model=D,
        n_heads=H,
    ),
    layer(
        "speechbrain.nnet.attention.RelPosMHAXL",
        lambda cls: cls(D, H),
        relative,
        d_model=D,
        n_heads=H,
        positions=True,
    ),
    layer(
        "speechbrain.nnet.attention.RoPEMHA",
        lambda cls: cls(D, H),
        turned,
        d_model=D,
        n_heads=H,
        positions=True,
    ),
]
