# SPDX-License-Identifier: Apache-2.0
"""Positive factors as a multiplier and a shift, as RESCALE has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

_LEAST_SHIFT: Final = 2
_MOST_SHIFT: Final = 62


class FixedPoint(NamedTuple):
    """multiplier / 2^shift for each factor.

    Attributes:
        multiplier: of `bits` bits.
        shift: within the limits of RESCALE.
        bits: 31, or 15 for int48 values.
    """

    multiplier: list[int]
    shift: list[int]
    bits: int = 31

    @property
    def limit(self) -> int:
        """The bound of values that RESCALE multiplies by all of the factors."""
        # the result for an int48 value fits int32
        return 1 << (min(self.shift) + (-1 if self.bits == 31 else 16))


def fixed_point(factors: Sequence[float], bits: int = 31) -> FixedPoint | None:
    """Returns factors with the precision of a signed multiplier; None if one is out of range.

    Args:
        factors: positive floats.
        bits: of a multiplier, without the sign: 31, or 15 for int48 values.
    """
    multipliers, shifts = [], []
    for factor in factors:
        if not 0 < factor < math.inf:
            return None
        fraction, exponent = math.frexp(factor)
        multiplier, shift = round(fraction * (1 << bits)), bits - exponent
        if multiplier == 1 << bits:
            multiplier, shift = multiplier >> 1, shift - 1
        if shift > _MOST_SHIFT:
            multiplier, shift = round(math.ldexp(factor, _MOST_SHIFT)), _MOST_SHIFT
        if shift < _LEAST_SHIFT:
            return None
        multipliers.append(multiplier)
        shifts.append(shift)
    return FixedPoint(multipliers, shifts, bits)
