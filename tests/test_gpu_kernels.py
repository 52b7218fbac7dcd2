"""The chapter on GPU kernels beyond its notebook: all of `check_flash`, and that the kernels
compile for GPUs that are not here.
"""

import os
import re

import outputs
import pytest
from conftest import NBS, python

pytestmark = pytest.mark.nightly

NOTEBOOK = NBS / "20_gpu_kernels.ipynb"
CHECK = """
from functools import partial
from attention_nb import check_flash, gpu_attention
causal = partial(gpu_attention, causal=True, return_lse=True, tile=(128, 128))
print(check_flash(causal, causal="lower-right"))
"""
COMPILE = """
from attention_nb import gpu_kernels
from triton.backends.compiler import GPUTarget
from triton import compile
from triton.compiler import ASTSource
gpu_kernels._triton()
POINTERS = {"_forward_kernel": 5, "_dq_kernel": 9, "_dkdv_kernel": 8}
MADE = (("bf16", (64, 64), 90), ("bf16", (64, 64), 80), ("fp32", (32, 32), 80))
for kind, sides, capability in MADE:
    for name, count in POINTERS.items():
        kernel = getattr(gpu_kernels, name)
        fixed = dict(CAUSAL=True, d_k=64, d_v=64, BLOCK_D=64, BLOCK_DV=64)
        fixed |= dict(BLOCK_Q=sides[0], BLOCK_K=sides[1])
        pointers = {arg: "*fp32" if "lse" in arg or arg == "delta_ptr" else f"*{kind}"
                    for arg in kernel.arg_names[:count]}
        numbers = {arg: "constexpr" if arg in fixed else "fp32" if arg == "scale" else "i32"
                   for arg in kernel.arg_names[count:]}
        made = compile(ASTSource(kernel, pointers | numbers, constexprs=fixed),
                       target=GPUTarget("cuda", capability, 32),
                       options={"num_warps": 4, "num_stages": 3})
        print(name, kind, capability, made.metadata.shared)
        assert "mma" in made.asm["ptx"] or kind == "fp32"
        assert made.metadata.shared <= 99 * 1024
"""


@pytest.fixture
def env():
    "For processes that import Triton anew, with no GPU."
    if why := outputs.passed_over(NOTEBOOK):
        pytest.skip(why)
    return os.environ | outputs.KERNEL_ENV | {"TRITON_DEFAULT_FP_FUSION": "1"}


def test_check_flash_holds(env):
    "In Triton's interpreter: half a minute, which a reader of the chapter need not wait for."
    said = python("-c", CHECK, env=env | {"TRITON_INTERPRET": "1"})
    assert re.search(r"check_flash\(partial\): sound: (\d+) of \1 properties hold", said), said


def test_kernels_compile_for_gpus(env, tmp_path):
    """What the interpreter runs, Triton's compiler takes too;
    on small tiles any GPU has room for it.
    """
    said = python(
        "-c", COMPILE, env=env | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    )
    assert said.count("_kernel ") == 9
