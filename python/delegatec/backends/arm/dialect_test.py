# SPDX-License-Identifier: Apache-2.0
"""Tests for `dialect`, with results of the TOSA reference model."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from delegatec.backends.arm.dialect import TOSA

HALVES = torch.tensor([-5, -3, -1, 0, 1, 3, 5], dtype=torch.int32)


def test_halves_are_rounded_up() -> None:
    """-2.5 becomes -2 and 2.5 becomes 3."""
    result = TOSA.rescale(HALVES, [1 << 30], [31], 0, 0, -1, False, "single", torch.int8)
    assert result.dtype == torch.int8
    assert result.tolist() == [-2, -1, 0, 0, 1, 2, 3]


def test_double_rounding_is_away_from_zero() -> None:
    """It adds half of 2^31 with the sign of the value, if the shift is beyond 31."""
    values = torch.tensor([-6, -2, 2, 6], dtype=torch.int32)
    args = ([1 << 30], [32], 0, 0, -1, False)
    assert TOSA.rescale(values, *args, "double", torch.int32).tolist() == [-2, -1, 1, 2]
    assert TOSA.rescale(values, *args, "single", torch.int32).tolist() == [-1, 0, 1, 2]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_results_saturate(dtype: torch.dtype) -> None:
    """The zero point is added first."""
    values = torch.tensor([-(1 << 20), 1 << 20], dtype=torch.int32)
    limits = torch.iinfo(dtype)
    result = TOSA.rescale(values, [1 << 30], [30], 0, 5, -1, False, "single", dtype)
    assert result.tolist() == [limits.min, limits.max]


def test_a_channel_has_its_own_scale() -> None:
    """Multipliers apply along an axis; the zero point is subtracted first."""
    values = torch.full((2, 3), 10, dtype=torch.int8)
    result = TOSA.rescale(values, [1 << 30, 1 << 30], [30, 29], 2, 1, 0, True, "single", torch.int16)
    assert result.tolist() == [[9] * 3, [17] * 3]


def test_int48_has_multipliers_of_16_bits() -> None:
    """Products are exact."""
    result = TOSA.rescale(
        torch.tensor([-(1 << 38), 1 << 38]), [1 << 14], [40], 0, 0, -1, False, "single", torch.int32
    )
    assert result.tolist() == [-(1 << 12), 1 << 12]


def test_table_of_int8() -> None:
    """The first entry is that of -128."""
    entries = torch.arange(127, -129, -1, dtype=torch.int8)
    values = torch.tensor([[-128, 0, 127]], dtype=torch.int8)
    assert TOSA.table(values, entries).tolist() == [[127, -1, -128]]


def test_table_of_int16_is_interpolated() -> None:
    """Results have 7 bits after the point."""
    entries = torch.arange(-256, 257, dtype=torch.int16) * 3
    values = torch.tensor([-32768, -1, 0, 64, 32767], dtype=torch.int16)
    result = TOSA.table(values, entries)
    assert result.dtype == torch.int32
    assert result.tolist() == [value * 3 for value in values.tolist()]


@pytest.mark.parametrize(("dtype", "wide"), [(torch.int8, torch.int32), (torch.int16, torch.int64)])
def test_matmul(dtype: torch.dtype, wide: torch.dtype) -> None:
    """Zero points are subtracted."""
    x = torch.tensor([[[1, 2], [3, 4]]], dtype=dtype)
    y = torch.tensor([[[5], [7]]], dtype=dtype)
    result = TOSA.matmul(x, y, 1, 2)
    assert result.dtype == wide
    assert result.tolist() == [[[5], [21]]]


def test_fake_tensors() -> None:
    """Shapes and dtypes are those of results."""
    with FakeTensorMode():
        x = torch.empty((2, 3, 4), dtype=torch.int8)
        y = torch.empty((2, 4, 5), dtype=torch.int8)
        assert TOSA.matmul(x, y, 0, 0).shape == (2, 3, 5)
        assert TOSA.table(x, torch.empty(256, dtype=torch.int8)).dtype == torch.int8
        rescaled = TOSA.rescale(x, [1 << 30], [30], 0, 0, -1, False, "single", torch.int32)
        assert (rescaled.shape, rescaled.dtype) == (x.shape, torch.int32)
