# SPDX-License-Identifier: Apache-2.0
"""Which memory each tensor of a method lives in, and from which instruction to which.

A view of planned memory needs no kernel: it is another tensor at the same place. Which values are such
views is decided here, before anything is emitted, because it decides how long each storage lives.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.delegation import call_delegate
from delegatec.edge.program import EdgeProgram
from delegatec.program.memory_plan import ALIGNMENT, Storage
from delegatec.program.symbolic import bounded_sizes

aten = torch.ops.aten

# One result of a node: (node, position among its results).
Slot = tuple[Node, int]

_RESHAPES: Final = frozenset(
    {
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.view.default,
    }
)


@dataclass
class Placement:
    """Where a tensor lives: `offset` bytes into a storage."""

    storage: Storage
    offset: int = 0


@dataclass
class Storages:
    """The memory of one method.

    Attributes:
        steps: the nodes that become instructions, in order.
        placements: every tensor in planned memory.
        constants: views of a constant: slot -> name of the constant's placeholder.
        mutable: name of each placeholder that the program writes to -> the node of its new value.
    """

    steps: list[Node] = field(default_factory=list)
    placements: dict[Slot, Placement] = field(default_factory=dict)
    constants: dict[Slot, str] = field(default_factory=dict)
    mutable: dict[str, Node] = field(default_factory=dict)

    def all(self) -> list[Storage]:
        """Every storage once, in order of definition."""
        return list({id(p.storage): p.storage for p in self.placements.values()}.values())


def assign_storages(program: EdgeProgram) -> Storages:
    """Decides for every tensor of a program where it lives, and for how long.

    Mutable buffers live from before the first instruction to after the last: their memory is the model's
    state.
    """
    result = Storages(mutable=program.mutated_inputs())
    end = sum(_is_step(node) for node in program.graph.nodes) + 1
    for node in program.graph.nodes:
        position = len(result.steps)
        if node.op == "placeholder":
            _place_input(program, result, node, end)
        elif _is_step(node):
            for source in node.all_input_nodes:
                _extend(result, source, position)
            if not _place_view(result, node):
                for index, val in enumerate(results_of(node)):
                    if isinstance(val, torch.Tensor):
                        storage = Storage(node.name, byte_size(program, val), position, position)
                        result.placements[node, index] = Placement(storage)
                result.steps.append(node)
        elif node.op == "output":
            for source in node.all_input_nodes:
                _extend(result, source, end)
    return result


def results_of(node: Node) -> tuple[Any, ...]:
    """The values of a node's results: one, unless it calls an operator with several."""
    val = node.meta["val"]
    return tuple(val) if isinstance(val, (tuple, list)) else (val,)


def slot_of(node: Node) -> Slot:
    """The slot of a node that stands for one tensor.

    A `getitem` has the slot of the result that it takes, not one of its own: a kernel that resizes its result
    resizes what everyone reads.
    """
    if node.target is operator.getitem:
        source, index = node.args
        assert isinstance(source, Node) and isinstance(index, int)
        return (source, index)
    return (node, 0)


def byte_size(program: EdgeProgram, val: torch.Tensor) -> int:
    """Size in bytes, at the upper bounds of its dimensions."""
    return math.prod(bounded_sizes(program, val)) * val.element_size()


def _is_step(node: Node) -> bool:
    return node.op == "call_function" and node.target is not operator.getitem


def _place_input(program: EdgeProgram, result: Storages, node: Node, end: int) -> None:
    val = node.meta["val"]
    if node.name in program.constants and node.name not in result.mutable:
        result.constants[slot_of(node)] = node.name
    elif isinstance(val, torch.Tensor):
        last = end if node.name in result.mutable else -1
        result.placements[slot_of(node)] = Placement(Storage(node.name, byte_size(program, val), -1, last))


def _extend(result: Storages, source: Node, position: int) -> None:
    if source.op == "get_attr":  # a delegate, which has no memory of its own
        return
    is_one = source.target is operator.getitem
    slots = [slot_of(source)] if is_one else [(source, index) for index in range(len(results_of(source)))]
    for slot in slots:
        placement = result.placements.get(slot)
        if placement is not None:
            placement.storage.last = max(placement.storage.last, position)


def _alias(result: Storages, slot: Slot, source: Any, offset: int = 0) -> bool:
    if source in result.placements:
        placement = result.placements[source]
        result.placements[slot] = Placement(placement.storage, placement.offset + offset)
        return True
    if source in result.constants and offset == 0:
        result.constants[slot] = result.constants[source]
        return True
    return False


def _place_view(result: Storages, node: Node) -> bool:
    """Places `node` inside its argument's memory if it is a view that needs no copy."""
    source = node.args[0] if node.args else None
    if not isinstance(source, Node) or node.target is call_delegate or source.name in result.mutable:
        return False
    if not all(isinstance(size, int) for size in _sizes(node, source)):
        return False
    if node.target in _RESHAPES:
        return _alias(result, slot_of(node), slot_of(source))
    start = _contiguous_start(node, source)
    if start is None:
        return False
    offset = start * source.meta["val"].element_size()
    return offset % ALIGNMENT == 0 and _alias(result, slot_of(node), slot_of(source), offset)


def _sizes(*nodes: Node) -> Iterator[Any]:
    for node in nodes:
        val = node.meta["val"]
        if isinstance(val, torch.Tensor):
            yield from val.shape


def _contiguous_start(node: Node, source: Node) -> int | None:
    """First element of a slice or select that takes neighbouring elements only; None for anything else."""
    if node.target not in (aten.select.int, aten.slice.Tensor):
        return None
    shape = source.meta["val"].shape
    dim: Any = node.args[1] if len(node.args) > 1 else 0
    dim %= len(shape)
    start: Any = node.args[2] if len(node.args) > 2 else 0
    step: Any = node.args[4] if len(node.args) > 4 else 1
    if step != 1 or not isinstance(start, int | None) or math.prod(shape[:dim]) != 1:
        return None
    start = 0 if start is None else min(max(start + shape[dim] if start < 0 else start, 0), shape[dim])
    return int(start * math.prod(shape[dim + 1 :]))
