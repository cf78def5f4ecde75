# SPDX-License-Identifier: Apache-2.0
"""Operators that quantize in blocks of any shape, as torchao's `quantize_` computes weights and activations.

torchao's own operators exist only where torchao is imported. These have the same arguments and results, and
are in each process that reads a program: backends may preserve them, and all others get their arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

# Elements of a part of a tensor whose temporary values stay in a CPU's cache.
_PART: Final = 2**18
_BLOCKS: Final = "SymInt[] block_size"
_RANGE: Final = "Scalar? quant_min=None, Scalar? quant_max=None"
_SCHEMAS: Final = (
    f"choose_qparams_affine(Tensor input, str mapping_type, {_BLOCKS}, ScalarType target_dtype, {_RANGE}, "
    "float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, "
    "bool keepdim=False) -> (Tensor, Tensor)",
    f"quantize_affine(Tensor input, {_BLOCKS}, Tensor scale, Tensor? zero_point, ScalarType output_dtype, "
    f"{_RANGE}) -> Tensor",
    f"dequantize_affine(Tensor input, {_BLOCKS}, Tensor scale, Tensor? zero_point, ScalarType input_dtype, "
    f"{_RANGE}, ScalarType output_dtype=float) -> Tensor",
)


def in_blocks(shape: Sequence[Any], block: Sequence[Any]) -> tuple[list[Any], list[Any], list[int]]:
    """Returns the shape in blocks, the shape of one scalar per block, and the dimensions inside blocks."""
    split: list[Any] = []
    single: list[Any] = []
    inside: list[int] = []
    for size, width in zip(shape, block, strict=True):
        if isinstance(width, int) and width == 1:
            split, single = [*split, size], [*single, size]
            continue
        if width != size:
            split, single = [*split, size // width], [*single, size // width]
        inside.append(len(split))
        split, single = [*split, width], [*single, 1]
    return split, single, inside


def limits(dtype: torch.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """Returns the least and the largest quantized value."""
    return (
        torch.iinfo(dtype).min if low is None else low,
        torch.iinfo(dtype).max if high is None else high,
    )


def choose_qparams(
    x: Tensor,
    mapping: str,
    block: Sequence[int],
    target: torch.dtype,
    low: float | None = None,
    high: float | None = None,
    eps: float | None = None,
    scale_dtype: torch.dtype | None = None,
    zero_dtype: torch.dtype | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Returns scales and zero points for blocks of a tensor."""
    low, high = limits(target, low, high)
    shape, _, inside = in_blocks(x.shape, block)
    blocks = x.view(shape)
    least = torch.clamp(torch.amin(blocks, inside, keepdim), max=0)
    largest = torch.clamp(torch.amax(blocks, inside, keepdim), min=0)
    smallest = torch.finfo(x.dtype).smallest_normal if eps is None else eps
    if mapping == "ASYMMETRIC":
        scale = torch.clamp((largest - least) / float(high - low), min=smallest)
        zeros = torch.clamp(low - torch.round(least / scale), low, high)
        zero_dtype = zero_dtype or torch.int32
    else:
        if mapping == "SYMMETRIC":
            scale = torch.maximum(-least, largest) / (float(high - low) / 2)
        else:
            scale = torch.maximum(least / float(low), largest / float(high))
        scale = torch.clamp(scale, min=smallest)
        zeros = torch.zeros_like(scale) + int((high + low + 1) / 2)
    if keepdim:
        per_block = [size // width for size, width in zip(x.shape, block, strict=True)]
        scale, zeros = scale.reshape(per_block), zeros.reshape(per_block)
    return scale.to(scale_dtype or x.dtype), zeros.to(zero_dtype or zeros.dtype)


def quantize(
    x: Tensor,
    block: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    dtype: torch.dtype,
    low: float | None = None,
    high: float | None = None,
) -> Tensor:
    """Returns the quantized values of a tensor."""
    low, high = limits(dtype, low, high)
    shape, per_block, _ = in_blocks(x.shape, block)
    scaled = torch.round(x.view(shape) * scale.view(per_block).reciprocal())
    if zero_point is not None:
        scaled = scaled + zero_point.view(per_block)
    return torch.clamp(scaled, low, high).view(x.shape).to(dtype)


def dequantize(
    x: Tensor,
    block: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    dtype: torch.dtype,
    low: float | None = None,
    high: float | None = None,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Returns the dequantized values."""
    shape, per_block, _ = in_blocks(x.shape, block)
    values = x.view(shape).to(output_dtype)
    if zero_point is not None:
        values = values - zero_point.view(per_block).to(output_dtype)
    return (values * scale.view(per_block)).view(x.shape).to(output_dtype)


def _dequantize_on_cpu(
    x: Tensor, block: Sequence[int], scale: Tensor, zero_point: Tensor | None, *rest: Any
) -> Tensor:
    """Computes `dequantize` of the weight of a large layer in parts: temporary values stay in the cache.

    Programs that are traced have no such parts: fake tensors and gradients take `dequantize`.
    """
    is_large = x.dim() == 2 and x.numel() > _PART and block[0] == 1 and zero_point is None
    if not is_large or torch.is_grad_enabled():
        return dequantize(x, block, scale, zero_point, *rest)
    scales = scale.reshape(x.shape[0], -1)
    step = max(1, _PART // x.shape[1])
    result: Tensor | None = None
    for start in range(0, x.shape[0], step):
        rows = slice(start, start + step)
        part = dequantize(x[rows], block, scales[rows], None, *rest)
        result = part.new_empty(x.shape) if result is None else result
        result[rows] = part
    assert result is not None
    return result


_LIBRARY: Final[Any] = torch.library.Library("delegatec", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema, _function in zip(_SCHEMAS, (choose_qparams, quantize, dequantize), strict=True):
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeImplicitAutograd")
_LIBRARY.impl("dequantize_affine", _dequantize_on_cpu, "CPU")

AFFINE: Final = torch.ops.delegatec
