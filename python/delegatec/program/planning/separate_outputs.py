# SPDX-License-Identifier: Apache-2.0
"""Copies of outputs that would share memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

import torch
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.dim_orders import REORDERS, caller_orders
from delegatec.edge.program import EdgeProgram
from delegatec.program.planning.assignment import Storages, byte_size
from delegatec.program.planning.instructions import slot_of
from delegatec.program.planning.storages import PLAN_ALL, Placing, assign_storages

aten = torch.ops.aten


def separate_outputs(program: EdgeProgram, placing: Placing = PLAN_ALL) -> Storages:
    """Copies outputs that share memory with an input, a constant or another output.

    A caller may write to the memory of an output, or provide it; it must not be the memory of an input, of a
    constant in a read-only file, or of another output. The new value of a buffer must not be in the memory
    of another buffer, which may be written first.

    Args:
        program: the method, edited in place.
        placing: whether outputs are in the caller's memory, which they do not share, not even with views.

    Returns:
        The storages of the edited program.
    """
    output = program.output_node()
    results: Any = output.args[0]
    builder, orders = Builder(program).at(output), caller_orders(program)
    memory = _Memory(program, placing)
    mutated = program.mutated_inputs()
    kept = {value for name, value in mutated.items() if value.name == name}
    owned: list[Any] = []
    for result, spec in zip(results, program.output_specs, strict=True):
        if isinstance(result, Node) and isinstance(result.meta["val"], torch.Tensor):
            is_user_output = spec.kind is OutputKind.USER_OUTPUT
            if memory.is_used(result) if is_user_output else memory.is_state(result) and result not in kept:
                target = REORDERS if result in orders and is_user_output else aten.clone.default
                source, result = result, builder.call(target, result)
                for key in ("source", "debug_handle"):
                    result.meta[key] = source.meta.get(key)
            elif is_user_output:
                memory.use(result)
        owned.append(result)
    if tuple(owned) == tuple(results):
        return memory.storages
    output.args = (tuple(owned),)
    return assign_storages(program, placing)


class _Memory:
    """Memory that outputs must not use.

    Attributes:
        storages: of the program before outputs are copied.
    """

    def __init__(self, program: EdgeProgram, placing: Placing) -> None:
        self._program = program
        self._placing = placing
        self.storages: Storages = assign_storages(program, placing)
        # the bytes of outputs in each storage, by its id: in order, and disjoint
        self._used: dict[int, list[range]] = {}

    def is_state(self, node: Node) -> bool:
        """Whether a value is a mutable buffer in its initial state."""
        return node.op == "placeholder" and node.name in self.storages.mutable

    def is_used(self, node: Node) -> bool:
        """Whether a value is in the memory of an input, a constant, or a previous output."""
        placement = self.storages.placements.get(slot_of(node))
        if placement is None:
            return slot_of(node) in self.storages.constants
        if placement.storage.first < 0:
            return True
        if not self._placing.plan_outputs and self.storages.shares_memory(slot_of(node)):
            return True
        own, used = self._range(node), self._used.get(id(placement.storage), [])
        after = bisect_left(used, own.stop, key=lambda other: other.start)
        return after > 0 and used[after - 1].stop > own.start

    def use(self, node: Node) -> None:
        """Marks the memory of an output as used."""
        placement = self.storages.placements[slot_of(node)]
        own = self._range(node)
        if own:
            used = self._used.setdefault(id(placement.storage), [])
            insort(used, own, key=lambda other: other.start)

    def _range(self, node: Node) -> range:
        start = self.storages.placements[slot_of(node)].offset
        return range(start, start + byte_size(self._program, node.meta["val"]))
