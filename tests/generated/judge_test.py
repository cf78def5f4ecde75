# SPDX-License-Identifier: Apache-2.0
"""What is expected of results: neither more than a backend promises, nor less."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.generated.quantization_noise import QuantizationNoise, signal_to_noise
from tests.generated.rounding import RandomRounding
from tests.generated.targets import LOWERINGS, PLAIN

X = torch.linspace(-2, 2, 63)


def _least(function: Callable[[], Tensor]) -> float:
    """Returns the least ratio of a result without noise and of those with noise."""
    found, widths = [], dict[int, float]()
    for seed in (None, 1, 2, 3):
        with QuantizationNoise(255, widths, seed):
            found.append(function())
    return min(signal_to_noise(found[0], each) for each in found[1:])


@pytest.mark.parametrize(
    "compare",
    [
        pytest.param(lambda x: x == -0.4999, id="a number"),
        pytest.param(lambda x: x != -0.4999, id="not a number"),
        pytest.param(lambda x: torch.isin(x, -0.4999), id="one of several"),
        pytest.param(lambda x: x == x.flip(0) * 1.0001, id="a tensor"),
    ],
)
def test_rounding_may_make_values_equal(compare: Callable[[Tensor], Tensor]) -> None:
    assert _least(lambda: compare(X.sin() * 2)) < 0


@pytest.mark.parametrize("compare", [lambda x: x == 1, lambda x: x != 1, lambda x: torch.isin(x, 1)])
def test_a_mask_is_a_mask(compare: Callable[[Tensor], Tensor]) -> None:
    mask = (X > 0).float()
    assert _least(lambda: compare(mask)) == torch.inf


def test_an_instance_norm_is_computed_by_parts() -> None:
    quiet, wide = torch.randn(1, 2, 64) / 50, torch.randn(1, 2, 64) * 2
    found = _least(lambda: torch.nn.functional.instance_norm(torch.cat([quiet, wide], 1) + 1))
    assert found < 30


def test_a_norm_is_computed_by_squares() -> None:
    assert _least(lambda: torch.linalg.vector_norm(X * 1e-6)) < 10
    assert _least(lambda: torch.linalg.vector_norm(X)) > 30


def test_a_deviation_is_the_root_of_a_variance() -> None:
    quiet, wide = torch.randn(64) / 50, torch.randn(64) * 2
    assert _least(lambda: torch.stack([quiet, wide]).std(1)[:1]) < 20


def test_a_small_number_next_to_a_large_one_is_coarse() -> None:
    assert _least(lambda: torch.tensor([0.1, 100.0])[:1] * X) < 0
    assert _least(lambda: torch.tensor([25.0, 100.0])[:1] * X) > 30


def test_integers_next_to_floats_are_rounded() -> None:
    integers = torch.arange(8)
    assert _least(lambda: torch.cat([integers, X]).int()) < 30
    assert _least(lambda: torch.cat([integers, integers]).int()) == torch.inf


@pytest.mark.parametrize("name", LOWERINGS)
def test_a_quantized_target_keeps_what_its_backend_keeps(name: str) -> None:
    target = LOWERINGS[name]
    assert target.keeps_int64 == PLAIN[target.backend].keeps_int64


def test_sums_over_sizes_that_depend_on_data_may_be_float32() -> None:
    x = torch.randn(4, 3, dtype=torch.float64)
    with RandomRounding(0, 0.0) as mode:
        x[:2].sum(0)
        assert not mode.is_coarse
        x[torch.tensor([0, 2])].sum(0)
        assert not mode.is_coarse
        x[torch.tensor([True, False, True, True])].sum(0)
        assert mode.is_coarse


def test_parts_of_a_product_of_three_factors_may_overflow() -> None:
    x, weight = torch.tensor([[1e30, 1e-30]]), torch.tensor([[[1e15, 1.0], [1.0, 1.0]]])
    with RandomRounding(1, 0.0):
        found = torch.nn.functional.bilinear(x, x.flip(1), weight)
    assert bool(found.isnan().all())
