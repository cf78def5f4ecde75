# SPDX-License-Identifier: Apache-2.0
"""Ratios of scales that the runtime's int8 operations compute with.

Source: the checks and preconditions of XNNPACK's operators (revision 1adaa7c709); those of release builds are
fewer, and then results are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from delegatec.backends.xnnpack.quantized.scales import Scale


def fits_sum(operands: Sequence[Scale], result: Scale) -> bool:
    """Whether Add and Subtract compute with the scales."""
    return all(2.0**-10 <= each.step / result.step < 2.0**8 for each in operands)


def fits_product(operands: Sequence[Scale], result: Scale) -> bool:
    """Whether Multiply computes with the scales."""
    first, second = operands
    return 2.0**-16 <= first.step * second.step / result.step < 2.0**8


def fits_choice(operands: Sequence[Scale], result: Scale) -> bool:
    """Whether Convert, Minimum and Maximum compute with the scales."""
    return all(2.0**-8 <= each.step / result.step <= 2.0**7 for each in operands)


def fits_layer(operand: Scale, steps: torch.Tensor, result: Scale) -> bool:
    """Whether a layer computes with the scales.

    Args:
        operand: of its input.
        steps: of its filter, one per channel.
        result: of its result.
    """
    low, high = (float(each) for each in steps.to(torch.float64).aminmax())
    ratio = operand.step / result.step
    return low * ratio >= 2.0**-32 and high * ratio < 2.0**8
