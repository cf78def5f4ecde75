# SPDX-License-Identifier: Apache-2.0
"""Ratios of scales that the runtime's multipliers express, for the compiler and for checks of blobs.

Source: the checks and preconditions of XNNPACK's operators (revision 1adaa7c709); those of release builds are
fewer, and then results are wrong.
"""

from __future__ import annotations

from typing import Final

Bounds = tuple[float, float]
"""The least ratio, and the exclusive upper bound."""

SUM: Final[Bounds] = (2.0**-10, 2.0**8)
"""Scale of an operand of Add and Subtract, divided by that of the result."""
PRODUCT: Final[Bounds] = (2.0**-16, 2.0**8)
"""Product of the scales of both operands, divided by that of the result."""
CONVERSION: Final[Bounds] = (2.0**-8, 2.0**7)
"""Scale of the operand divided by that of the result; for LeakyRelu also multiplied by the slope."""
LAYER: Final[Bounds] = (2.0**-32, 2.0**8)
"""Product of the scales of input and filter, divided by that of the result."""


def fits(ratio: float, bounds: Bounds) -> bool:
    """Returns whether a multiplier expresses a ratio, whose sign does not matter."""
    return bounds[0] <= abs(ratio) < bounds[1]
