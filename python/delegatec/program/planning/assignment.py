# SPDX-License-Identifier: Apache-2.0
"""Steps and storages of a method while they are found, one step after the other."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.program import EdgeProgram
from delegatec.program.planning.memory_plan import CALLERS, PLANNED, Storage
from delegatec.program.planning.steps import Slot, Source, Step, results_of, slot_of
from delegatec.program.symbolic import bounded_sizes


@dataclass
class Placement:
    """Where a tensor lives: `offset` bytes into a storage."""

    storage: Storage
    offset: int = 0


@dataclass
class Storages:
    """The memory of one method.

    Attributes:
        steps: what becomes instructions, in order.
        placements: every tensor in planned memory.
        constants: views of a constant: slot -> the constant's placeholder, of the program or of a body.
        mutable: name of each placeholder that the program writes to -> the node of its new value.
        aliases: slots that are another one, or a number: operands of bodies, and what bodies return.
        values: the value of each slot that no node has.
        growing: tensors that are written row by row, and have as many rows as have been written.
    """

    steps: list[Step] = field(default_factory=list)
    placements: dict[Slot, Placement] = field(default_factory=dict)
    constants: dict[Slot, Node] = field(default_factory=dict)
    mutable: dict[str, Node] = field(default_factory=dict)
    aliases: dict[Slot, Source] = field(default_factory=dict)
    values: dict[Slot, Any] = field(default_factory=dict)
    growing: set[Slot] = field(default_factory=set)

    def all(self) -> list[Storage]:
        """Every storage once, in order of definition."""
        return list({id(p.storage): p.storage for p in self.placements.values()}.values())

    def shares_memory(self, slot: Slot) -> bool:
        """Whether a slot has no memory of its own: it is a constant, an input, or a view, or has views."""
        own = self.placements.get(slot)
        if own is None or own.storage.first < 0:
            return True
        return sum(placement.storage is own.storage for placement in self.placements.values()) > 1

    def resolve(self, source: Source) -> Source:
        """The slot that a slot stands for in the end, or the number."""
        while isinstance(source, tuple) and source in self.aliases:
            source = self.aliases[source]
        return source

    def val(self, slot: Slot) -> Any:
        """The value of a slot: a fake tensor, or a number that may be symbolic."""
        node, position = slot
        return self.values[slot] if slot in self.values else results_of(node)[position]


@dataclass
class _Loop:
    """A loop whose steps are not all known yet.

    Attributes:
        start: position of its first step.
        outer: storages from before it that it reads: all rounds do, and so they live to its end.
    """

    start: int
    outer: list[Storage] = field(default_factory=list)


class Assignment:
    """Finds out where the tensors of a program live while its steps are laid out in line.

    Args:
        program: the method; its bodies have the same ranges of symbols.

    Attributes:
        result: what has been found so far.
    """

    def __init__(self, program: EdgeProgram) -> None:
        self.result = Storages(mutable=program.mutated_inputs())
        self._program = program
        self._state = {slot_of(node) for node in program.placeholders() if node.name in self.result.mutable}
        self._loops: list[_Loop] = []
        # storages that have become part of another one, by id: the storage, and the other one
        self._merged: dict[int, tuple[Storage, Storage]] = {}

    @property
    def steps(self) -> list[Step]:
        """The steps so far."""
        return self.result.steps

    @property
    def position(self) -> int:
        """Position of the next step."""
        return len(self.result.steps)

    def place(self, slot: Slot, *, first: int | None = None, arena: int = PLANNED) -> None:
        """Gives a tensor memory of its own, which the next step writes to, or the one at `first`."""
        position = self.position if first is None else first
        last = -1 if first == -1 else position
        storage = Storage(slot[0].name, self.byte_size(slot), position, last, arena=arena)
        self.result.placements[slot] = Placement(storage)

    def place_results(self, node: Node) -> None:
        """Gives every tensor that a node computes memory of its own."""
        for index, val in enumerate(results_of(node)):
            if isinstance(val, torch.Tensor):
                self.place((node, index))

    def place_inside(self, slot: Slot, source: Slot, offset: int = 0) -> bool:
        """Places a tensor in the memory of another one, `offset` bytes into it, if that has any."""
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

    def read(self, source: Source, position: int | None = None) -> None:
        """Notes that the next step reads a value, or the one at `position`."""
        found = self.placement(source)
        if found is not None:
            self.touch(found.storage, self.position if position is None else position)

    def read_all(self, node: Node) -> None:
        """Notes that the next step reads what a node stands for, all of its results if it has several."""
        if node.op == "get_attr":  # a delegate, which has no memory of its own
            return
        if node.target is operator.getitem:
            self.read(slot_of(node))
            return
        for index in range(len(results_of(node))):
            self.read((node, index))

    def touch(self, storage: Storage, position: int) -> None:
        """Lets a storage live to a step, and to the end of the loops that it was there before."""
        storage = self.root(storage)
        storage.last = max(storage.last, position)
        for loop in self._loops:
            if storage.first < loop.start:
                loop.outer.append(storage)

    @contextmanager
    def loop(self) -> Iterator[int]:
        """What is laid out inside of it runs again and again; gives the position of its first step."""
        loop = _Loop(self.position)
        self._loops.append(loop)
        yield loop.start
        self._loops.pop()
        for storage in loop.outer:
            self.touch(storage, self.position - 1)

    def placement(self, source: Source) -> Placement | None:
        """Where a value lives; None for numbers and constants."""
        found = self.result.resolve(source)
        if not isinstance(found, tuple) or found not in self.result.placements:
            return None
        placement = self.result.placements[found]
        return Placement(self.root(placement.storage), placement.offset)

    def is_fixed(self, slot: Slot) -> bool:
        """Whether a slot can have no views: it is a mutable buffer, or lies in the caller's memory."""
        found = self.placement(slot)
        return self.result.resolve(slot) in self._state or (
            found is not None and found.storage.arena == CALLERS
        )

    def merge(self, storage: Storage, into: Storage) -> None:
        """Makes the tensors of one storage tensors of another one, which is as large."""
        storage, into = self.root(storage), self.root(into)
        assert storage is not into and storage.size == into.size
        self._merged[id(storage)] = (storage, into)
        into.first = min(into.first, storage.first)
        self.touch(into, max(into.last, storage.last))

    def root(self, storage: Storage) -> Storage:
        """The storage that a storage is by now."""
        while id(storage) in self._merged:
            storage = self._merged[id(storage)][1]
        return storage

    def finish(self) -> None:
        """Lets every placement name the storage that it is in in the end."""
        for placement in self.result.placements.values():
            placement.storage = self.root(placement.storage)

    def byte_size(self, slot: Slot) -> int:
        """Size of a tensor in bytes, at the upper bounds of its dimensions."""
        return byte_size(self._program, self.result.val(slot))


def byte_size(program: EdgeProgram, val: torch.Tensor) -> int:
    """Size in bytes, at the upper bounds of its dimensions."""
    return math.prod(bounded_sizes(program, val)) * val.element_size()
