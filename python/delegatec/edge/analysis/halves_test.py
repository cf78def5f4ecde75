# SPDX-License-Identifier: Apache-2.0
"""Rows with equal halves are recognized; no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.analysis.halves import has_equal_halves
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, edge

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
TWICE = torch.cat([X, X], -1)


def _last(program: EdgeProgram) -> bool:
    results: Any = program.output_node().args[0]
    return has_equal_halves(results[-1], program.fixed_constants())


def _twice(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x], -1)


EQUAL = {
    "twice": _twice,
    "cosines": lambda x: _twice(x).cos(),
    "rounded": lambda x: _twice(x).half().sin(),
    "scaled": lambda x: _twice(x) * 0.5,
    "times a column": lambda x: _twice(x) * x[:, :1],
    "sum of two": lambda x: _twice(x) + _twice(x.exp()),
    "with more dimensions": lambda x: _twice(x)[None, :, None].view(3, 1, 8),
    "some rows": lambda x: _twice(x)[1:],
    "a row": lambda x: _twice(x)[1],
    "rows of both": lambda x: torch.cat([_twice(x), _twice(x.exp())]),
}
OTHERS = {
    "an input": lambda x: x,
    "one sign": lambda x: torch.cat([x, -x], -1),
    "of two values": lambda x: torch.cat([x, x.exp()], -1),
    "three times": lambda x: torch.cat([x, x, x, x.exp()], -1),
    "along another dimension": lambda x: torch.cat([x, x], 0),
    "times a row": lambda x: _twice(x) * _twice(x)[0].sort()[0],
    "reversed": lambda x: _twice(x).flip(-1),
    "rows of another size": lambda x: _twice(x).view(2, 12),
    "a part of each row": lambda x: _twice(x)[:, 1:7],
    "an odd size": lambda x: x[:, :3],
}


@pytest.mark.parametrize("function", EQUAL.values(), ids=EQUAL)
def test_equal(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert _last(edge(function, X, passes=()))
    torch.testing.assert_close(*function(X).chunk(2, -1))


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_others(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert not _last(edge(function, X, passes=()))


@pytest.mark.parametrize(("table", "expected"), [(TWICE, True), (TWICE.exp().cumsum(-1), False)])
def test_constants(table: torch.Tensor, expected: bool) -> None:
    function = Function(lambda m, x: torch.embedding(m.table, x), table=table)
    assert _last(edge(function, torch.tensor([2, 0]))) == expected


def test_many_sums() -> None:
    """Each value is visited once."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = _twice(x)
        for _ in range(60):
            y = y + y.cos()
        return y

    assert _last(edge(function, X, passes=()))
