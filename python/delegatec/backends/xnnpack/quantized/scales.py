# SPDX-License-Identifier: Apache-2.0
"""Scales of int8 values, and the calls that quantize and dequantize with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.quantized import quantized
from delegatec.edge.arguments import bind

QUANTIZE: Final = quantized.quantize_per_tensor.default
DEQUANTIZE: Final = quantized.dequantize_per_tensor.default

LEAST: Final = -128
MOST: Final = 127
WHOLE: Final = {torch.int8: (LEAST, MOST), torch.uint8: (0, 255)}
"""The least and the largest level of each dtype that the runtime has."""
SHIFT: Final = 128
"""The difference between uint8 and int8 levels."""
_STEPS: Final = (2.0**-60, 2.0**60)
"""Below and above all steps whose inverses and products float32 holds."""


def are_steps(scales: torch.Tensor) -> bool:
    """Whether float32 holds the inverses and products of scales."""
    least, most = _STEPS
    return bool(((scales > least) & (scales < most)).all())


def is_step(scale: float) -> bool:
    """Whether float32 holds the inverse and products of a scale."""
    least, most = _STEPS
    return least < scale < most


@dataclass(frozen=True)
class Scale:
    """What the levels of an int8 value stand for: (level - zero) * step.

    Attributes:
        step: positive.
        zero: the level of 0.0.
    """

    step: float
    zero: int

    def level(self, number: float) -> float:
        """Returns the level that stands for a number; not an integer if none does."""
        return number / self.step + self.zero

    def nearest(self, number: float) -> float:
        """Returns the number that the level nearest to a number stands for."""
        level = min(max(self.level(number), LEAST), MOST)
        return (round(level) - self.zero) * self.step

    def holds(self, number: float) -> bool:
        """Whether a level stands for a number, within the precision of float32."""
        level = self.level(number)
        return LEAST <= round(level) <= MOST and abs(level - round(level)) < 1e-4


SHARES: Final = Scale(1 / 256, LEAST)
"""The scale of numbers from 0 to 1 that the model does not quantize, such as factors inside an activation."""


def scale_of(node: Node) -> Scale | None:
    """Returns the scale of a call that quantizes or dequantizes; None for levels that cannot be int8.

    They may be between other bounds than those of the dtype, see `bounds.limit_levels`.
    """
    if node.target not in (QUANTIZE, DEQUANTIZE):
        return None
    bound = bind(node)
    step, zero, dtype = bound["scale"], bound["zero_point"], bound["dtype"]
    if not is_step(step):
        return None
    least, most = WHOLE.get(dtype, (0, -1))
    if not least <= bound["quant_min"] < bound["quant_max"] <= most:
        return None
    if dtype == torch.uint8:
        zero -= SHIFT
    return Scale(step, zero) if LEAST <= zero <= MOST else None
