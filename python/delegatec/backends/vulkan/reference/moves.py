# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: permutations, slices, concatenation, repetition.

Most shaders address elements by their indices, for any layout. Those that copy texels need operands that pack
the same dimension as the result; the runtime does not check it.
"""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.vulkan_graph import SymIntT

from delegatec.backends.vulkan.reference.call import Call, must_pack, same_packed
from delegatec.backends.vulkan.reference.copies import copy_elements, copy_texels
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import CHANNELS, Tensor, reject

_MOST: Final = 4
_UNSPECIFIED_END: Final = 2**63 - 1


def permute(run: Run, call: Call, x: Tensor, out: Tensor, order: list[int]) -> None:
    """Permutes dimensions; a tensor of fewer dimensions than the order has leading ones."""
    same_packed(call.name, x, out)
    run.kernel(kernel_name("permute", out), out, x)
    rank = len(order)
    order = [axis % rank if -rank <= axis < rank else axis for axis in order]
    if sorted(order) != list(range(rank)):
        reject(f"{call.name} of {x} in the order {order}")
    if not out.is_buffer and rank > _MOST:
        reject(f"{call.name} of a texture of {rank} dimensions")
    value = run.read(x)
    if x.dim > rank:
        reject(f"{call.name} of {x} in the order {order}")
    value = value.reshape([1] * (rank - x.dim) + x.sizes).permute(order)
    while value.dim() > out.dim and value.shape[0] == 1:
        value = value[0]
    run.write(out, value)
    out.carry_pad(x)


def _permute(run: Run, call: Call) -> None:
    permute(run, call, call.tensor(0), call.tensor(2), call.int_list(1))


def _squeeze(run: Run, call: Call) -> None:
    x, out, dims = call.tensor(0), call.tensor(2), call.ints(1)
    for dim in dims:
        if not -x.dim <= dim < x.dim:
            reject(f"{call.name} of dimension {dim} of {x}")
    removed = {dim % x.dim for dim in dims if x.sizes[dim] == 1}
    if run.dynamic and any(dim < 0 for dim in dims):
        reject(f"{call.name} of the dimensions {dims}, which a dynamic shape does not support")
    shape = [size for axis, size in enumerate(x.sizes) if axis not in removed]
    if x.is_buffer:
        return copy_elements(run, x, out, shape)
    moved = [dim % x.dim for dim in dims if dim != 0 and x.sizes[dim] == 1]
    if not moved:
        return copy_texels(run, x, out, shape)
    order = list(range(x.dim))
    for axis in moved:
        order.remove(axis)
        order.insert(0, axis)
    return permute(run, call, x, out, order)


def _unsqueeze(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(2)
    dim = call.integer(1)
    if not -x.dim - 1 <= dim <= x.dim:
        reject(f"{call.name} at dimension {dim} of {x}")
    dim %= x.dim + 1
    shape = [*x.sizes[:dim], 1, *x.sizes[dim:]]
    if x.is_buffer:
        return copy_elements(run, x, out, shape)
    if x.dim >= _MOST:
        reject(f"{call.name} of {x}, a texture of {x.dim} dimensions")
    order = [*range(1, dim + 1), 0, *range(dim + 1, x.dim + 1)]
    return permute(run, call, x, out, order)


def _select(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(3)
    axis = call.axis(1, x.dim)
    index = call.integer(2, 0)
    ubo = "_ubo" if isinstance(call.content(2), SymIntT) else ""
    run.kernel(kernel_name(f"select{ubo}", out), out, x)
    if not -x.sizes[axis] <= index < x.sizes[axis]:
        reject(f"{call.name} of index {index} of {x} along dimension {axis}")
    if out.dim != x.dim - 1:
        reject(f"{call.name} of {x} to {out}")
    run.write(out, run.read(x).select(axis, index))


def _slice(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(5)
    axis = call.axis(1, x.dim)
    size = x.sizes[axis]
    ubo = "_ubo" if SymIntT in (type(call.content(2)), type(call.content(4))) else ""
    run.kernel(kernel_name(f"slice{ubo}", out), out, x)
    start, end, step = call.integer(2, 0), call.integer(3, _UNSPECIFIED_END), call.integer(4, 1)
    # The shader starts at `start`, counted from the end if negative, without clamping.
    first = start + size if start < 0 else start
    if start == _UNSPECIFIED_END:
        reject(f"{call.name} from {start}")
    length = out.sizes[axis] if out.dim == x.dim else -1
    if run.dynamic:
        stop = size if end == _UNSPECIFIED_END else (end + size if end < 0 else end)
        length = -(-(stop - first) // step)
    last = first + (length - 1) * step
    if step < 1 or length < 0 or (length and not 0 <= first <= last < size):
        reject(f"{call.name} of {length} elements from {start} by {step} of {x} along dimension {axis}")
    run.write(out, run.read(x).narrow(axis, first, max(last + 1 - first, 0))[_every(axis, step)])


def _every(axis: int, step: int) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(None, None, step))


def _split(run: Run, call: Call) -> None:
    x, outs = call.tensor(0), call.tensors(3)
    sizes, axis = call.ints(1), call.axis(2, x.dim)
    if len(outs) != len(sizes):
        reject(f"{call.name} to {len(outs)} results of {len(sizes)} sizes")
    start = 0
    for out, size in zip(outs, sizes, strict=True):
        run.kernel(kernel_name("split", out), out, x)
        if start + size > x.sizes[axis]:
            reject(f"{call.name} of {x} to the sizes {sizes} along dimension {axis}")
        run.write(out, run.read(x).narrow(axis, start, size), resizes=False)
        start += size


def _cat(run: Run, call: Call) -> None:
    tensors, out = call.tensors(0), call.tensor(2)
    if not tensors:
        reject(f"{call.name} of no tensors")
    axis = call.axis(1, tensors[0].dim)
    if out.is_buffer and out.dim > _MOST:
        reject(f"{call.name} of buffers of {out.dim} dimensions")
    for start in range(0, len(tensors), 3):
        batch = tensors[start : start + 3]
        run.kernel(kernel_name(f"concat_{len(batch)}", out), out, *batch)
    for tensor in tensors:
        if tensor.dim != out.dim:
            reject(f"{call.name} of {tensor} to {out}")
        # Texels that are complete in an operand are copied as such.
        if not out.is_buffer and tensor.whcn[tensor.packed] >= _MOST:
            same_packed(call.name, tensor, out)
    run.write(out, torch.cat([run.read(tensor) for tensor in tensors], axis))


def _expand(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(3)
    run.kernel(kernel_name("expand", out), out, x)
    if not out.is_buffer:
        same_packed(call.name, x, out)
    shape = out.sizes
    if run.dynamic:
        wanted = call.ints(1)
        old = [1] * (len(wanted) - x.dim) + x.sizes
        shape = [b if a == -1 else a for a, b in zip(wanted, old, strict=True)]
    run.write(out, run.read(x).expand(shape))


def _repeat(run: Run, call: Call) -> None:
    x, out, repeats = call.tensor(0), call.tensor(2), call.ints(1)
    run.kernel(kernel_name("repeat", out), out, x)
    if not out.is_buffer:
        same_packed(call.name, x, out)
    run.write(out, run.read(x).repeat([1] * (x.dim - len(repeats)) + repeats))


def _repeat_interleave(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(4)
    repeats, axis = call.integer(1), call.axis(2, x.dim)
    whcn = x.dim - 1 - axis
    if whcn in (x.packed, out.packed):
        reject(f"{call.name} of {x} along dimension {axis}, which is packed")
    run.kernel(f"repeat_interleave_{out.shader_dtype}", out, x)
    same_packed(call.name, x, out)
    if whcn > CHANNELS:
        reject(f"{call.name} of {x} along its batch")
    if whcn == CHANNELS and x.whcn[3] > 1:
        reject(f"{call.name} of {x} along channels, of several images")
    run.write(out, run.read(x).repeat_interleave(repeats, axis))
    out.carry_pad(x)


def _flip(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(2)
    must_pack(call.name, CHANNELS, x, out)
    run.kernel(f"flip_{out.shader_dtype}", out, x)
    dims = call.int_list(1)
    if x.dim > _MOST:
        reject(f"{call.name} of {x}, which has more than {_MOST} dimensions")
    run.write(out, run.read(x).flip([dim % x.dim for dim in dims]))


SEMANTICS: Final[dict[str, Semantics]] = {
    "aten.permute.default": _permute,
    "aten.permute_copy.default": _permute,
    "aten.squeeze_copy.dims": _squeeze,
    "aten.unsqueeze_copy.default": _unsqueeze,
    "aten.select.int": _select,
    "aten.select_copy.int": _select,
    "aten.slice.Tensor": _slice,
    "aten.slice_copy.Tensor": _slice,
    "aten.split_with_sizes_copy.default": _split,
    "aten.cat.default": _cat,
    "aten.expand_copy.default": _expand,
    "aten.repeat.default": _repeat,
    "aten.repeat_interleave.self_int": _repeat_interleave,
    "aten.flip.default": _flip,
}
