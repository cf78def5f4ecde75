# SPDX-License-Identifier: Apache-2.0
"""Incremental construction of a method's instructions and storages."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.dim_orders import caller_orders
from delegatec.edge.program import EdgeProgram
from delegatec.program.external import ExternalWeights
from delegatec.program.planning.instructions import PlannedInstruction, Slot, Source, results_of, slot_of
from delegatec.program.planning.memory_plan import CALLERS, PLANNED, Storage
from delegatec.program.symbolic import bounded_sizes


@dataclass
class Placement:
    """The memory of a tensor: `offset` bytes into a storage."""

    storage: Storage
    offset: int = 0


@dataclass
class Storages:
    """The memory of one method.

    Attributes:
        instructions: the planned instructions, in order.
        placements: every tensor in planned memory.
        constants: slots that are views of a constant -> the constant's placeholder, in the program or a body.
        mutable: name of each placeholder that the program writes to -> the node of its new value.
        aliases: slots that are aliases of another slot, or a scalar: operands and results of bodies.
        values: the value of each slot that is not a node's.
        in_place: calls that write to their first operand, the memory of a buffer.
        state_views: views of buffers that methods write to.
        growing: tensors that are written row by row, whose size is the number of rows written.
        tensors: the number of tensors in each storage, by its id.
    """

    instructions: list[PlannedInstruction] = field(default_factory=list)
    placements: dict[Slot, Placement] = field(default_factory=dict)
    constants: dict[Slot, Node] = field(default_factory=dict)
    mutable: dict[str, Node] = field(default_factory=dict)
    aliases: dict[Slot, Source] = field(default_factory=dict)
    values: dict[Slot, Any] = field(default_factory=dict)
    in_place: frozenset[Node] = frozenset()
    state_views: frozenset[Node] = frozenset()
    growing: set[Slot] = field(default_factory=set)
    tensors: Counter[int] = field(default_factory=Counter)

    def all(self) -> list[Storage]:
        """Returns all storages without duplicates, in order of definition."""
        return list({id(p.storage): p.storage for p in self.placements.values()}.values())

    def shares_memory(self, slot: Slot) -> bool:
        """Whether a slot shares memory: it is a constant, an input, or a view, or has views."""
        own = self.placements.get(slot)
        if own is None or own.storage.first < 0:
            return True
        return self.tensors[id(own.storage)] > 1

    def resolve(self, source: Source) -> Source:
        """Resolves aliases of a slot to a slot or a scalar."""
        while isinstance(source, tuple) and source in self.aliases:
            source = self.aliases[source]
        return source

    def is_written(self, value: Node, buffer: Slot) -> bool:
        """Whether the new value of a buffer is in its memory: it is the old one, or written in place."""
        is_same = (value, 0) == buffer or value in self.in_place
        return is_same and self.resolve(slot_of(value)) == buffer

    def val(self, slot: Slot) -> Any:
        """Returns the value of a slot: a fake tensor, or a scalar that may be symbolic."""
        node, position = slot
        return self.values[slot] if slot in self.values else results_of(node)[position]


@dataclass
class _Loop:
    """A loop under construction.

    Attributes:
        start: position of its first instruction.
        outer: storages defined before the loop and used in it: they are alive until its end.
    """

    start: int
    outer: list[Storage] = field(default_factory=list)


class Assignment:
    """Determines the memory of a program's tensors while its instructions are linearized.

    Args:
        program: the method; its bodies have the same range constraints.
        external: constants without views, because the runtime finds them by name and shape.

    Attributes:
        result: the instructions and storages so far.
        orders: the inputs and outputs that are not row-major -> their orders.
        exchanged: permutations of tensors that delegates exchange with the caller, which need no instruction.
    """

    def __init__(self, program: EdgeProgram, external: ExternalWeights) -> None:
        self.result = Storages(mutable=program.mutated_inputs())
        self._program = program
        self._external = external
        # inputs and outputs that are not row-major
        self.orders = caller_orders(program)
        self.exchanged: set[Node] = set()
        # slots without views
        self._fixed = {slot_of(node) for node in program.placeholders() if node.name in self.result.mutable}
        self._loops: list[_Loop] = []
        # storages merged into another one, by id: the storage, and the other one
        self._merged: dict[int, tuple[Storage, Storage]] = {}

    @property
    def instructions(self) -> list[PlannedInstruction]:
        """The instructions so far."""
        return self.result.instructions

    @property
    def position(self) -> int:
        """Position of the next instruction."""
        return len(self.result.instructions)

    def place(self, slot: Slot, *, first: int | None = None, arena: int = PLANNED) -> None:
        """Allocates memory for a tensor, written by the next instruction or the one at `first`."""
        position = self.position if first is None else first
        last = -1 if first == -1 else position
        storage = Storage(slot[0].name, self.byte_size(slot), position, last, arena=arena, uses=1)
        self.result.placements[slot] = Placement(storage)

    def place_constant(self, node: Node, value: torch.Tensor) -> None:
        """Records a placeholder as a constant of this value."""
        self.result.constants[slot_of(node)] = node
        if value in self._external:
            self._fixed.add(slot_of(node))

    def place_results(self, node: Node) -> None:
        """Allocates memory for every tensor that a node computes."""
        for index, val in enumerate(results_of(node)):
            if isinstance(val, torch.Tensor):
                slot = self.result.resolve((node, index))
                assert isinstance(slot, tuple)
                self.place(slot)

    def place_inside(self, slot: Slot, source: Slot, offset: int = 0) -> bool:
        """Places a tensor in the memory of another one, at `offset` bytes, if that is in planned memory."""
        found = self.result.resolve(source)
        assert isinstance(found, tuple)
        if found in self.result.placements:
            placement = self.result.placements[found]
            self.result.placements[slot] = Placement(placement.storage, placement.offset + offset)
            return True
        if found in self.result.constants and offset == 0:
            self.result.constants[slot] = self.result.constants[found]
            return True
        return False

    def place_write(self, node: Node) -> None:
        """Records that a node is the new value of a buffer, in whose memory it is written."""
        (buffer, *_) = node.args
        assert isinstance(buffer, Node)
        self.result.aliases[slot_of(node)] = slot_of(buffer)

    def read(self, source: Source, position: int | None = None) -> None:
        """Records that the next instruction, or the one at `position`, reads a value."""
        found = self.placement(source)
        if found is not None:
            found.storage.uses += 1
            self.extend_lifetime(found.storage, self.position if position is None else position)

    def read_all(self, node: Node) -> None:
        """Records that the next instruction reads all results of a node."""
        if node.op == "get_attr":  # a delegate, which has no memory
            return
        if node.target is operator.getitem:
            self.read(slot_of(node))
            return
        for index in range(len(results_of(node))):
            self.read((node, index))

    def extend_lifetime(self, storage: Storage, position: int) -> None:
        """Extends a storage's lifetime to an instruction, and to the end of open loops that it predates."""
        storage = self.root(storage)
        storage.last = max(storage.last, position)
        for loop in self._loops:
            if storage.first < loop.start:
                loop.outer.append(storage)

    @contextmanager
    def loop(self) -> Iterator[int]:
        """Opens a loop, whose instructions run repeatedly; yields the position of the first one."""
        loop = _Loop(self.position)
        self._loops.append(loop)
        yield loop.start
        self._loops.pop()
        for storage in loop.outer:
            self.extend_lifetime(storage, self.position - 1)

    def placement(self, source: Source) -> Placement | None:
        """Returns the memory of a value; None for scalars and constants."""
        found = self.result.resolve(source)
        if not isinstance(found, tuple) or found not in self.result.placements:
            return None
        placement = self.result.placements[found]
        return Placement(self.root(placement.storage), placement.offset)

    def is_fixed(self, slot: Slot) -> bool:
        """Whether a slot has no views: it is a mutable buffer, external, or in the caller's memory."""
        found = self.placement(slot)
        return self.result.resolve(slot) in self._fixed or (
            found is not None and found.storage.arena == CALLERS
        )

    def merge(self, storage: Storage, into: Storage) -> None:
        """Merges a storage into another one of the same size."""
        storage, into = self.root(storage), self.root(into)
        assert storage is not into and storage.size == into.size
        self._merged[id(storage)] = (storage, into)
        into.first = min(into.first, storage.first)
        into.uses += storage.uses
        self.extend_lifetime(into, max(into.last, storage.last))

    def root(self, storage: Storage) -> Storage:
        """Returns the storage that a storage was merged into."""
        while id(storage) in self._merged:
            storage = self._merged[id(storage)][1]
        return storage

    def finish(self) -> None:
        """Updates all placements to merged storages."""
        for placement in self.result.placements.values():
            placement.storage = self.root(placement.storage)
            self.result.tensors[id(placement.storage)] += 1

    def byte_size(self, slot: Slot) -> int:
        """Returns the size of a tensor in bytes, at the upper bounds of its dimensions."""
        return byte_size(self._program, self.result.val(slot))


def byte_size(program: EdgeProgram, val: torch.Tensor) -> int:
    """Returns the size in bytes, at the upper bounds of the dimensions."""
    return math.prod(bounded_sizes(program, val)) * val.element_size()
