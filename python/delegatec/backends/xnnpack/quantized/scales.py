# SPDX-License-Identifier: Apache-2.0
"""Scales of int8 that the runtime computes with."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.quantization.constant import SHIFT
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.quantization.scale import Quantization

LEAST: Final = -128
MOST: Final = 127
FULL_RANGE: Final = {torch.int8: (LEAST, MOST), torch.uint8: (0, 255)}
"""The least and the largest quantized value of each dtype that the runtime has."""
_SCALES: Final = (2.0**-60, 2.0**60)
"""Below and above all scales whose inverses and products float32 represents."""


def are_normal_scales(scales: torch.Tensor) -> bool:
    """Whether float32 represents the inverses and products of scales."""
    least, most = _SCALES
    return bool(((scales > least) & (scales < most)).all())


def is_normal_scale(scale: float) -> bool:
    """Whether float32 represents the inverse and products of a scale."""
    least, most = _SCALES
    return least < scale < most


def int8(scale: float, zero_point: int = 0) -> Quantization:
    """Returns a scale of int8 of the full range."""
    return Quantization(torch.int8, (scale,), zero_point, LEAST, MOST)


SHARES: Final = int8(1 / 256, LEAST)
"""The scale of floats from 0 to 1 that the model does not quantize, such as factors inside an activation."""


def scale_of(node: Node) -> Quantization | None:
    """Returns the scale of a call that quantizes or dequantizes; None for values that cannot be int8.

    Quantized values may be between other bounds than those of the dtype, see `bounds.clamp_quantized_values`.
    """
    if node.target not in (QUANTIZE, DEQUANTIZE):
        return None
    bound = bind(node)
    scale, zero_point, dtype = bound["scale"], bound["zero_point"], bound["dtype"]
    if not is_normal_scale(scale):
        return None
    least, most = FULL_RANGE.get(dtype, (0, -1))
    if not least <= bound["quant_min"] < bound["quant_max"] <= most:
        return None
    zero_point -= SHIFT if dtype == torch.uint8 else 0
    return int8(scale, zero_point) if LEAST <= zero_point <= MOST else None
