# SPDX-License-Identifier: Apache-2.0
"""Functions of one int16 value that several calls compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as f

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.testing import calls, dequantize, integers, quantized_values
from delegatec.edge.interpret import interpret

_INT16 = (0, -32768, 32767, torch.int16)


def _signal_to_noise(function: Callable[[torch.Tensor], torch.Tensor], scale: float) -> tuple[float, int]:
    """Returns the ratio in dB, and the number of tables; inputs have a part of the range of int16."""
    x = quantized_values(4, 500, dtype=torch.int16).clamp(max=24000)
    step = float(function(dequantize(x, scale)).abs().max()) / 32767

    def quantized(x: torch.Tensor) -> Any:
        return torch.ops.quantized_decomposed.quantize_per_tensor(
            function(dequantize(x, scale)), step, *_INT16
        )

    program = integers(quantized, (x,))
    (found,) = interpret(program, (x,))
    wanted = function(dequantize(x, scale).double()) / step
    noise = (found.double() - wanted).square().mean()
    tables = [node for node in program.graph.nodes if node.target is TOSA.table.default]
    return 10 * math.log10(float(wanted.square().mean() / noise)), len(tables)


@pytest.mark.parametrize("scale", [3e-6, 3e-5, 2.5e-4])
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(f.mish, id="mish"),
        pytest.param(f.softplus, id="softplus"),
        pytest.param(lambda x: f.softplus(x, 2.0), id="softplus with a factor"),
        pytest.param(f.logsigmoid, id="logsigmoid"),
        pytest.param(lambda x: f.gelu(x, approximate="tanh"), id="gelu by tanh"),
    ],
)
def test_are_one_table(function: Callable[[torch.Tensor], torch.Tensor], scale: float) -> None:
    ratio, tables = _signal_to_noise(function, scale)
    assert ratio > 76
    assert tables == 1


@pytest.mark.parametrize("name", ["mish", "softplus", "logsigmoid"])
def test_where_lines_are_not_precise_arithmetic_is(name: str) -> None:
    """Exponentials and quotients have the bounds that follow from signs: 1 for exp(-|x|)."""
    ratio, tables = _signal_to_noise(getattr(f, name), 1e-2)
    assert ratio > 76
    assert tables > 1


@pytest.mark.parametrize("name", ["gelu", "silu", "selu", "mish"])
def test_lines_to_knots_beyond_the_range_of_results(name: str) -> None:
    ratio, _ = _signal_to_noise(getattr(f, name), 1e-4)
    assert ratio > 76


def test_arithmetic_alone_is_not_a_table() -> None:
    def function(x: torch.Tensor) -> Any:
        y = dequantize(x, 1e-4)
        return torch.ops.quantized_decomposed.quantize_per_tensor((y * 2 + 1).abs(), 2e-4, *_INT16)

    assert TOSA.table.default not in calls(integers(function, (quantized_values(4, 5, dtype=torch.int16),)))
