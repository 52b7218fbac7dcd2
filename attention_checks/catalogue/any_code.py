"""What may be wrong with code of any kind: inputs, gradients, types, state, what it returns."""

from attention_checks.explaining.pipeline import Bug, bugs_of_lines

SIXTEEN_BITS: list[Bug] = bugs_of_lines(  # what goes wrong in 16 bits alone
    """
dtype.other: it returns {found} for {like} in {given}: end with .to({like}.dtype)
    | dtype="float32"
dtype.overflows: it overflows in {dtype}: a number is beyond the type's range
    | dtype="float32"
dtype.loses: it loses precision in {dtype} | dtype="float32"
dtype.no_infinity: -1e9 stands for minus infinity, and float16 cannot hold it: use -inf
    | dtype="float32"
dtype.widens: it widens to float32 and does not cast back: .to(v.dtype) is missing
    | dtype="float32"
rotary.half: angles are computed in 16 bits, where far positions are equal: use float32
    | dtype="float32"
"""
)
BUGS: list[Bug] = SIXTEEN_BITS + bugs_of_lines(
    """
code.not_implemented: it is not implemented: is the body still to be written?
code.returns_nothing: it returns nothing: is a return missing?
code.returns_no_tensor: it returns neither a tensor nor a tuple that begins with one
dtype.integer: the output is not a floating-point tensor
input.modified: it modifies its input {name} in place (add_, or /=, *=, +=)
input.mask_modified: it modifies its mask in place (logical_not_, or mask[...] =)
memory.contiguous: it needs contiguous inputs: use reshape() or flatten(), not view()
    | skip=["memory.contiguous"]
memory.strides: it reads memory as if inputs were contiguous (as_strided, data_ptr)
grad.none: no gradient flows: it runs under no_grad or detaches (.detach, .data, .item)
grad.unreached: no gradient reaches {name}: it is detached (.detach, .data) or not used
grad.infinite: the gradient is NaN or infinite: a root, a division or 0 · inf on it
grad.wrong: the gradient is wrong: a part is detached, or its backward pass is wrong
state.chance: two calls differ: dropout or other random numbers are on; call eval()
state.kept: it keeps something from call to call (a cache, a state)
state.graph: it keeps a tensor with its graph from call to call, which a second backward pass
    does not survive: detach what is kept | gradients=False
result.kind: it returns {got} where {want} is expected
result.transposed: the result is transposed: its last two axes are exchanged
result.shape: the shape is wrong
result.dtype: the type is wrong: {got}, where {want} is expected
result.named: it does what was declared as a likely mistake: {found}
~code.devices: it makes or keeps a tensor on another device than its inputs: say device=x.device
    where it is made, or register_buffer what it keeps
~code.raises: {what} raises {error}
~input.gradient: it modifies its input in place, which a tensor with a gradient forbids
"""
)
