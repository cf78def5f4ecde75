# SPDX-License-Identifier: Apache-2.0
"""Calls that cannot be computed with integers stay in float, with a reason."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from delegatec.backends.arm.integer.convert import converted
from delegatec.backends.arm.integer.testing import (
    CALLS,
    Function,
    dequantize,
    quantize,
    quantized_values,
)
from delegatec.backends.common.testing import Call, floats
from delegatec.edge import to_edge
from delegatec.edge.analysis.facts import Facts


def test_a_float_island_has_a_reason() -> None:
    """The call that cannot be converted, and its users."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return quantize(dequantize(x, 0.01) + y, 0.01)

    program = to_edge(torch.export.export(Call(function), (quantized_values(4), floats(4))), preserve=CALLS)
    found = converted(program, Facts({}))
    assert {node.name: reason for node, reason in found.reasons.items()} == {
        "add": "args_1 is not quantized",
        "quantize_per_tensor": "add is not quantized",
    }


def _reasons(function: Function, x: torch.Tensor) -> set[str]:
    program = to_edge(torch.export.export(Call(function), (x,)), preserve=CALLS)
    return {*converted(program, Facts({})).reasons.values()}


def test_values_that_lose_their_bits_stay_in_float() -> None:
    """The bound is squared in each step, and far beyond all values after the last, as in a determinant."""

    def function(x: torch.Tensor) -> Any:
        value = dequantize(x, 0.1)
        for _ in range(4):
            value = value - value * value.flip(0)
        return quantize(value, 0.01)

    assert any("of its range remain" in reason for reason in _reasons(function, quantized_values(7)))


@pytest.mark.parametrize("compare", [torch.gt, torch.lt, torch.ge, torch.le, torch.eq, torch.ne])
def test_comparisons_with_nan_stay_in_float(compare: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        return compare(dequantize(x, 0.01).sum() * 0.5, math.nan)

    assert "a comparison with NaN" in _reasons(function, quantized_values(20))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(torch.tan, id="poles"),
        pytest.param(lambda x: torch.fmod(x, 0.5), id="jumps"),
        pytest.param(lambda x: torch.sin(x * 100), id="many periods"),
    ],
)
def test_what_lines_between_int16_do_not_follow_stays_in_float(function: Function) -> None:
    """A line that leads across a pole is far from the function on both sides."""

    def quantized(x: torch.Tensor) -> Any:
        return quantize(function(dequantize(x, 1e-4)), 2e-4, dtype=torch.int16)

    x = quantized_values(4, 50, dtype=torch.int16)
    assert any("lines between 513 values" in reason for reason in _reasons(quantized, x))


def test_a_function_with_two_results_is_no_table() -> None:
    def quantized(x: torch.Tensor) -> Any:
        return quantize(torch.frexp(dequantize(x, 1e-4))[0], 2e-4, dtype=torch.int16)

    assert _reasons(quantized, quantized_values(4, 50, dtype=torch.int16))
