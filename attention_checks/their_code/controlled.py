"""Fix what is around code under test: random numbers, threads, and how exactly a GPU multiplies."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def own_chance() -> Iterator[None]:
    "Let random numbers be drawn inside; the caller's go on afterwards as if none had been."
    numpy = sys.modules.get("numpy")
    python, torch_state = random.getstate(), torch.get_rng_state()
    arrays = numpy.random.get_state() if numpy else None
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_rng_state(torch_state)
        if numpy:
            numpy.random.set_state(arrays)
        if devices:
            torch.cuda.set_rng_state_all(devices)


@contextmanager
def full_precision() -> Iterator[None]:
    "Multiply float32 as float32 inside; a GPU may round it to TF32, with 10 bits after the point."
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    conv: Any = getattr(cudnn, "conv", None)  # from PyTorch 2.9 on
    name, exact = ("fp32_precision", "ieee") if conv else ("allow_tf32", False)
    kept = [(part, getattr(part, name)) for part in (matmul, conv or cudnn)]
    for part, _ in kept:
        setattr(part, name, exact)
    try:
        yield
    finally:
        for part, before in kept:
            setattr(part, name, before)


@contextmanager
def fixed_chance() -> Iterator[None]:
    "Seed the random numbers and use one thread inside; the caller's come back afterwards."
    threads = torch.get_num_threads()
    with own_chance():
        torch.manual_seed(0)
        torch.set_num_threads(1)  # the tensors are small
        try:
            yield
        finally:
            torch.set_num_threads(threads)
