# SPDX-License-Identifier: Apache-2.0
"""The quantization operators of PT2E and torchao in plain arithmetic.

The runtime's kernels for these operators are in a separate library, which may be missing. So a quantized
model runs everywhere, with the same results; it is fast in a delegate that recognizes the pattern.
"""

from __future__ import annotations

from typing import Final, overload

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of, short_name
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import FunctionTable, Rewrite
from delegatec.edge.legalize.rules.pointwise import INTEGERS
from delegatec.edge.legalize.value import value_of
from delegatec.edge.quantization import affine
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS, operands_of, quantized

# The smallest value with all digits of float16.
_LEAST_NORMAL: Final = 2.0**-14


# ---- normal form -----------------------------------------------------------------------------------------


def _quantize(
    x: Tensor, scale: float | Tensor, zero_point: int | Tensor, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    x = x.to(torch.float32)
    inverse = _single(scale).reciprocal() if isinstance(scale, Tensor) else 1.0 / scale
    return torch.clamp(torch.round(x * inverse) + _single(zero_point), low, high).to(dtype)


def _dequantize(
    x: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    out_dtype = out_dtype or torch.float32
    x = x.to(out_dtype)
    # Parameters are tensors of float32 where they are computed or of channels: the product is, too.
    return ((x if zero_point is None else x - _single(zero_point)) * _single(scale)).to(out_dtype)


@overload
def _single(parameter: Tensor) -> Tensor: ...
@overload
def _single(parameter: float) -> float: ...


def _single(parameter: float | Tensor) -> float | Tensor:
    """Converts a parameter to float32.

    Parameters computed at run time are declared as float64 and int64, but computed in float32. Values halfway
    between two quantized values, within the precision of float32, may differ from eager mode by one
    quantization step.
    """
    return parameter.to(torch.float32) if isinstance(parameter, Tensor) else parameter


def _quantize_per_channel(
    x: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    block = [1 if dim == axis % x.dim() else size for dim, size in enumerate(x.shape)]
    return affine.quantize(
        x.to(torch.float32), block, _single(scales), _single(zero_points), dtype, low, high
    )


def _of_groups(values: Tensor, x: Tensor) -> Tensor:
    """Reshapes values per group of columns to broadcast along the result of `_groups`."""
    return values.reshape(x.shape[0], -1, 1)


def _groups(x: Tensor, scales: Tensor, group: int) -> Tensor:
    """Groups the columns of a matrix: [rows, groups, columns per group]."""
    # a single group may be larger than the matrix
    group = x.shape[-1] if group > x.shape[-1] and scales.shape[-1] == 1 else group
    return x.reshape(x.shape[0], -1, group)


def _quantize_per_channel_group(
    x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype, group: int = 128
) -> Tensor:
    scaled = _groups(x, scales, group) * _of_groups(scales, x).reciprocal() + _of_groups(zero_points, x)
    return torch.clamp(torch.round(scaled), low, high).to(dtype).reshape(x.shape)


def _quantize_per_token(
    x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    scaled = torch.round(x.to(torch.float32) / _single(scales) + _single(zero_points))
    return torch.clamp(scaled, low, high).to(dtype)


def _dequantize_per_token(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Tensor:
    return ((x.to(torch.float32) - _single(zero_points)) * _single(scales)).to(output_dtype)


def _choose_per_token(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    largest = torch.amax(torch.abs(x), dim=-1, keepdim=True).to(torch.float32)
    scales = torch.clamp(largest, min=1e-5) / 127
    return scales.to(torch.float64), torch.zeros_like(scales, dtype=torch.int64)


def _choose_per_token_asymmetric(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Chooses parameters for int8, regardless of `dtype`."""
    low, high = -128, 127
    least = torch.clamp(torch.amin(x, dim=-1, keepdim=True), max=0)
    largest = torch.clamp(torch.amax(x, dim=-1, keepdim=True), min=0)
    scale = torch.clamp((largest - least) / float(high - low), min=torch.finfo(torch.float32).eps)
    below, above = least / scale, largest / scale
    # The end of the range whose error is smaller stays exact.
    zero_point = torch.where((low + below) + (high + above) > 0, low - below, high - above)
    return scale.to(torch.float64), torch.round(torch.clamp(zero_point, low, high)).to(torch.int64)


def _choose(x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    least, largest = torch.clamp(torch.amin(x), max=0), torch.clamp(torch.amax(x), min=0)
    scale = torch.clamp((largest - least) / float(high - low), min=eps).to(torch.float32)
    zero_point = torch.clamp(low - torch.round(least / scale), low, high)
    return scale.reshape(1).to(torch.float64), zero_point.reshape(1).to(torch.int64)


def _choose_symmetric(
    x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    scale = torch.clamp(torch.amax(torch.abs(x)) / (float(high - low) / 2), min=eps)
    zero_point = torch.full([1], 128 if dtype == torch.uint8 else 0, dtype=torch.int64)
    return scale.to(torch.float32).reshape(1).to(torch.float64), zero_point


# ---- for targets that lack the scales ----------------------------------------------------------------------


def _quantize_with_scales(builder: Builder, node: Node) -> Node:
    """Returns round(x / scale) + zero point, for scales and zero points of blocks."""
    found = operands_of(node)
    shape, per_block, _ = affine.in_blocks(shape_of(node), found.block)
    assert isinstance(found.scale, Node) and isinstance(found.zero_point, Node)
    scales, zeros = (
        value_of(builder, each, torch.float32).view(*per_block) for each in (found.scale, found.zero_point)
    )
    scaled = (value_of(builder, found.x, torch.float32).view(*shape) * scales.reciprocal()).round() + zeros
    return scaled.clamp(found.low, found.high).to(found.dtype).view(*shape_of(node)).node


def _dequantize_weight(builder: Builder, node: Node) -> Node:
    """Returns (weight - zero point) * scale."""
    found = operands_of(node)
    shape, per_block, _ = affine.in_blocks(shape_of(node), found.block)
    scales, zeros = found.scale, found.zero_point
    assert isinstance(scales, Node)
    value = builder.program.constants.get(scales.name)
    # The product of a weight and a small scale can have all digits again.
    if value is not None and dtype_of(scales) == torch.float16 != value.dtype and not has_all_digits(value):
        scales = builder.derived(scales, value, value.dtype)
    dtype = torch.promote_types(dtype_of(scales), dtype_of(node))
    values = value_of(builder, found.x, dtype).view(*shape)
    if isinstance(zeros, Node) and not is_zero(builder.program.constants.get(zeros.name)):
        values = values - value_of(builder, zeros, dtype).view(*per_block)
    scaled = values * value_of(builder, scales, dtype).view(*per_block)
    return scaled.to(dtype_of(node)).view(*shape_of(node)).node


def has_all_digits(scales: torch.Tensor) -> bool:
    """Whether float16 has as many digits of each nonzero value as of large ones."""
    size = scales.detach().abs()
    return bool(((size == 0) | (size >= _LEAST_NORMAL)).all())


def is_zero(constant: torch.Tensor | None) -> bool:
    """Whether a value is a constant of zeros."""
    return constant is not None and not bool(constant.any())


def _integers(node: Node, _: object) -> str | None:
    dtype = dtype_of(operands_of(node).x)
    return None if dtype in _INTEGERS else f"integers of dtype {short_name(dtype)}"


_INTEGERS: Final = INTEGERS | {torch.uint8}
QUANTIZED: Final = Constraint[object](
    "dtype", "The weight is int8, uint8, int16, int32 or int64.", _integers, "quantize to int8"
)


FUNCTIONS: Final[FunctionTable] = {
    **dict.fromkeys(
        (
            quantized.quantize_per_tensor.default,
            quantized.quantize_per_tensor.tensor,
            quantized.quantize_per_tensor.tensor2,
        ),
        _quantize,
    ),
    **dict.fromkeys(
        (
            quantized.dequantize_per_tensor.default,
            quantized.dequantize_per_tensor.tensor,
            quantized.dequantize_per_tensor.tensor2,
        ),
        _dequantize,
    ),
    quantized.convert_element_type.no_fuse: lambda x, dtype: x.to(dtype),
    quantized.quantize_per_channel.default: _quantize_per_channel,
    quantized.quantize_per_channel_group.default: _quantize_per_channel_group,
    quantized.choose_qparams.tensor: _choose,
    quantized.choose_qparams_symmetric.tensor: _choose_symmetric,
    quantized.choose_qparams_per_token.default: _choose_per_token,
    quantized.choose_qparams_per_token_asymmetric.default: _choose_per_token_asymmetric,
    quantized._choose_qparams_per_token_asymmetric_impl.default: _choose_per_token_asymmetric,
    quantized.quantize_per_token.default: _quantize_per_token,
    quantized.dequantize_per_token.default: _dequantize_per_token,
    affine.AFFINE.choose_qparams_affine.default: affine.choose_qparams,
    affine.AFFINE.quantize_affine.default: affine.quantize,
    affine.AFFINE.dequantize_affine.default: affine.dequantize,
}

REWRITES: Final = (
    Rewrite(
        DEQUANTIZE_BLOCKS,
        _dequantize_weight,
        (QUANTIZED,),
        "in float32 where float16 has fewer digits of a scale",
        preserved=True,
    ),
)

QUANTIZE_CHANNELS: Final = Rewrite(
    quantized.quantize_per_channel.default, _quantize_with_scales, note="in float32", preserved=True
)
