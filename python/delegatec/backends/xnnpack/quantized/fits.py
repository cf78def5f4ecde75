# SPDX-License-Identifier: Apache-2.0
"""Whether the runtime's int8 operations compute with some scales."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from delegatec.backends.xnnpack import ratios
from delegatec.backends.xnnpack.quantized.scales import Scale
from delegatec.backends.xnnpack.ratios import fits


def fits_sum(operands: Sequence[Scale], result: Scale) -> bool:
    """Whether Add and Subtract compute with the scales."""
    return all(fits(each.step / result.step, ratios.SUM) for each in operands)


def fits_product(operands: Sequence[Scale], result: Scale) -> bool:
    """Whether Multiply computes with the scales."""
    first, second = operands
    return fits(first.step * second.step / result.step, ratios.PRODUCT)


def fits_choice(operands: Sequence[Scale], result: Scale) -> bool:
    """Whether Convert, Minimum and Maximum compute with the scales."""
    return all(fits(each.step / result.step, ratios.CONVERSION) for each in operands)


def fits_slope(operand: Scale, slope: float, result: Scale) -> bool:
    """Whether LeakyRelu computes with the scales and its slope."""
    ratio = operand.step / result.step
    return fits(ratio, ratios.CONVERSION) and fits(ratio * slope, ratios.CONVERSION)


def fits_layer(operand: Scale, steps: torch.Tensor, result: Scale) -> bool:
    """Whether a layer computes with the scales.

    Args:
        operand: of its input.
        steps: of its filter, one per channel.
        result: of its result.
    """
    ratio = operand.step / result.step
    return all(fits(float(each) * ratio, ratios.LAYER) for each in steps.to(torch.float64).aminmax())
