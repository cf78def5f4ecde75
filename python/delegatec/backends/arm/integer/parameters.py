# SPDX-License-Identifier: Apache-2.0
"""Quantization parameters of calls that quantize and dequantize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.integer.values import Parameters
from delegatec.edge.affine import AFFINE, limits
from delegatec.edge.analysis.quantized import quantized
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of

_PER_TENSOR: Final = frozenset(
    getattr(getattr(quantized, f"{verb}_per_tensor"), variant)
    for verb in ("quantize", "dequantize")
    for variant in ("default", "tensor", "tensor2")
)
_PER_CHANNEL: Final = frozenset(
    {quantized.quantize_per_channel.default, quantized.dequantize_per_channel.default}
)
_AFFINE: Final = frozenset({AFFINE.quantize_affine.default, AFFINE.dequantize_affine.default})
CALLS: Final = _PER_TENSOR | _PER_CHANNEL | _AFFINE
QUANTIZE: Final = frozenset(each for each in CALLS if each._opname.startswith("quantize"))
DEQUANTIZE: Final = CALLS - QUANTIZE


def parameters_of(node: Node, constant: Callable[[Node], Tensor | None]) -> Parameters | None:
    """Returns the parameters of a call in `CALLS`; None if they are not constant, or have several zeros.

    Levels of uint8 count as int8, from -128. NaN becomes 0, as in eager mode on the CPU.
    """
    bound = bind(node)
    axis = None
    if node.target in _AFFINE:
        levels = bound["input"]
        dtype = bound["output_dtype"] if node.target in QUANTIZE else dtype_of(levels)
        scales, zeros = bound["scale"], bound["zero_point"]
        low, high = limits(dtype, bound["quant_min"], bound["quant_max"])
        counts = [a // b for a, b in zip(shape_of(levels), bound["block_size"], strict=True)]
        axes = [dim for dim, count in enumerate(counts) if count > 1]
        if len(axes) > 1 or any(counts[dim] != shape_of(levels)[dim] for dim in axes):
            return None
        axis = axes[0] if axes else None
    else:
        dtype, low, high = bound["dtype"], bound["quant_min"], bound["quant_max"]
        is_single = node.target in _PER_TENSOR
        scales, zeros = (
            (bound["scale"], bound["zero_point"]) if is_single else (bound["scales"], bound["zero_points"])
        )
        axis = None if is_single else positive(bound["axis"], len(shape_of(bound["input"])))
    found = [_numbers(each, constant) for each in (scales, 0 if zeros is None else zeros)]
    if found[0] is None or found[1] is None or len({*found[1]}) != 1:
        return None
    scale, zero, undefined = found[0], int(found[1][0]), 0
    if len(scale) == 1 and axis is not None:
        scale = scale * shape_of(bound["input"])[axis]
    if not all(0 < each < float("inf") for each in scale):
        return None
    if dtype == torch.uint8:
        dtype, zero, low, high, undefined = torch.int8, zero - 128, low - 128, high - 128, -128
    return Parameters(dtype, tuple(scale), zero, int(low), int(high), axis, undefined)


def _numbers(value: Any, constant: Callable[[Node], Tensor | None]) -> list[float] | None:
    if not isinstance(value, Node):
        return [float(value)]
    found = constant(value)
    return None if found is None else [float(each) for each in found.flatten().tolist()]
