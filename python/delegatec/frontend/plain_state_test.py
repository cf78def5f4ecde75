# SPDX-License-Identifier: Apache-2.0
"""State in plain attributes is an error; caches in them are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model


class Stateful(torch.nn.Module):
    """Calls a function that may change `self`."""

    def __init__(self, change: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.change = change
        self.inner = torch.nn.Identity()
        self.count, self.first, self.largest = 0, True, 0
        self.history: list[Any] = []
        self.inner.settings = {"calls": 0}  # type: ignore[assignment]
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.change(self, x)
        return result


def count(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.count += 1
    return x * self.count


def unused_count(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.count += 1
    return x


def append(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.history.append(len(self.history))
    return x + len(self.history)


def nested(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.inner.settings["calls"] += 1
    return x


def only_first(self: Any, x: torch.Tensor) -> torch.Tensor:
    first, self.first = self.first, False
    return x * 2 if first else x


def cache(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.largest = max(self.largest, x.shape[0])
    self.shape = tuple(x.shape)
    return x * self.largest


def buffer(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.total += x
    self.shape = x.shape
    return x + self.total


def noise(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.shape = x.shape
    return x + torch.rand(2)


def problems(module: torch.nn.Module, strict: bool = False) -> list[str]:
    try:
        export(Model(module, (torch.ones(2),), strict=strict))
    except DelegatecError as error:
        return [f"{problem.code}: {problem.message}" for problem in error.diagnostics]
    return []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (count, "count"),
        (unused_count, "count"),
        (append, "history"),
        (nested, "inner.settings"),
        (only_first, "first"),
    ],
)
def test_state(change: Callable[[Any, torch.Tensor], Any], name: str) -> None:
    module = Stateful(change).eval()
    before = repr(vars(module))
    expected = f"DC124: forward() changes the attribute {name!r}, which calls after it depend on"
    assert problems(module) == [expected]
    assert repr(vars(module)) == before


def test_strict_mode() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count, self.width = 0, 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + self.width

    assert problems(Counter(), strict=True) == [
        "DC124: forward() changes the attribute 'count', which calls after it depend on"
    ]
    assert problems(torch.nn.Linear(2, 2), strict=True) == []


@pytest.mark.parametrize("change", [cache, buffer, noise])
def test_caches(change: Callable[[Any, torch.Tensor], Any]) -> None:
    module = Stateful(change)
    assert problems(module) == []
    assert torch.equal(module.total, torch.zeros(2))
