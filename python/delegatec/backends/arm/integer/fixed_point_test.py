# SPDX-License-Identifier: Apache-2.0
"""Factors as multipliers and shifts within the limits of RESCALE."""

from __future__ import annotations

import math

import pytest

from delegatec.backends.arm.integer.fixed_point import fixed_point


@pytest.mark.parametrize("bits", [31, 15])
@pytest.mark.parametrize("factor", [1.0, 0.3, 1 - 2.0**-40, 12345.678, 2.0**-30, 3 * 2.0**-40])
def test_factors(factor: float, bits: int) -> None:
    found = fixed_point([factor, factor], bits)
    if bits == 15 and factor > 2**13:
        assert found is None
        return
    assert found is not None
    (multiplier, _), (shift, _) = found.multiplier, found.shift
    assert 2 <= shift <= 62 and 0 < multiplier < 1 << bits
    precision = max(2.0**-bits, 2.0**-63 / factor)
    assert math.ldexp(multiplier, -shift) == pytest.approx(factor, rel=precision)


@pytest.mark.parametrize("factor", [2.0**30, 0.0, -1.0, math.inf, math.nan])
def test_factors_out_of_range(factor: float) -> None:
    assert fixed_point([0.5, factor]) is None
