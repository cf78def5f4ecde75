# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest
import torch

from delegatec.samples.compare import compare

NAN, INF = math.nan, math.inf


def _compare(actual: list[float], expected: list[float], atol: float = 0.0, rtol: float = 0.0):  # type: ignore[no-untyped-def]
    return compare(torch.tensor(actual), torch.tensor(expected), atol=atol, rtol=rtol)


def test_equal_tensors() -> None:
    result = _compare([1.0, NAN, INF, -INF, 0.0], [1.0, NAN, INF, -INF, -0.0])
    assert result.passed and result.max_abs == 0 and result.snr_db == INF and result.cosine == 1


def test_tolerances_add_up() -> None:
    assert _compare([102.9], [100.0], atol=1, rtol=0.02).passed
    assert not _compare([103.1], [100.0], atol=1, rtol=0.02).passed


@pytest.mark.parametrize("actual", [NAN, INF, -INF])
def test_nonfinite_values_never_equal_a_number(actual: float) -> None:
    result = _compare([1.0, actual], [1.0, 2.0], atol=1e30, rtol=1e30)
    assert not result.passed and result.max_abs == INF and result.failures == 1
    assert result.worst_index == (1,) and result.snr_db == -INF


def test_a_number_never_passes_for_an_infinity() -> None:
    assert not _compare([1.0], [INF], atol=1.0, rtol=1.0).passed
    assert not _compare([-INF], [INF], atol=1.0, rtol=1.0).passed


def test_integers_are_compared_as_integers() -> None:
    big = 2**53
    assert not compare(torch.tensor([big + 1]), torch.tensor([big]), atol=0, rtol=0).passed
    assert not compare(torch.tensor([True]), torch.tensor([False]), atol=0, rtol=0).passed
    assert compare(torch.tensor([3]), torch.tensor([2]), atol=1, rtol=0).passed


def test_worst_element_is_the_one_furthest_beyond_its_tolerance() -> None:
    expected = torch.tensor([[1000.0, 1.0], [1.0, 1.0]])
    actual = torch.tensor([[1005.0, 1.0], [1.5, 1.1]])
    result = compare(actual, expected, atol=0.0, rtol=0.01)
    assert (result.worst_index, result.worst_actual, result.worst_expected) == ((1, 0), 1.5, 1.0)
    assert (result.max_abs, result.failures, result.elements) == (5.0, 2, 4)
    assert result.max_rel == pytest.approx(0.5)


def test_signal_to_noise() -> None:
    result = _compare([1.0, 1.1], [1.0, 1.0], atol=1)
    assert result.snr_db == pytest.approx(10 * math.log10(2 / 0.01), abs=1e-3)


def test_a_tolerance_that_zeros_would_meet() -> None:
    assert _compare([1e-9], [2e-9], atol=1e-3).vacuous
    assert not _compare([1.0], [1.0], atol=1e-3).vacuous
    assert not _compare([0.0], [0.0], atol=1e-3).vacuous


def test_no_elements() -> None:
    assert compare(torch.empty(0, 3), torch.empty(0, 3), atol=0, rtol=0).passed
