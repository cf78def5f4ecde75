# SPDX-License-Identifier: Apache-2.0
"""Operators on int8 tensors, which are stored in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas.vulkan_graph import MemoryLayout
from torch.nn import functional

from delegatec.backends.vulkan.reference.call import Call, as_float32
from delegatec.backends.vulkan.reference.layouts import unfolds
from delegatec.backends.vulkan.reference.run import Run, Semantics
from delegatec.backends.vulkan.reference.tensors import BUFFER, CHANNELS, TEXTURE_2D, Tensor, reject

_TEXEL: Final = 4
_LOW, _HIGH = -128, 127
_FACTOR: Final = 2
_LINEAR: Final = {
    "q8ta_linear": MemoryLayout.INT8_4H4W,
    "q8ta_linear_gemv": MemoryLayout.INT8_4W,
}
_ACTIVATIONS: Final = ("none", "relu")


def quantize(run: Run, x: torch.Tensor, inverse: float, zero: int) -> torch.Tensor:
    """Returns floats as int8."""
    scaled = x.float() * inverse
    ties = (scaled - scaled.floor()) == 0.5
    choice = run.unspecified.choose("rounding", lambda: ties, "quantization between two integers")
    if choice == "away":
        scaled = torch.where(ties, scaled + scaled.sign() * 0.5, scaled)
    return (scaled.round() + zero).clamp(_LOW, _HIGH).to(torch.int8)


def inverse_of(call: Call, index: int) -> float:
    """Returns one divided by a scale, in float32."""
    scale = call.float32(index)
    if not scale:
        reject(f"{call.name} with the scale 0")
    return as_float32(1.0 / scale)


def dequantize(x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
    """Returns int8 as floats."""
    return (x.int() - zero).float() * scale


def _blocks(call: Call, *tensors: Tensor) -> None:
    for tensor in tensors:
        if not tensor.is_int8_block or not tensor.is_buffer:
            reject(f"{call.name} of {tensor}, which must be a buffer of blocks of int8")


def _quantize(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(-1)
    _blocks(call, out)
    run.kernel(f"q8ta_quantize_{x.storage}_{x.shader_dtype}", out, x)
    run.write(out, quantize(run, run.read(x), inverse_of(call, 1), call.integer(2)))


def _dequantize(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(-1)
    _blocks(call, x)
    run.kernel(f"q8ta_dequantize_{out.storage}_{out.shader_dtype}", out, x)
    run.write(out, dequantize(run.read(x), call.float32(1), call.integer(2)))


class _Weights:
    """The constants of a quantized layer, which follow the operand, its scale and its zero point.

    Attributes:
        x, out: the operand and the result.
        weight: int8, of any layout.
        bias: float32, or None.
    """

    def __init__(self, run: Run, call: Call, channels: int, activation: int) -> None:
        self.x, self.out = call.tensor(0), call.tensor(-1)
        _blocks(call, self.x, self.out)
        self._run, self._call = run, call
        self.weight = call.constant(3).value
        self.sums, self.scales = call.packed(4, BUFFER), call.packed(5, BUFFER)
        self.bias = None if call.is_none(8) else call.packed(8, BUFFER)
        if self.weight.dtype != torch.int8 or self.sums.dtype != torch.int32:
            reject(f"{call.name} with a weight of {self.weight.dtype} and sums of {self.sums.dtype}")
        for tensor in (self.sums, self.scales, self.bias):
            if tensor is not None and (tensor.dim != 1 or tensor.sizes[0] < channels):
                reject(f"{call.name} with constants of the shape {tensor.sizes} for {channels} channels")
        self._channels = channels
        text = call.text(activation)
        if text not in _ACTIVATIONS:
            reject(f'{call.name} with the activation "{text}"')
        self._relu = text == "relu"

    def kernel(self, name: str) -> None:
        """Checks the shader."""
        packed = Tensor(-1, torch.int32, [1], TEXTURE_2D, MemoryLayout.WIDTH_PACKED)
        packed.value = self.weight
        operands = [self.x, packed, self.sums, self.scales, *([self.bias] if self.bias else [])]
        self._run.kernel(f"{name}_{self.scales.shader_dtype}", self.out, *operands)

    def zero_padded(self) -> torch.Tensor:
        """Returns the operand less its zero point, whose sums are exact in float64."""
        return (self._run.read(self.x).int() - self._call.integer(2)).double()

    def store(self, sums: torch.Tensor, axis: int, plain: torch.Tensor) -> None:
        """Scales, adds the bias, and quantizes.

        Args:
            sums: of products of the operand less its zero point and the weight.
            axis: the channels.
            plain: sums of the weight, which the blob has, too: the runtime subtracts the blob's.
        """
        shape = [1] * sums.dim()
        shape[axis] = self._channels
        column = [
            None if tensor is None else self._run.read(tensor)[: self._channels].float().reshape(shape)
            for tensor in (self.sums, self.scales, self.bias)
        ]
        given, scales, bias = column
        assert given is not None and scales is not None
        zero = self._call.integer(2)
        accumulated = sums.float() + (plain.reshape(shape).float() - given) * zero
        value = accumulated * (scales * self._call.float32(1))
        if bias is not None:
            value = value + bias
        if self._relu:
            value = value.clamp(min=0)
        inverse = inverse_of(self._call, 6)
        self._run.write(self.out, quantize(self._run, value, inverse, self._call.integer(7)))


def _spatial(call: Call, indices: Sequence[int]) -> list[list[int]]:
    lists = [call.int_list(index) for index in indices]
    if any(len(items) != 2 for items in lists):
        reject(f"{call.name} with lists of {[len(items) for items in lists]} integers")
    return lists


def _convolution(name: str) -> Semantics:
    transposed = name == "q8ta_conv2d_transposed"
    indices = [9, 10, 11, 12, 13] if transposed else [9, 10, 11, 12]

    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(-1)
        channels, inputs = out.whcn[2], x.whcn[2]
        data = _Weights(run, call, channels, indices[-1] + 2)
        for tensor in (x, out):
            if tensor.packed != CHANNELS or tensor.dim not in (3, _TEXEL) or tensor.whcn[3] != 1:
                reject(f"{call.name} of {tensor}, which must be one image of blocks of channels")
        kernel, stride, padding, *rest = _spatial(call, indices)
        extra, dilation = (rest[0], rest[1]) if transposed else ([0, 0], rest[0])
        groups = call.integer(indices[-1] + 1)
        if groups < 1 or inputs % groups or channels % groups or min(*stride, *dilation, *kernel) < 1:
            reject(f"{call.name} of {x} in {groups} groups by {stride}")
        depthwise = name == "q8ta_conv2d_dw"
        _check_kind(call, name, x, channels, (kernel, stride, padding, dilation, groups))
        data.kernel(_shader(name, x, out, groups))
        if depthwise:
            height, width, aligned = data.weight.shape if data.weight.dim() == 3 else (0, 0, 0)
            if [height, width] != kernel or aligned < channels:
                reject(f"{call.name} with a weight of the shape {list(data.weight.shape)}")
            weight = data.weight[:, :, :channels].permute(2, 0, 1)[:, None]
        else:
            weight = _unflattened(call, data.weight, [channels, *kernel, inputs // groups])
        value, matrix = data.zero_padded().reshape(1, *x.sizes[-3:]), weight.double()
        if transposed:
            # Groups of results, to groups of operands.
            matrix = torch.unflatten(matrix, 0, (groups, -1)).transpose(1, 2).flatten(0, 1)
            sums = functional.conv_transpose2d(value, matrix, None, stride, padding, extra, groups)
        else:
            sums = functional.conv2d(value, matrix, None, stride, padding, dilation, groups)
        data.store(
            sums.reshape(*out.sizes[:-3], *sums.shape[1:]), -3, weight.flatten(1).sum(1, dtype=torch.int32)
        )

    return semantics


Window = tuple[list[int], list[int], list[int], list[int], int]


def _check_kind(call: Call, name: str, x: Tensor, results: int, window: Window) -> None:
    """Rejects calls that a shader does not compute; grouped ones read one group for four result channels."""
    kernel, stride, padding, dilation, groups = window
    channels = x.whcn[2] // groups
    plain = kernel == [1, 1] and stride == [1, 1] and padding == [0, 0] and groups == 1
    if name == "q8ta_conv2d_dw" and groups != x.whcn[2]:
        reject(f"{call.name} of {x} in {groups} groups")
    if name == "q8ta_conv2d_pw" and (not plain or x.layout != MemoryLayout.INT8_4W4C):
        reject(f"{call.name} of {x} with a kernel of {kernel} by {stride}, in {groups} groups")
    if name == "q8ta_conv2d_im2col" and channels % _TEXEL:
        reject(f"{call.name} of {x} in {groups} groups")
    if name != "q8ta_conv2d_dw" and groups > 1 and (channels % _TEXEL or results // groups % _TEXEL):
        reject(f"{call.name} of {x} in {groups} groups, from {channels} to {results // groups} channels each")
    if name == "q8ta_conv2d_transposed" and max(dilation) > 1:
        reject(f"{call.name} with a dilation of {dilation}")


def _shader(name: str, x: Tensor, out: Tensor, groups: int) -> str:
    if name == "q8ta_conv2d_im2col" or (name == "q8ta_conv2d" and unfolds(x.sizes, out.sizes, groups)):
        return "q8ta_conv2d_pw"
    return "q8ta_conv2d" if name == "q8ta_conv2d_general" else name


def _unflattened(call: Call, weight: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Returns a weight of rows (height, width, channels), padded to texels, as (out, in, height, width)."""
    channels, height, width, inputs = sizes
    length = height * width * inputs
    if weight.dim() != 2 or weight.shape[0] < channels or weight.shape[1] != -(-length // _TEXEL) * _TEXEL:
        reject(f"{call.name} with a weight of the shape {list(weight.shape)} for {sizes}")
    return weight[:channels, :length].reshape(channels, height, width, inputs).permute(0, 3, 1, 2)


def _linear(name: str) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(-1)
        channels, inputs = out.sizes[-1], x.sizes[-1]
        data = _Weights(run, call, channels, 9)
        for tensor in (x, out):
            if tensor.layout != _LINEAR[name]:
                reject(f"{call.name} of {tensor}, which has another layout")
        weight = data.weight
        if inputs % _TEXEL or weight.dim() != 2 or list(weight.shape) != [channels, inputs]:
            reject(f"{call.name} of {x} with a weight of the shape {list(weight.shape)}")
        if any(size != 1 for size in x.sizes[:-2]) or (name.endswith("gemv") and x.numel != inputs):
            reject(f"{call.name} of {x}")
        data.kernel(name)
        data.store(data.zero_padded() @ weight.double().T, -1, weight.sum(1, dtype=torch.int32))

    return semantics


def _same_blocks(call: Call, *tensors: Tensor) -> None:
    _blocks(call, *tensors)
    if len({tensor.packed for tensor in tensors}) > 1 or len({tuple(t.sizes) for t in tensors}) > 1:
        reject(f"{call.name} of {' and '.join(map(str, tensors))}")


def _add(run: Run, call: Call) -> None:
    x, y, out = call.tensor(0), call.tensor(1), call.tensor(9)
    _same_blocks(call, x, y, out)
    run.kernel("q8ta_add_buffer", out, x, y)
    left = dequantize(run.read(x), call.float32(2), call.integer(3))
    right = dequantize(run.read(y), call.float32(4), call.integer(5))
    # The shader ignores the factor of the second operand.
    if call.float32(8) != 1:
        reject(f"{call.name} with the factor {call.float32(8)}, which the runtime ignores")
    run.write(out, quantize(run, left + right, inverse_of(call, 6), call.integer(7)))


def _relu(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(5)
    _same_blocks(call, x, out)
    run.kernel("q8ta_relu_buffer", out, x)
    value = dequantize(run.read(x), call.float32(1), call.integer(2)).clamp(min=0)
    run.write(out, quantize(run, value, inverse_of(call, 3), call.integer(4)))


def _pixel_shuffle(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(6)
    _blocks(call, x, out)
    if x.dim != _TEXEL or call.integer(5) != _FACTOR or CHANNELS not in (x.packed,) or out.packed != CHANNELS:
        reject(f"{call.name} of {x} to {out} by {call.integer(5)}")
    run.kernel("q8ta_pixel_shuffle", out, x)
    value = dequantize(run.read(x), call.float32(1), call.integer(2))
    shuffled = functional.pixel_shuffle(value, _FACTOR)
    run.write(out, quantize(run, shuffled, call.float32(3), call.integer(4)))


SEMANTICS: Final[dict[str, Semantics]] = {
    "quantized_decomposed.quantize_per_tensor.default": _quantize,
    "quantized_decomposed.dequantize_per_tensor.default": _dequantize,
    **{
        f"et_vk.{name}.default": _convolution(name)
        for name in (
            "q8ta_conv2d",
            "q8ta_conv2d_general",
            "q8ta_conv2d_im2col",
            "q8ta_conv2d_pw",
            "q8ta_conv2d_dw",
            "q8ta_conv2d_transposed",
        )
    },
    **{f"et_vk.{name}.default": _linear(name) for name in _LINEAR},
    "et_vk.q8ta_add.default": _add,
    "et_vk.q8ta_relu.default": _relu,
    "et_vk.q8ta_pixel_shuffle.default": _pixel_shuffle,
}
