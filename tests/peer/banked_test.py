# SPDX-License-Identifier: Apache-2.0
"""Plans for several memories, next to those of `banked_greedy` of ExecuTorch 1.5.1 on the same values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn
from torch.export import export

from delegatec.lowering import lower
from delegatec.program.options import Memory
from delegatec.program.planning.memories import plan_memories
from delegatec.program.planning.memory_plan import Storage, lower_bound
from tests.peer.banked import Planner


@pytest.fixture(scope="module")
def planner() -> Planner:
    """The planner of the wheel."""
    return Planner()


@dataclass(frozen=True)
class _Outcome:
    """What two planners reach; None if the values do not fit: the traffic of the last memory first."""

    ours: tuple[int, ...] | None
    theirs: tuple[int, ...] | None

    @property
    def is_worse(self) -> bool:
        """Whether the other planner reaches more."""
        return self.theirs is not None and (self.ours is None or self.ours > self.theirs)

    @property
    def is_better(self) -> bool:
        """Whether ours does."""
        return self.ours is not None and (self.theirs is None or self.ours < self.theirs)


def _traffic(storages: Sequence[Storage], memories: Sequence[int], count: int) -> tuple[int, ...]:
    traffic = [0] * count
    for storage, memory in zip(storages, memories, strict=True):
        traffic[memory] += storage.size * storage.uses
    return tuple(reversed(traffic[1:]))


def _compared(planner: Planner, storages: Sequence[Storage], capacities: Sequence[int]) -> _Outcome:
    lifetimes = [(each.first, each.last) for each in storages]
    theirs = planner.plan([each.size for each in storages], lifetimes, capacities)
    placed = [replace(each) for each in storages]
    plan = plan_memories(placed, [Memory(f"m{i}", size) for i, size in enumerate(capacities)])
    return _Outcome(
        None if plan.unplaced else _traffic(placed, [each.memory - 1 for each in placed], len(capacities)),
        None if theirs is None else _traffic(storages, [memory for memory, _ in theirs], len(capacities)),
    )


def _random_storages(source: random.Random) -> list[Storage]:
    count = source.choice([3, 8, 20, 60])
    end = max(3, int(count * source.uniform(0.5, 1.5)))
    storages = []
    for index in range(count):
        first = source.randint(-1, end)
        last = min(end + 1, first + int(source.expovariate(1 / source.choice([1, 2, 8]))))
        size = source.choice([16, 64, 100, 1000, source.randint(1, 5000)])
        uses = max(1, min(2 + int(source.expovariate(0.7)), last - first + 1))
        storages.append(Storage(f"s{index}", size, first, last, uses=uses))
    return storages


def test_random_graphs(planner: Planner) -> None:
    source = random.Random(1)
    outcomes = []
    for _ in range(100):
        storages = _random_storages(source)
        bound = lower_bound(storages)
        sizes = [int(bound * source.uniform(0.05, 0.8)) for _ in range(source.choice([0, 1, 1, 1, 2]))]
        rest = bound * source.choice([1.0, 1.05, 1.2, 2.0]) - sum(sizes) * source.choice([0, 0.5, 1])
        outcomes.append(_compared(planner, storages, [max(1, int(size)) for size in (*sizes, rest)]))
    assert not any(each.is_worse for each in outcomes)
    assert sum(each.is_better for each in outcomes) > 20
    assert any(each.ours is not None and each.theirs is None for each in outcomes)


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(6))
        self.pool, self.out = nn.AvgPool2d(2), nn.Linear(8 * 8 * 8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.nn.functional.gelu(layer(x)) * x.mean()
        return torch.softmax(self.out(self.pool(x).flatten(1)), -1)


@pytest.mark.parametrize("part", [0.1, 0.25, 0.5, 0.75])
def test_a_network(planner: Planner, part: float) -> None:
    methods = {"forward": export(_Residual().eval(), (torch.ones(1, 8, 16, 16),))}
    (method,) = lower(methods).emitted.methods
    storages, bound = method.memory_plan.storages, method.memory_plan.lower_bound
    assert len(storages) > 20
    fast = int(bound * part) // 16 * 16
    tight, roomy = (_compared(planner, storages, [fast, int(bound * of) - fast]) for of in (1.0, 1.3))
    assert not tight.is_worse and not roomy.is_worse
    assert (roomy.ours is None) == (part == 0.75)  # no value is as small as what is left
