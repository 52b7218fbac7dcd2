"""Inputs that are changed, gradients that are lost, types that are not kept, and answers that do not repeat."""

from __future__ import annotations

from attention_checks.pipeline import Bug, signs

CODE_SIGNS: list[Bug] = signs(
    {
        "code.not_implemented": "it is not implemented: is the body still to be written?",
        "code.returns_nothing": "it returns nothing: is a return missing, or the body still to be written?",
        "code.returns_no_tensor": "it does not return a tensor, or a tuple that begins with one",
        "dtype.integer": "the output is not a floating-point tensor",
        "dtype.other": (
            "it returns {found} for {like} in {given}, and the next layer of such a model raises: end with"
            " .to({like}.dtype)"
        ),
        "dtype.overflows": "it overflows in {dtype}: a number beyond the type's range",
        "dtype.loses": "it loses precision in {dtype}",
        "dtype.no_infinity": (
            "a number such as -1e9 stands for minus infinity, and float16 cannot hold it: use -inf or"
            " torch.finfo(dtype).min"
        ),
        "dtype.widens": (
            "it widens to float32 and does not cast back: float32 weights meet v in 16 bits; .to(v.dtype) first"
        ),
        "input.modified": "it modifies its input {name} in place (an operation that ends in _, or /=, *=, +=)",
        "input.mask_modified": (
            "it modifies its mask in place (an operation that ends in _, such as logical_not_, or mask[...] =)"
        ),
        "memory.contiguous": "it needs contiguous inputs: view() where reshape() or flatten() would do",
        "memory.strides": "it reads memory as if inputs were contiguous (view, as_strided, data_ptr)",
        "grad.none": "no gradient flows: the code runs under no_grad, or detaches (.detach, .data, .item, NumPy)",
        "grad.unreached": "no gradient reaches {name}: it is detached (.detach, .data) or not used",
        "grad.infinite": (
            "values are finite, and their gradient is NaN or infinite: a root, a division or 0 · inf on the way to them"
        ),
        "grad.wrong": (
            "the gradient is not that of the values: part of the computation is detached or has its own wrong backward"
        ),
        "state.chance": (
            "two calls differ: dropout, or other chance, is on where nothing asked for it (a module? eval() first)"
        ),
        "state.kept": (
            "something is kept from call to call (a cache, a state): an answer may depend on its own inputs alone"
        ),
        "input.modified_argument": "it modifies its input in place",
        "grad.detached": "no gradient flows: the code detaches (.detach, .data, .item), or makes new tensors",
        "grad.partly_detached": "the values are right and their gradient is not: part of the computation is detached",
        "grad.nan": "the values are right and their gradient is NaN or infinite",
        "trace.other": "traced by {tracer}, it gives other numbers: it depends on Python state or data",
    }
) + signs(
    {
        "code.raises": "the code raises {error} here",
        "input.gradient": "it modifies its input in place, which a tensor that wants a gradient does not allow",
    },
    guess=True,
)
