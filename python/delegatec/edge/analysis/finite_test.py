# SPDX-License-Identifier: Apache-2.0
"""What the analysis says of minus infinity is right wherever it says anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.analysis.finite import never_minus_infinity
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, edge

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
FLAGS = torch.tensor([[True, False, True]])
LOWEST = torch.finfo(torch.float32).min


def _result(program: EdgeProgram) -> Any:
    results: Any = program.output_node().args[0]
    return results[-1]


def _is_proved(function: Callable[..., Any], *inputs: torch.Tensor, **buffers: torch.Tensor) -> bool:
    model = Function(function, **buffers) if buffers else function
    program = edge(model, *inputs, passes=())
    return never_minus_infinity(program, _result(program))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, p, i: i * 2, id="integers"),
        pytest.param(lambda x, p, i: i.to(torch.float32), id="converted integers"),
        pytest.param(lambda x, p, i: torch.where(p, 0.0, LOWEST), id="where"),
        pytest.param(lambda x, p, i: torch.where(p, torch.tanh(x), -1e4), id="where of bounded"),
        pytest.param(lambda x, p, i: torch.zeros(2, 3).masked_fill(p, -1e9), id="masked_fill"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float32)) * LOWEST, id="scaled complement"),
        pytest.param(lambda x, p, i: (1 - p[:, None].expand(1, 2, 3).float()) * -10000, id="of a view"),
        pytest.param(lambda x, p, i: torch.sigmoid(x)[:, None].permute(0, 2, 1)[..., 0], id="views"),
        pytest.param(lambda x, p, i: torch.full((2,), -5.0).to(torch.float64), id="wider"),
        pytest.param(lambda x, p, i: torch.sin(x), id="sin"),
    ],
)
def test_proved(function: Callable[..., Any]) -> None:
    assert _is_proved(function, X, FLAGS, torch.arange(3))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, p, i: x * 1, id="an input"),
        pytest.param(lambda x, p, i: torch.log(torch.sigmoid(x)), id="not seen through"),
        pytest.param(lambda x, p, i: torch.where(p, 0.0, -torch.inf), id="where with infinity"),
        pytest.param(lambda x, p, i: torch.where(p, x, 0.0), id="where with an input"),
        pytest.param(lambda x, p, i: torch.zeros(2, 3).masked_fill(p, -torch.inf), id="masked_fill"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float32)) * -torch.inf, id="scaled by infinity"),
        pytest.param(lambda x, p, i: (1 - i.to(torch.float32)) * LOWEST, id="not of zeros and ones"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float32)) * x, id="scaled by an input"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float16)) * -1e9, id="a factor beyond the dtype"),
        pytest.param(lambda x, p, i: torch.full((2,), -1e9).to(torch.float16), id="narrower"),
        pytest.param(lambda x, p, i: torch.full((2,), torch.nan), id="nan"),
    ],
)
def test_not_proved(function: Callable[..., Any]) -> None:
    assert not _is_proved(function, X, FLAGS, torch.arange(3))


@pytest.mark.parametrize(
    ("constant", "proved"),
    [
        (torch.tensor([-1e30, 5.0]), True),
        (torch.tensor([torch.inf, 0.0]), True),
        (torch.zeros(0), True),
        (torch.tensor([-torch.inf, 0.0]), False),
        (torch.tensor([torch.nan, 0.0]), False),
    ],
    ids=str,
)
def test_constants(constant: torch.Tensor, proved: bool) -> None:
    assert _is_proved(lambda self, x: (x + 1, self.c[None].expand(2, -1)), X, c=constant) == proved


def test_a_buffer_that_is_written_to_may_become_anything() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        seen: torch.Tensor = self.c[None].expand(2, -1)
        self.c.copy_(x[0])
        return seen

    assert not _is_proved(model, X, c=torch.zeros(3))


def test_numbers() -> None:
    program = edge(torch.relu, X)
    assert never_minus_infinity(program, 0) and never_minus_infinity(program, -1e300)
    assert not never_minus_infinity(program, -torch.inf) and not never_minus_infinity(program, torch.nan)
