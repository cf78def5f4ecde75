# SPDX-License-Identifier: Apache-2.0
"""Iterations of loops with counters, compared with those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop

from delegatec.edge import to_edge
from delegatec.edge.control_flow import calls
from delegatec.edge.trips import Trips, trips_of

_Function = Callable[[Tensor], Any]


class _Loop(nn.Module):
    """Counts its iterations in the second part of the state."""

    def __init__(self, start: int, more: _Function, following: _Function) -> None:
        super().__init__()
        self.start, self.more, self.following = start, more, following

    def forward(self, x: Tensor) -> Any:
        loop: Any = while_loop
        state = torch.full((), self.start), torch.zeros((), dtype=torch.int64), x
        return loop(
            lambda i, count, x: self.more(i), lambda i, count, x: (self.following(i), count + 1, x * 2), state
        )[1]


_COUNTED: Final[dict[str, tuple[int, _Function, _Function]]] = {
    "below": (0, lambda i: i < 4, lambda i: i + 1),
    "not above": (0, lambda i: i <= 4, lambda i: i + 1),
    "above": (9, lambda i: i > 2, lambda i: i - 2),
    "not below": (4, lambda i: i >= -3, lambda i: i - 2),
    "the limit is between": (0, lambda i: i < 5, lambda i: i + 3),
    "the limit is reached": (0, lambda i: i <= 6, lambda i: i + 3),
    "the constant comes first": (2, lambda i: torch.tensor(9) >= i, lambda i: 2 + i),
    "a constant tensor is added": (0, lambda i: i < 5, lambda i: i + torch.tensor(2)),
    "a negative number is subtracted": (0, lambda i: i < 5, lambda i: i - -2),
    "starts at the limit": (4, lambda i: i < 4, lambda i: i + 1),
    "starts at the limit, which is included": (4, lambda i: i <= 4, lambda i: i + 1),
    "starts beyond": (7, lambda i: i <= 4, lambda i: i + 1),
    "starts below": (1, lambda i: i > 4, lambda i: i - 1),
}
_UNKNOWN: Final[dict[str, tuple[int, _Function, _Function]]] = {
    "another step": (1, lambda i: i < 40, lambda i: i * 2),
    "moves away": (0, lambda i: i < 4, lambda i: i - 1),
    "the wrong operand is subtracted": (0, lambda i: i < 4, lambda i: 5 - i),
    "a disjunction": (0, lambda i: (i < 4) | (i > 9), lambda i: i + 1),
    "not a comparison with a constant": (0, lambda i: i * i < 9, lambda i: i + 1),
}


def _trips(start: int, more: _Function, following: _Function) -> Trips | None:
    module = _Loop(start, more, following)
    program = to_edge(torch.export.export(module, (torch.rand(2),)))
    (call,) = calls(program)
    return trips_of(program, call)


@pytest.mark.parametrize("name", _COUNTED)
def test_counters(name: str) -> None:
    start, more, following = _COUNTED[name]
    value, count = torch.tensor(start), 0
    while more(value):
        value, count = following(value), count + 1
    assert _trips(start, more, following) == Trips(count, is_exact=True)


@pytest.mark.parametrize("name", _UNKNOWN)
def test_loops_without_a_bound(name: str) -> None:
    assert _trips(*_UNKNOWN[name]) is None


def test_conjunctions_have_a_bound() -> None:
    found = _trips(0, lambda i: (i < 7) & (i * i < 9) & (i < 5), lambda i: i + 1)
    assert found == Trips(5, is_exact=False)


def test_counters_that_an_input_starts_have_no_bound() -> None:
    class Given(nn.Module):
        def forward(self, i: Tensor) -> Any:
            loop: Any = while_loop
            return loop(lambda i: i < 4, lambda i: (i + 1,), (i,))[0]

    program = to_edge(torch.export.export(Given(), (torch.tensor(0),)))
    (call,) = calls(program)
    assert trips_of(program, call) is None
