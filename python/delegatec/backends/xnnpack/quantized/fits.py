# SPDX-License-Identifier: Apache-2.0
"""Whether the runtime's int8 operations compute with some scales."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from delegatec.backends.xnnpack import ratios
from delegatec.backends.xnnpack.ratios import fits
from delegatec.edge.quantization.scale import Quantization


def fits_sum(operands: Sequence[Quantization], result: Quantization) -> bool:
    """Whether Add and Subtract compute with the scales."""
    return all(fits(each.scale / result.scale, ratios.SUM) for each in operands)


def fits_product(operands: Sequence[Quantization], result: Quantization) -> bool:
    """Whether Multiply computes with the scales."""
    first, second = operands
    return fits(first.scale * second.scale / result.scale, ratios.PRODUCT)


def fits_choice(operands: Sequence[Quantization], result: Quantization) -> bool:
    """Whether Convert, Minimum and Maximum compute with the scales."""
    return all(fits(each.scale / result.scale, ratios.CONVERSION) for each in operands)


def fits_slope(operand: Quantization, slope: float, result: Quantization) -> bool:
    """Whether LeakyRelu computes with the scales and its slope."""
    ratio = operand.scale / result.scale
    return fits(ratio, ratios.CONVERSION) and fits(ratio * slope, ratios.CONVERSION)


def fits_layer(operand: Quantization, scales: torch.Tensor, result: Quantization) -> bool:
    """Whether a layer computes with the scales.

    Args:
        operand: of its input.
        scales: of its filter, one per channel.
        result: of its result.
    """
    ratio = operand.scale / result.scale
    return all(fits(float(each) * ratio, ratios.LAYER) for each in scales.to(torch.float64).aminmax())
