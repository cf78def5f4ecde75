# SPDX-License-Identifier: Apache-2.0
"""Plans for several memories: valid, within their sizes, and hot values in the first ones."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import export

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export as export_model
from delegatec.frontend.model import Method, Model
from delegatec.lowering import Program, lower
from delegatec.program.options import Memory, ProgramOptions, memory_of
from delegatec.program.planning.memories import plan_memories
from delegatec.program.planning.memory_plan import ALIGNMENT, MemoryPlan, Storage


def _storage(size: int, first: int, length: int, uses: int = 2) -> Storage:
    return Storage("x", size, first, first + length, uses=uses)


STORAGES = st.lists(
    st.builds(
        _storage,
        size=st.one_of(st.integers(0, 200), st.sampled_from([0, 16, 64, 4096])),
        first=st.integers(-1, 20),
        length=st.integers(0, 8),
        uses=st.integers(1, 9),
    ),
    max_size=25,
)
CAPACITIES = st.lists(st.sampled_from([1, 16, 100, 500, 5000, 100_000]), min_size=1, max_size=3)


def _memories(capacities: list[int]) -> list[Memory]:
    return [Memory(f"m{index}", capacity) for index, capacity in enumerate(capacities)]


def _check(plan: MemoryPlan, capacities: list[int]) -> None:
    unplaced = {id(each) for each in plan.unplaced}
    placed = [each for each in plan.storages if id(each) not in unplaced]
    assert len(plan.sizes) == len(capacities) and plan.arena_size == sum(plan.sizes)
    assert all(size <= capacity for size, capacity in zip(plan.sizes, capacities, strict=True))
    for index, a in enumerate(placed):
        assert a.offset % ALIGNMENT == 0 and a.offset >= 0
        assert not a.size or a.offset + a.size <= plan.sizes[a.memory - 1]
        for b in placed[:index]:
            together = a.first <= b.last and b.first <= a.last and a.memory == b.memory
            overlap = a.offset < b.offset + b.size and b.offset < a.offset + a.size
            assert not (together and overlap and a.size and b.size), f"{a} and {b}"


@given(STORAGES, CAPACITIES)
@settings(max_examples=200, deadline=None)
def test_plans_are_valid(storages: list[Storage], capacities: list[int]) -> None:
    again = deepcopy(storages)
    plan = plan_memories(storages, _memories(capacities))
    _check(plan, capacities)
    if sum(-(-each.size // ALIGNMENT) * ALIGNMENT for each in storages) <= capacities[0]:
        assert not plan.unplaced and not any(plan.sizes[1:])
    second = plan_memories(again, _memories(capacities))
    assert [(s.memory, s.offset) for s in second.storages] == [(s.memory, s.offset) for s in plan.storages]


def test_hot_values_are_in_the_first_memory() -> None:
    cold, hot, long = _storage(512, 0, 9, 2), _storage(512, 0, 9, 20), _storage(512, 0, 9, 3)
    plan = plan_memories([cold, hot, long], _memories([512, 512, 4096]))
    assert [each.memory for each in (cold, hot, long)] == [3, 1, 2]
    assert plan.sizes == [512, 512, 512]


def test_memory_is_used_again() -> None:
    """The second half of the values, and one after another in the first memory."""
    storages = [_storage(256, time, 1) for time in range(10)]
    plan = plan_memories(storages, _memories([256, 256]))
    assert not plan.unplaced and plan.sizes == [256, 256]
    assert [each.memory for each in storages] in ([1, 2] * 5, [2, 1] * 5)


def test_reserved_bytes_and_sizes_that_are_not_aligned() -> None:
    storages = [_storage(16, 0, 1), _storage(16, 0, 1)]
    plan = plan_memories(storages, _memories([31, 40]), [0, 9])
    assert plan.sizes == [16, 16] and not plan.unplaced
    plan = plan_memories(storages, _memories([31, 40]), [0, 25])
    assert plan.sizes == [16, 0] and len(plan.unplaced) == 1


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.relu(self.wide(x))) + x


def _lowered(**sizes: int) -> Program:
    memories = tuple(Memory(name, size) for name, size in sizes.items())
    methods = {"forward": export(_Net().eval(), (torch.ones(4, 64),))}
    return lower(methods, program_options=ProgramOptions(memories=memories))


def test_programs() -> None:
    (method,) = _lowered(sram=4096, dram=8192).emitted.methods
    assert method.memory_plan.sizes == [4096, 5120] and method.state_memory == ""


def test_values_that_do_not_fit() -> None:
    with pytest.raises(DelegatecError) as raised:
        _lowered(sram=1024, dram=4096)
    (problem,) = raised.value.diagnostics
    assert (problem.code, problem.node) == ("DC311", "relu")
    assert (
        problem.message == "relu of method forward, float32[4, 256], has 4,096 bytes, and fits into no memory"
    )
    assert problem.location is not None and "self.wide(x)" in problem.location.text
    assert problem.expected.endswith("in sram of 1,024 bytes, dram of 4,096 bytes")
    assert "linear (4,096 bytes" in problem.help and "memories_test.py" in problem.help


class _Counter(nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(100))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2

    def take(self, x: torch.Tensor) -> torch.Tensor:
        return self.total + x


def test_state_that_methods_share_is_in_one_memory() -> None:
    def lowered(*sizes: int) -> Program:
        x = (torch.ones(100),)
        methods = export_model(Model(_Counter(), x, methods={"take": Method("take", x)}))
        return lower(methods, program_options=ProgramOptions(memories=tuple(_memories(list(sizes)))))

    for method in lowered(4096, 512).emitted.methods:
        assert method.state_bytes == 400 and method.state_memory == "m0"
        assert method.memory_plan.sizes == [800, 0]
    # all methods read it
    methods = lowered(400, 2000).emitted.methods
    assert [(each.state_memory, each.memory_plan.sizes) for each in methods] == [("m0", [0, 800])] * 2
    assert {each.state_memory for each in lowered(384, 2000).emitted.methods} == {"m1"}
    with pytest.raises(DelegatecError, match=r"DC311: the state that methods share has 400 bytes"):
        lowered(384, 100)


def test_options() -> None:
    assert memory_of("sram=512k") == Memory("sram", 2**19)
    assert [memory_of(f"m={text}").bytes for text in ("7", "2M", "1g")] == [7, 2**21, 2**30]
    for text in ("sram", "sram=", "sram=1t", "sram=-1", f"sram={'9' * 5000}"):
        with pytest.raises(DelegatecError, match="DC310"):
            memory_of(text)
    with pytest.raises(DelegatecError) as raised:
        ProgramOptions(memories=(Memory("a", 0), Memory("a", 1), Memory("on chip", 1)))
    assert [each.message for each in raised.value.diagnostics] == [
        "memory a cannot have 0 bytes",
        "a memory cannot be named 'on chip'",
        "2 memories are named 'a'",
    ]
    anything: Any = Memory
    with pytest.raises(DelegatecError) as raised:
        ProgramOptions(memories=(("sram", 512), anything("dram", "32m")))  # type: ignore[arg-type]
    assert [each.message for each in raised.value.diagnostics] == [
        "one of memories is ('sram', 512)",
        "one of memories is Memory(name='dram', bytes='32m')",
    ]
