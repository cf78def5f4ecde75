# SPDX-License-Identifier: Apache-2.0
"""1-d and 2-d convolutions. The operator packs weight and bias; a null bias is zero."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.vulkan_graph import MemoryLayout, NullT
from torch.nn import functional

from delegatec.backends.vulkan.reference.call import Call, must_pack, summed
from delegatec.backends.vulkan.reference.elementwise import wide
from delegatec.backends.vulkan.reference.products import pack_weight
from delegatec.backends.vulkan.reference.run import Run, Semantics
from delegatec.backends.vulkan.reference.tensors import (
    CHANNELS,
    HEIGHT,
    TEXTURE_2D,
    TEXTURE_3D,
    Tensor,
    reject,
)
from delegatec.backends.vulkan.reference.unary import clamp

_IMAGE: Final = 4
_ARGUMENTS: Final = 10
# Convolutions of as many channels are computed as a product with unfolded patches.
_UNFOLDED: Final = 128


class _Convolution:
    """The arguments of a convolution.

    Attributes:
        x, weight, out: its operands and result.
        stride, padding, dilation: lists of the blob.
        transposed, groups: of the blob.
        extra: sizes added to the result of a transposed one.
        bounds: of a clamp, or None.
    """

    def __init__(self, call: Call) -> None:
        if len(call) not in (_ARGUMENTS, _ARGUMENTS + 2):
            reject(f"{call.name} with {len(call)} arguments")
        clamped = len(call) > _ARGUMENTS
        self.x, self.weight, self.out = call.tensor(0), call.constant(1), call.tensor(len(call) - 1)
        self.stride, self.padding, self.dilation = (call.int_list(index) for index in (3, 4, 5))
        self.transposed = call.boolean(6) if self.x.dim == _IMAGE else False
        self.extra = call.int_list(7) if self.transposed else []
        self.groups = call.strict_int(8)
        self.bounds = (call.float32(9), call.float32(10)) if clamped else None
        spatial = self.x.dim - 2
        if len(self.weight.sizes) != self.x.dim or self.out.dim != self.x.dim:
            reject(f"{call.name} of {self.x} with a weight of the shape {self.weight.sizes}")
        for name in ("stride", "padding", "dilation"):
            if len(getattr(self, name)) < spatial:
                reject(f"{call.name} of {self.x} with the {name} {getattr(self, name)}")
        if min(self.stride) < 1 or min(self.dilation) < 1 or min(self.padding) < 0 or self.groups < 1:
            reject(f"{call.name} by {self.stride} with a padding of {self.padding}")

    @property
    def channels(self) -> int:
        """The channels of the result."""
        return self.weight.sizes[1 if self.transposed else 0]

    @property
    def kernel(self) -> list[int]:
        """The spatial sizes of the weight."""
        return self.weight.sizes[2:]


def _bias(run: Run, call: Call, conv: _Convolution, storage: str) -> torch.Tensor:
    """Returns the bias, packed with the dtype of the weight, or zeros."""
    value: Any = call.content(2)
    if isinstance(value, NullT):
        return torch.zeros(conv.channels)
    constant = call.constant(2)
    if constant.dtype != conv.weight.dtype:
        reject(f"{call.name} with a bias of {constant.dtype} and a weight of {conv.weight.dtype}")
    if math.prod(constant.sizes) != conv.channels:
        reject(f"{call.name} with a bias of the shape {constant.sizes} for {conv.channels} channels")
    packed = Tensor(-1, constant.dtype, [conv.channels], storage, MemoryLayout.WIDTH_PACKED)
    run.staging("nchw_to", packed, constant.dtype)
    return wide(constant.value.reshape(-1))


def _store(run: Run, conv: _Convolution, value: torch.Tensor) -> None:
    if conv.bounds is not None:
        value = clamp(run, value, *conv.bounds)
    run.write(conv.out, value)


def _compute(run: Run, call: Call, conv: _Convolution, bias: torch.Tensor) -> torch.Tensor:
    if conv.groups == 1 and conv.x.dim == _IMAGE:
        summed(call.name, conv.x)
    x, weight = wide(run.read(conv.x)), wide(conv.weight.value)
    stride, padding, dilation = conv.stride[:2], conv.padding[:2], conv.dilation[:2]
    if conv.transposed:
        return functional.conv_transpose2d(x, weight, bias, stride, padding, conv.extra, conv.groups)
    if conv.x.dim == _IMAGE:
        return functional.conv2d(x, weight, bias, stride, padding, dilation, conv.groups)
    return functional.conv1d(
        x, weight, bias, conv.stride[:1], conv.padding[:1], conv.dilation[:1], conv.groups
    )


def _convolution(run: Run, call: Call) -> None:
    conv = _Convolution(call)
    if conv.x.dim == _IMAGE:
        _two_dimensions(run, call, conv)
    elif conv.x.dim != _IMAGE - 1:
        reject(f"{call.name} of {conv.x}")
    elif conv.x.packed == HEIGHT:
        _columns(run, call, conv)
    else:
        _one_dimension(run, call, conv)


def _two_dimensions(run: Run, call: Call, conv: _Convolution) -> None:
    weight, clamped = conv.weight, "_clamp" if conv.bounds else ""
    dtype = conv.out.shader_dtype
    bias = _bias(run, call, conv, TEXTURE_2D)
    must_pack(call.name, CHANNELS, conv.x, conv.out)
    if conv.x.sizes[0] > 1:
        reject(f"{call.name} of {conv.x}, which has several images")
    depthwise = not conv.transposed and weight.sizes[0] == conv.groups and weight.sizes[1] == 1
    packed = Tensor(-1, weight.dtype, weight.sizes, TEXTURE_2D, MemoryLayout.CHANNELS_PACKED)
    packed.value = weight.value
    if depthwise:
        run.kernel(f"conv2d_dw{_depthwise(call, conv)}{clamped}_{dtype}", conv.out, conv.x, packed)
    elif conv.transposed:
        if max(conv.dilation) > 1:
            reject(f"{call.name}, transposed, with a dilation of {conv.dilation}")
        if conv.groups > 1:
            reject(f"{call.name}, transposed, in {conv.groups} groups")
        run.kernel(f"conv_transpose2d{clamped}_{dtype}", conv.out, conv.x, packed)
    elif conv.kernel == [1, 1]:
        _pointwise(run, call, conv)
    elif conv.groups == 1 and max(conv.dilation) == 1 and weight.sizes[0] >= _UNFOLDED:
        run.kernel(f"conv2d_im2col_texture2d_{dtype}", None, conv.x)
        run.kernel(f"conv2d_gemm_texture2d_{dtype}", conv.out, None, packed)
    else:
        _check_groups(call, conv)
        run.kernel(f"conv2d{clamped}_{dtype}", conv.out, conv.x, packed)
    _store(run, conv, _compute(run, call, conv, bias))


def _depthwise(call: Call, conv: _Convolution) -> str:
    """Returns the part of a shader's name for a depthwise convolution."""
    name = "" if conv.stride[:2] == conv.dilation[:2] else "_sned"
    height, width = conv.kernel
    if (height, width) in ((3, 3), (5, 5)):
        return f"{name}_output_tile_{height}x{width}"
    last = (conv.out.sizes[-1] - 1) * conv.stride[1] - conv.padding[1] + (width - 1) * conv.dilation[1]
    if height > 1 and last >= conv.x.sizes[-1]:
        # It counts elements of the kernel, and not those of a row that are beyond the image.
        reject(f"{call.name} with {height}x{width} depthwise: the runtime is wrong beyond the right edge")
    return name


def _check_groups(call: Call, conv: _Convolution) -> None:
    """Rejects groups whose channels do not fill texels, in which the shader reads and writes."""
    inner, outer = conv.weight.sizes[1], conv.weight.sizes[0] // conv.groups
    if conv.groups > 1 and (inner % _IMAGE or outer % _IMAGE):
        reject(f"{call.name} in {conv.groups} groups of {inner} channels to {outer}")


def _pointwise(run: Run, call: Call, conv: _Convolution) -> None:
    if conv.groups > 1:
        reject(f"{call.name} of one element in {conv.groups} groups, which the shader ignores")
    packed = pack_weight(run, conv.weight, conv.weight.value.reshape(conv.weight.sizes[:2]).T)
    run.kernel(f"conv2d_pw_tiled_{conv.out.shader_dtype}", conv.out, conv.x, packed)


def _one_dimension(run: Run, call: Call, conv: _Convolution) -> None:
    must_pack(call.name, CHANNELS, conv.x, conv.out)
    weight = run.pack(conv.weight, conv.out.storage, MemoryLayout.CHANNELS_PACKED)
    bias = _bias(run, call, conv, TEXTURE_3D)
    name = "conv1d_clamp" if conv.bounds else "conv1d"
    run.kernel(f"{name}_{conv.out.shader_dtype}", conv.out, conv.x, weight)
    _store(run, conv, _compute(run, call, conv, bias))


def _columns(run: Run, call: Call, conv: _Convolution) -> None:
    """1-d convolutions of tensors that pack their channels, which are the height."""
    must_pack(call.name, HEIGHT, conv.out)
    weight = conv.weight
    bias = None if call.is_none(2) else call.packed(2, conv.out.storage)
    if bias is not None and bias.sizes != [conv.channels]:
        reject(f"{call.name} with a bias of the shape {bias.sizes}")
    infix = "" if bias is None else "_bias"
    ends = [conv.out.storage, conv.out.shader_dtype]
    if conv.kernel == [1]:
        if conv.groups > 1 or conv.stride[0] > 1 or conv.padding[0]:
            reject(f"{call.name} of one element by {conv.stride}, in {conv.groups} groups")
        packed = pack_weight(run, weight, weight.value.reshape(weight.sizes[:2]).T)
        name = "_".join([f"conv1d_pw{infix}", ends[0], packed.storage, ends[1]])
    elif conv.groups == weight.sizes[0] and weight.sizes[1] == 1:
        packed = run.pack(weight, conv.out.storage, MemoryLayout.CHANNELS_PACKED)
        name = "_".join([f"conv1d_dw{infix}", *ends])
    else:
        reject(f"{call.name} of {conv.x} with a weight of the shape {weight.sizes} in {conv.groups} groups")
    run.kernel(name, conv.out, conv.x, packed, *([bias] if bias else []))
    added = torch.zeros(conv.channels) if bias is None else wide(run.read(bias))
    _store(run, conv, _compute(run, call, conv, added))


SEMANTICS: Final[dict[str, Semantics]] = dict.fromkeys(
    ("aten.convolution.default", "conv_with_clamp.default", "et_vk.conv_with_clamp.default"), _convolution
)
