# SPDX-License-Identifier: Apache-2.0
"""Integral values, signs, and conversion to integers are exact."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.convert import converted
from delegatec.backends.arm.integer.testing import (
    CALLS,
    calls,
    check,
    dequantize,
    integers,
    quantize,
    quantized_values,
)
from delegatec.backends.common.testing import Call
from delegatec.edge import to_edge
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.interpret import interpret

aten = torch.ops.aten

_ROUNDED: Final = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "sign": torch.sign,
}
_INPUT: Final = {torch.int8: (0.3, -7), torch.int16: (0.0625, 3)}


@pytest.mark.parametrize("dtype", _INPUT)
@pytest.mark.parametrize("name", _ROUNDED)
def test_integral_values(name: str, dtype: torch.dtype) -> None:
    """An int16 table would interpolate between the steps of the function."""
    scale, zero = _INPUT[dtype]

    def function(x: torch.Tensor) -> Any:
        return quantize(_ROUNDED[name](dequantize(x, scale, zero)), 0.25, 2, dtype)

    x = quantized_values(4, 300, dtype=dtype) // (1 if dtype == torch.int8 else 16)
    program = check(function, x, tolerance=0)
    assert calls(program).count(TOSA.table.default) == (dtype == torch.int8)


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc"])
def test_integral_values_of_sums(name: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        total = dequantize(x, 0.125) + dequantize(y, 0.0625, 5)
        return quantize(_ROUNDED[name](total), 0.5, 2, torch.int16)

    check(function, quantized_values(4, 300), quantized_values(4, 300, seed=1), tolerance=0)


@pytest.mark.parametrize("to", [torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", _INPUT)
def test_integers_are_truncated(dtype: torch.dtype, to: torch.dtype) -> None:
    scale, zero = _INPUT[dtype]
    x = quantized_values(4, 300, dtype=dtype) // (1 if dtype == torch.int8 else 16)
    program = check(lambda x: dequantize(x, scale, zero).to(to), x, tolerance=0)
    assert (TOSA.table.default in calls(program)) == (dtype == torch.int8)


def test_integers_of_a_function() -> None:
    check(
        lambda x: (dequantize(x, 0.5, 3).abs() * 2 + 0.25).to(torch.int32),
        quantized_values(4, 300),
        tolerance=0,
    )


def test_integers_that_saturate() -> None:
    """Results out of range, which torch does not define."""
    x = torch.tensor([-128, 0, 127], dtype=torch.int8)
    program = integers(lambda x: dequantize(x, 2.5).to(torch.int8), (x,))
    assert interpret(program, (x,))[0].tolist() == [-128, 0, 127]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: dequantize(x, 1e8).floor().to(torch.int32), "integers up to"),
        (lambda x: (dequantize(x, 500.0) * 2).sin().mul(3e5).to(torch.int32), "a function with integers"),
        (lambda x: dequantize(x, 0.5).to(torch.uint8), "torch.uint8"),
    ],
)
def test_what_is_not_exact_is_not_converted(function: Any, reason: str) -> None:
    x = quantized_values(4, 300, dtype=torch.int16 if "up to" in reason else torch.int8)
    program = to_edge(torch.export.export(Call(function), (x,)), preserve=CALLS)
    assert reason in "".join(converted(program, Facts({})).reasons.values())
