# SPDX-License-Identifier: Apache-2.0
"""Operators with quantized operands or weights, with their results, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from delegatec_schemas.vulkan_graph import MemoryLayout, StorageType
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.vulkan.reference.testing import BUFFER, PLACEMENTS, WIDTH, Blob, Placement
from delegatec.backends.vulkan.testing.reference.cases import Case, Constant, random

BLOCKS: Final = {
    name: (StorageType.BUFFER, getattr(MemoryLayout, name))
    for name in ("INT8_4W4C", "INT8_4H4W", "INT8_4W", "INT8_4C", "INT8_4C1W", "INT8_CONV2D")
}
_CHANNELS: Final = ("INT8_4W4C", "INT8_4C", "INT8_4C1W", "INT8_CONV2D")
_SCALE, _ZERO = 0.05, 3
_OUT_SCALE, _OUT_ZERO = 0.07, -2
K = Constant


@dataclass(frozen=True)
class Quantized(Case):
    """An int8 operator between a quantization of the inputs and a dequantization of the result.

    Attributes:
        block: the layout of the quantized tensors.
        scale, zero: of the result.
    """

    block: str = "INT8_4C1W"
    scale: float = _OUT_SCALE
    zero: int = _OUT_ZERO
    exact: bool = True

    def blob(self, placement: Placement) -> Blob:
        """Returns a blob with inputs and results in one storage and layout."""
        blob = Blob()
        arguments: list[Any] = []
        for argument in self.arguments:
            if isinstance(argument, torch.Tensor):
                given = blob.input(argument, placement)
                quantized = blob.tensor(argument.shape, torch.int8, BLOCKS[self.block])
                name = "quantized_decomposed.quantize_per_tensor.default"
                blob.call(name, given, _SCALE, _ZERO, -128, 127, None, quantized)
                arguments.append(quantized)
            else:
                arguments.append(
                    blob.constant(argument.value) if isinstance(argument, Constant) else argument
                )
        (wanted,) = self.wanted
        result = blob.tensor(wanted.shape, torch.int8, BLOCKS[self.block])
        blob.call(self.name, *arguments, result)
        out = blob.output(wanted.shape, placement=placement)
        name = "quantized_decomposed.dequantize_per_tensor.default"
        blob.call(name, result, self.scale, self.zero, -128, 127, None, None, out)
        return blob


def _quantized(x: torch.Tensor, scale: float = _SCALE, zero: int = _ZERO) -> torch.Tensor:
    """Returns floats rounded to values that int8 represents."""
    quantized_values = (x / scale).round() + zero
    return (quantized_values.clamp(-128, 127) - zero) * scale


def _result(x: torch.Tensor) -> torch.Tensor:
    return _quantized(x, _OUT_SCALE, _OUT_ZERO)


def _texels(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, -x.shape[-1] % 4)).contiguous()


def _weight(channels: int, *sizes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weight = (random(channels, *sizes) * 60).to(torch.int8)
    return weight, random(channels).abs() * 0.005 + 0.001, random(channels)


def _convolution(
    name: str,
    block: str,
    *,
    groups: int = 1,
    kernel: int = 3,
    stride: int = 1,
    relu: bool = False,
    channels: int = 12,
) -> Case:
    x = random(1, 8, 7, 6)
    depthwise = name == "q8ta_conv2d_dw"
    weight, scales, bias = _weight(channels, 8 // groups, kernel, kernel)
    padding = kernel // 2
    flat = weight.permute(2, 3, 1, 0).reshape(kernel, kernel, -1)
    rows = weight.permute(0, 2, 3, 1).reshape(weight.shape[0], -1)
    real = weight * scales.reshape(-1, 1, 1, 1)
    if name == "q8ta_conv2d_transposed":
        value = F.conv_transpose2d(_quantized(x), real.transpose(0, 1), bias, stride, padding)
    else:
        value = F.conv2d(_quantized(x), real, bias, stride, padding, 1, groups)
    sums = weight.flatten(1).sum(1, dtype=torch.int32)
    constants = [K(_texels(flat if depthwise else rows)), K(_texels(sums)), K(_texels(scales))]
    lists: list[Any] = [[kernel] * 2, [stride] * 2, [padding] * 2]
    lists += [[0, 0]] if name == "q8ta_conv2d_transposed" else []
    arguments = [
        x,
        _SCALE,
        _ZERO,
        *constants,
        _OUT_SCALE,
        _OUT_ZERO,
        K(_texels(bias)),
        *lists,
        [1, 1],
        groups,
    ]
    expected = _result(value.clamp(min=0) if relu else value)
    # The shaders read one group for four channels of results.
    mixes_groups = not depthwise and groups > 1 and channels // groups % 4 > 0
    supported = block in _CHANNELS and (kernel > 1 or block == "INT8_4W4C") and not mixes_groups
    placements = PLACEMENTS if supported else ()
    return Quantized(
        f"et_vk.{name}.default", [*arguments, "relu" if relu else "none"], expected, placements, block=block
    )


def _linear(name: str, block: str, rows: int) -> Case:
    x = random(rows, 12)
    weight, scales, bias = _weight(7, 12)
    sums = weight.sum(1, dtype=torch.int32)
    constants = [K(weight), K(_texels(sums)), K(_texels(scales))]
    value = F.linear(_quantized(x), weight * scales[:, None], bias)
    arguments = [x, _SCALE, _ZERO, *constants, _OUT_SCALE, _OUT_ZERO, K(_texels(bias)), "none"]
    right = {"q8ta_linear": "INT8_4H4W", "q8ta_linear_gemv": "INT8_4W"}[name]
    placements = PLACEMENTS if block == right else ()
    return Quantized(f"et_vk.{name}.default", arguments, _result(value), placements, block=block)


def _pack(weight: torch.Tensor, *, high_first: bool = False) -> torch.Tensor:
    unsigned = (weight + 8).to(torch.uint8)
    even, odd = unsigned[:, ::2], unsigned[:, 1::2]
    return even << 4 | odd if high_first else odd << 4 | even


_X = random(5, 16)
_W8, _S8, _B8 = _weight(8, 16)
_W4 = (random(8, 16) * 4).clamp(-8, 7).to(torch.int8)
_S4 = random(2, 8).abs()
_SUMS4 = _W4.reshape(8, 2, 8).sum(2, dtype=torch.int32).T.contiguous()
_REAL4 = _W4 * _S4.T.repeat_interleave(8, 1)
_IMAGE, _BLOCKY = random(1, 6, 5, 7), random(2, 16, 3, 5)
_ROW_SCALES, _ZEROS = random(1, 5).abs() * 0.01 + 0.01, torch.tensor([[3, -4, 0, 7, -128]], dtype=torch.int8)
_ROWS: Final = (BUFFER, WIDTH)
_TOKENS = torch.tensor([3, 1, 0, 6], dtype=torch.int32)
_TABLE = (random(7, 64) * 4).clamp(-8, 7).to(torch.int8)
_SCALES = random(7, 2)


def _rows_quantized() -> torch.Tensor:
    scale, zero = _ROW_SCALES.reshape(5, 1), _ZEROS.reshape(5, 1)
    return (((_X / scale).round() + zero).clamp(-128, 127) - zero) * scale


def _parameters(x: torch.Tensor) -> list[torch.Tensor]:
    scale = (x.amax(1).clamp(0) - x.amin(1).clamp(max=0)) / 255
    low = -128 - x.amin(1).clamp(max=0) / scale
    return [scale[None], low.round().to(torch.int8)[None]]


def _embedding(linear: bool) -> Case:
    packed = _pack(_TABLE, high_first=not linear)
    real = _TABLE * _SCALES.repeat_interleave(32, 1)
    arguments = [K(packed), K(_SCALES), 32, _TOKENS, linear]
    return Case("et_vk.embedding_q4gsw.default", arguments, real[_TOKENS.long()], _ROWS)


CASES: Final = [
    *(
        Quantized(
            "et_vk.q8ta_add.default",
            [_IMAGE, _IMAGE, *[_SCALE, _ZERO] * 2, _OUT_SCALE, _OUT_ZERO, 1.0],
            _result(2 * _quantized(_IMAGE)),
            block=block,
        )
        for block in BLOCKS
    ),
    Quantized(
        "et_vk.q8ta_relu.default",
        [_IMAGE, _SCALE, _ZERO, _OUT_SCALE, _OUT_ZERO],
        _result(_quantized(_IMAGE).clamp(min=0)),
    ),
    Quantized("aten.clone.default", [_IMAGE, None], _quantized(_IMAGE), scale=_SCALE, zero=_ZERO),
    Quantized(
        "et_vk.q8ta_pixel_shuffle.default",
        [_BLOCKY, _SCALE, _ZERO, 1 / _OUT_SCALE, _OUT_ZERO, 2],
        _result(F.pixel_shuffle(_quantized(_BLOCKY), 2)),
    ),
    *(_convolution("q8ta_conv2d", block, relu=True) for block in BLOCKS),
    *(
        _convolution(f"q8ta_conv2d_{name}", "INT8_4C", stride=2)
        for name in ("general", "im2col", "transposed")
    ),
    *(_convolution("q8ta_conv2d_general", "INT8_4W4C", groups=2, channels=each) for each in (12, 16)),
    _convolution("q8ta_conv2d_dw", "INT8_4C1W", groups=8, stride=2, channels=8),
    _convolution("q8ta_conv2d_pw", "INT8_4W4C", kernel=1),
    _convolution("q8ta_conv2d_pw", "INT8_4C1W", kernel=1),
    *(_linear("q8ta_linear", block, 5) for block in BLOCKS),
    *(_linear("q8ta_linear_gemv", block, 1) for block in BLOCKS),
    Case(
        "et_vk.linear_q8csw.default",
        [_X, K(_W8), K(_S8), K(_B8)],
        F.linear(_X, _W8 * _S8[:, None], _B8),
        _ROWS,
    ),
    Case(
        "et_vk.linear_q8ta_q8csw.default",
        [_X, _SCALE, _ZERO, K(_W8), K(_W8.sum(1, dtype=torch.int32)), K(_S8), K(_B8)],
        F.linear(_quantized(_X), _W8 * _S8[:, None], _B8),
        _ROWS,
        exact=True,
    ),
    *(
        Case(f"et_vk.{name}.default", [_X, K(_pack(_W4)), K(_S4), 8, None], F.linear(_X, _REAL4), _ROWS)
        for name in ("linear_q4gsw", "q4gsw_linear")
    ),
    Case(
        "et_vk.linear_dq8ca_q4gsw.default",
        [_X, _ROW_SCALES, _ZEROS, K(_pack(_W4)), K(_SUMS4), K(_S4), 8, K(_B8)],
        F.linear(_rows_quantized(), _REAL4, _B8),
        _ROWS,
        {1: WIDTH, 2: WIDTH},
    ),
    Case(
        "torchao.choose_qparams_affine.default",
        [_X, "ASYMMETRIC", [1, 16], None, -128, 127, None, None, None],
        _parameters(_X),
        _ROWS,
        {},
        {0: WIDTH, 1: WIDTH},
    ),
    _embedding(False),
    _embedding(True),
]
