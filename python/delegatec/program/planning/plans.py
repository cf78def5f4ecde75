# SPDX-License-Identifier: Apache-2.0
"""The memory plans of all methods of a program, and the memory of the state that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.program import EdgeProgram
from delegatec.program.alignment import align
from delegatec.program.options import Memory
from delegatec.program.planning.assignment import Storages
from delegatec.program.planning.instructions import Slot, slot_of
from delegatec.program.planning.memories import plan_memories
from delegatec.program.planning.memory_plan import (
    ALIGNMENT,
    PLANNED,
    STATE,
    MemoryPlan,
    Storage,
    plan_memory,
)

# Number of values that are listed next to one that fits nowhere.
_LISTED: Final = 3


@dataclass(frozen=True)
class MethodPlans:
    """The plans of a program.

    Attributes:
        of_method: method -> its plan.
        state_memory: name of the memory of shared state; "" without declared memories.
    """

    of_method: dict[str, MemoryPlan]
    state_memory: str = ""


def plan_methods(
    programs: Mapping[str, EdgeProgram], storages: Mapping[str, Storages], memories: Sequence[Memory]
) -> MethodPlans:
    """Plans the memory of all methods.

    Args:
        programs: the methods.
        storages: the storages of each; sets their memories and offsets.
        memories: the declared memories, the fastest first; none for one without limit.

    Raises:
        DelegatecError: DC311, values of a method, or the state of all, fit into no memory.
    """
    planned = {
        name: [storage for storage in each.all() if storage.arena == PLANNED]
        for name, each in storages.items()
    }
    if not memories:
        return MethodPlans({name: plan_memory(each) for name, each in planned.items()})
    state = _state_bytes(programs, storages)
    homes = [index for index, memory in enumerate(memories) if state <= memory.bytes]
    if not homes:
        raise DelegatecError([_too_much_state(state, memories)])
    if not state:
        homes = homes[:1]
    # the memory of the state with the least traffic in later ones
    costs = [(_cost(_planned(planned, memories, state, home), storages, home), home) for home in homes]
    _, home = min(costs)
    plans = _planned(planned, memories, state, home)
    problems = [
        problem
        for name, plan in plans.items()
        for problem in _problems(name, storages[name], plan, memories, state, home)
    ]
    if problems:
        raise DelegatecError(problems)
    return MethodPlans(plans, memories[home].name if state else "")


def _planned(
    storages: Mapping[str, list[Storage]], memories: Sequence[Memory], state: int, home: int
) -> dict[str, MemoryPlan]:
    reserved = [state if index == home else 0 for index in range(len(memories))]
    return {name: plan_memories(each, memories, reserved) for name, each in storages.items()}


def _cost(plans: Mapping[str, MemoryPlan], storages: Mapping[str, Storages], home: int) -> tuple[int, ...]:
    """Returns what is without memory, then the traffic of each memory from the last one."""
    traffic = [0] * max(len(plan.sizes) for plan in plans.values())
    for plan in plans.values():
        for storage in plan.storages:
            traffic[storage.memory - 1] += storage.size * storage.uses
    for each in storages.values():
        for storage in each.all():
            if storage.arena == STATE:
                traffic[home] += storage.size * storage.uses
    without = sum(storage.size for plan in plans.values() for storage in plan.unplaced)
    return (without, *reversed(traffic))


def _state_bytes(programs: Mapping[str, EdgeProgram], storages: Mapping[str, Storages]) -> int:
    """Returns the size of the state that methods share: each buffer once."""
    sizes: dict[str, int] = {}
    for name, program in programs.items():
        for node, spec in zip(program.placeholders(), program.input_specs, strict=True):
            placement = storages[name].placements.get(slot_of(node))
            if placement is not None and placement.storage.arena == STATE:
                sizes[spec.target or node.name] = align(placement.storage.size, ALIGNMENT)
    return sum(sizes.values())


def _too_much_state(state: int, memories: Sequence[Memory]) -> Diagnostic:
    return Diagnostic(
        "DC311",
        f"the state that methods share has {state:,} bytes, and is in one memory",
        expected=f"a memory of that size; there are {_list_of(memories)}",
        help="give a memory more bytes, or make the buffers that methods write to smaller",
    )


def _problems(
    method: str, storages: Storages, plan: MemoryPlan, memories: Sequence[Memory], state: int, home: int
) -> Iterator[Diagnostic]:
    """Yields a problem for each value without memory, the largest first."""
    slots: dict[int, Slot] = {}
    for slot, placement in storages.placements.items():
        slots.setdefault(id(placement.storage), slot)
    for storage in sorted(plan.unplaced, key=lambda each: -each.size):
        node, _ = slot = slots[id(storage)]
        together = [
            each
            for each in plan.storages
            if each.first <= storage.last and storage.first <= each.last and each is not storage
        ]
        together.sort(key=lambda each: -each.size)
        largest = ", ".join(
            f"{each.name} ({each.size:,} bytes{_line_of(slots[id(each)])})" for each in together[:_LISTED]
        )
        alive = sum(align(each.size, ALIGNMENT) for each in together)
        kept = f"; {memories[home].name} has {state:,} bytes of state" if state else ""
        yield Diagnostic(
            "DC311",
            f"{node.name} of method {method}, {_shape_of(storages.val(slot))}, has {storage.size:,} bytes,"
            f" and fits into no memory",
            location=node.meta.get("source"),
            node=node.name,
            expected=f"room next to {alive:,} bytes that are alive with it, in {_list_of(memories)}{kept}",
            help="give a memory more bytes, or make values smaller that are alive at that time"
            + (f", such as {largest}" if largest else ""),
        )


def _line_of(slot: Slot) -> str:
    source = slot[0].meta.get("source")
    return f", {source}" if source is not None else ""


def _shape_of(val: Any) -> str:
    assert isinstance(val, torch.Tensor)
    return f"{str(val.dtype).removeprefix('torch.')}[{', '.join(map(str, val.shape))}]"


def _list_of(memories: Sequence[Memory]) -> str:
    return ", ".join(f"{memory.name} of {memory.bytes:,} bytes" for memory in memories)
