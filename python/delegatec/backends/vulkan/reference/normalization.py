# SPDX-License-Identifier: Apache-2.0
"""Softmax and normalizations."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.vulkan_graph import MemoryLayout

from delegatec.backends.vulkan.reference.call import Call, same_packed
from delegatec.backends.vulkan.reference.elementwise import wide
from delegatec.backends.vulkan.reference.reduction import check_barriers
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import BUFFER, CHANNELS, WIDTH, Tensor, reject

_MOST: Final = 4
_INVOCATIONS: Final = 4
_SMALLEST_SUM: Final = 1e-37
_LOWEST: Final = -3.402823e38


def _softmax(name: str) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(3)
        axis = call.axis(1, x.dim)
        whcn = x.dim - 1 - axis
        if x.dim == _MOST and x.sizes[0] > 1 and whcn == CHANNELS:
            reject(f"{call.name} of {x} along channels, which have several images")
        if whcn > CHANNELS:
            reject(f"{call.name} of {x} along dimension {axis}; it supports the last three")
        run.kernel(kernel_name(name, out), out, x)
        if out.is_buffer and x.dim > _MOST:
            reject(f"{call.name} of {x}, a buffer of more than {_MOST} dimensions")
        if not out.is_buffer:
            same_packed(call.name, x, out)
            check_barriers(run, call, out.limits, out.limits, (whcn,))
        value = run.read(x).float()
        largest = value.amax(axis, keepdim=True).clamp(min=_LOWEST)
        if not out.is_buffer and out.packed != whcn and x.sizes[axis] < _INVOCATIONS:
            # each invocation starts with its own texel, which may not exist
            run.unspecified.choose(
                "texels", lambda: True, f"{call.name} of {x.sizes[axis]} texels by {_INVOCATIONS} invocations"
            )
            largest = largest.clamp(min=0.0)
        total = (value - largest).exp().sum(axis, keepdim=True).clamp(min=_SMALLEST_SUM)
        result = (value - largest).exp() / total if name == "softmax" else value - largest - total.log()
        finite = out.is_buffer or out.packed != whcn
        # These shaders write 0 instead of a NaN or an infinity.
        run.write(out, torch.where(result.isfinite(), result, 0.0) if finite else result)

    return semantics


def _layer_norm(run: Run, call: Call) -> None:
    x, (out, mean, rstd) = call.tensor(0), _results(call, 5, 3)
    shape = call.int_list(1)
    if len(shape) != 1 or x.sizes[-1:] != shape:
        reject(f"{call.name} of {x} over the shape {shape}; it supports the last dimension")
    weight, bias = (call.tensor_like(index, x, passthrough=False) for index in (2, 3))
    for operand in (weight, bias):
        if operand.sizes != shape:
            reject(f"{call.name} of {x} with a weight or bias of the shape {operand.sizes}")
    run.kernel(kernel_name("native_layer_norm", out), out, mean, rstd, x, weight, bias)
    if not x.is_buffer:
        same_packed(call.name, x, out, mean, rstd)
        _check_workgroup(call, x)
    value = run.read(x).float()
    center = value.mean(-1, keepdim=True)
    scale = torch.rsqrt((value - center).square().mean(-1, keepdim=True) + call.float32(4))
    run.write(out, (value - center) * scale * wide(run.read(weight)) + wide(run.read(bias)))
    out.carry_pad(x)
    for result, statistic in ((mean, center), (rstd, scale)):
        run.write(result, statistic.reshape(result.sizes) if not run.dynamic else statistic)


def _check_workgroup(call: Call, x: Tensor) -> None:
    """Rejects textures whose workgroup has three invocations along the width.

    The shader halves the sums of a workgroup along the width, which is right for 1, 2, 4, ... of them. The
    runtime swaps the axes of a workgroup's size.
    """
    order = sorted(range(3), key=lambda axis: -x.limits[axis])
    _, middle, smallest = (x.limits[axis] for axis in order)
    # With an extent of 1, the sizes are powers of two.
    if order[0] == 1 and min(4, middle) == 3 and smallest > 1:
        reject(f"{call.name} of {x}: the runtime's sum over the width is wrong for the extents {x.limits}")


def _results(call: Call, index: int, count: int) -> list[Tensor]:
    results = call.tensors(index)
    if len(results) < count:
        reject(f"{call.name} with {len(results)} results")
    return results[:count]


def _group_norm(run: Run, call: Call) -> None:
    x, (out, mean, rstd) = call.tensor(0), _results(call, 8, 3)
    weight, bias = (call.packed(index, x.storage) for index in (1, 2))
    for tensor in (x, out):
        if tensor.is_buffer or tensor.packed != CHANNELS:
            reject(f"{call.name} of {tensor}, which must be a texture that packs channels")
    for tensor in (mean, rstd):
        if tensor.storage != BUFFER or tensor.layout != MemoryLayout.WIDTH_PACKED:
            reject(f"{call.name} to {tensor}, which must be a row-major buffer")
    dtype = out.shader_dtype
    run.kernel(f"group_norm_reduce_texture_{dtype}", mean, rstd, x)
    if x.dim not in (3, _MOST):
        reject(f"{call.name} of {x}")
    groups, channels = call.integer(6), x.sizes[-3]
    if groups < 1 or channels % groups or weight.sizes != [channels] or bias.sizes != [channels]:
        reject(f"{call.name} of {x} in {groups} groups")
    value = run.read(x).float()
    grouped = value.reshape(-1, groups, value.numel() // (groups * (x.sizes[0] if x.dim == _MOST else 1)))
    center = grouped.mean(-1)
    variance = grouped.square().mean(-1) - center.square()
    scale = (variance + call.float32(7)).rsqrt()
    if list(center.shape) != mean.sizes:
        reject(f"{call.name} of {x}, whose batch is dynamic: the runtime resizes {mean} too late")
    run.write(mean, center)
    run.write(rstd, scale)
    run.kernel(f"group_norm_texture_{dtype}", out, x, weight, bias, mean, rstd)
    # The statistics are rounded to the dtype of their buffers.
    center, scale = wide(run.read(mean))[..., None], wide(run.read(rstd))[..., None]
    normal = ((grouped - center) * scale).reshape(x.sizes)
    column = (channels, 1, 1)
    run.write(out, normal * wide(run.read(weight)).reshape(column) + wide(run.read(bias)).reshape(column))
    out.carry_pad(x)


def _batch_norm(run: Run, call: Call) -> None:
    x, (out,) = call.tensor(0), _results(call, 7, 1)
    if x.dim != _MOST:
        reject(f"{call.name} of {x}, which must have {_MOST} dimensions")
    operands = []
    for index in (1, 2, 3, 4):
        constant = call.constant(index)
        if constant.sizes != [x.sizes[1]]:
            reject(f"{call.name} of {x} with {constant} of the shape {constant.sizes}")
        operands.append(call.packed(index, out.storage))
    run.kernel(f"batchnorm_{out.shader_dtype}", out, x, *operands)
    for tensor in (x, out):
        if tensor.packed != CHANNELS:
            reject(f"{call.name} of {tensor}, which must pack channels")
    weight, bias, mean, variance = (wide(run.read(tensor)).reshape(-1, 1, 1) for tensor in operands)
    value = wide(run.read(x))
    run.write(out, (value - mean) / (variance + call.float32(6)).sqrt() * weight + bias)
    out.carry_pad(x)


def _rms_norm(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(3)
    weight = call.tensor_like(1, x, passthrough=False)
    run.kernel(kernel_name("rms_norm", out), out, x, weight)
    if x.is_buffer and x.dim > _MOST:
        reject(f"{call.name} of {x}, a buffer of more than {_MOST} dimensions")
    if not x.is_buffer and (x.packed != WIDTH or out.packed != WIDTH):
        reject(f"{call.name} of {x} to {out}, which must pack the width")
    if weight.sizes != x.sizes[-1:]:
        reject(f"{call.name} of {x} with a weight of the shape {weight.sizes}")
    value = run.read(x).float()
    scale = torch.rsqrt(value.square().mean(-1, keepdim=True) + call.float32(2))
    run.write(out, value * scale * wide(run.read(weight)))
    out.carry_pad(x)


SEMANTICS: Final[dict[str, Semantics]] = {
    "aten._softmax.default": _softmax("softmax"),
    "aten._log_softmax.default": _softmax("log_softmax"),
    "aten.native_layer_norm.default": _layer_norm,
    "aten.native_group_norm.default": _group_norm,
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
    "et_vk.rms_norm.default": _rms_norm,
}
