# SPDX-License-Identifier: Apache-2.0
"""Copies: of constants to the device, to other storage and layouts, to other shapes and dtypes."""

from __future__ import annotations

import math
from typing import Final

import torch

from delegatec.backends.vulkan.reference.call import Call, same_packed
from delegatec.backends.vulkan.reference.elementwise import to_integers
from delegatec.backends.vulkan.reference.run import Run, Semantics
from delegatec.backends.vulkan.reference.tensors import Tensor, reject


def copy_elements(run: Run, x: Tensor, out: Tensor, shape: list[int]) -> None:
    """Copies elements in row-major order (`add_view_copy_node`).

    Args:
        run: the state.
        x: the operand.
        out: the result.
        shape: of the result.
    """
    kernel = f"view_{'buffer' if out.is_buffer else 'texture'}_{out.shader_dtype}"
    run.kernel(kernel, out, x)
    if math.prod(shape) != x.numel:
        reject(f"a copy of {x} to {out} of another number of elements")
    run.write(out, run.read(x).reshape(shape))


def same_layout(x: Tensor, out: Tensor) -> bool:
    """Whether tensors have the same layout (`hashed_layout`)."""
    return x.layout == out.layout


def _prepack(run: Run, call: Call) -> None:
    """Packs a constant once; later runs keep it, with all data that operators wrote to it."""
    constant, out = call.constant(0), call.tensor(1)
    if run.is_resident(out):
        return
    run.staging("nchw_to", out, constant.dtype)
    run.make_resident(out)
    run.write(out, constant.value)


def _clone(run: Run, call: Call) -> None:
    clone(run, call, call.tensor(0), call.tensor(2))


def clone(run: Run, call: Call, x: Tensor, out: Tensor) -> None:
    """Copies between any storage and layout."""
    # A clone to another rank does not resize.
    shape = x.sizes if x.dim == out.dim else out.sizes
    if x.is_int8_block and out.is_int8_block:
        run.kernel("q8ta_clone", out, x)
        run.write(out, run.read(x))
        return
    if x.storage == "texture3d" and out.storage == "texture3d":
        if not same_layout(x, out):
            return copy_elements(run, x, out, shape)
        return copy_texels(run, x, out, shape)
    if not x.is_buffer and out.is_buffer:
        run.kernel(f"clone_image_to_buffer_{x.shader_dtype}_{out.shader_dtype}", out, x)
    elif x.is_buffer and not out.is_buffer:
        run.kernel(f"clone_buffer_to_image_{out.shader_dtype}_{x.shader_dtype}", out, x)
    else:
        return copy_elements(run, x, out, shape)
    if _padded(x.sizes) != _padded(shape):
        reject(f"{call.name} of {x} to {out} of another shape")
    run.write(out, run.read(x).reshape(shape))


def copy_texels(run: Run, x: Tensor, out: Tensor, shape: list[int]) -> None:
    """Copies the texels of a texture (`add_clone_node`)."""
    run.kernel(f"clone_{out.shader_dtype}", out, x)
    same_packed("clone", x, out)
    if _padded(x.sizes) != _padded(shape):
        reject(f"clone of the texels of {x} to {out} of another shape")
    run.write(out, run.read(x).reshape(shape))
    out.carry_pad(x)


def _padded(sizes: list[int]) -> list[int]:
    """Returns sizes without leading ones."""
    while sizes and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


def _view(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(2)
    shape = out.sizes
    if run.dynamic:
        shape = x.sizes if call.is_none(1) else call.ints(1)
        known = math.prod(size for size in shape if size > 0)
        shape = [x.numel // max(known, 1) if size == -1 else size for size in shape]
    copy_elements(run, x, out, shape)


def _to_dim_order(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(7)
    if not (x.is_buffer and out.is_buffer):
        reject(f"{call.name} of {x} to {out}; both must be buffers")
    if x.dtype == out.dtype:
        return copy_elements(run, x, out, x.sizes)
    run.kernel(f"view_convert_buffer_{x.shader_dtype}_{out.shader_dtype}", out, x)
    run.write(out, run.read(x))


def _to_copy(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(7)
    floats = (torch.float32, torch.float16)
    resizes = True
    if x.dtype == out.dtype or (x.dtype in floats and out.dtype in floats):
        if x.is_buffer or out.is_buffer:
            reject(f"{call.name} of {x} to {out}; both must be textures")
        resizes = False
    elif out.is_buffer:
        run.kernel(f"view_convert_buffer_{x.shader_dtype}_{out.shader_dtype}", out, x)
    else:
        run.kernel(f"view_convert_texture_{x.shader_dtype}_{out.shader_dtype}", out, x)
    same_packed(call.name, x, out)
    value = run.read(x)
    if out.dtype == torch.int32 and x.dtype in floats:
        value = to_integers(run, value, call.name)
    run.write(out, value, resizes=resizes)
    out.carry_pad(x)


SEMANTICS: Final[dict[str, Semantics]] = {
    "et_vk.prepack.default": _prepack,
    "aten.clone.default": _clone,
    "aten.view_copy.default": _view,
    "dim_order_ops._to_dim_order_copy.default": _to_dim_order,
    "aten._to_copy.default": _to_copy,
}
