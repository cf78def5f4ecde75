# SPDX-License-Identifier: Apache-2.0
"""Planned instructions of a method, before values have indices.

A slot is a value that an instruction computes: (node, index of the result). Auxiliary values of control flow
(iteration counts, temporaries) have negative indices.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

Slot = tuple[Node, int]

# An operand of an instruction: a value, or a scalar.
Source = Slot | bool | int | float | None


@dataclass(frozen=True)
class PlannedNode:
    """A call of the operator, delegate or primitive of a node."""

    node: Node


@dataclass(frozen=True)
class PlannedKernel:
    """A call of an auxiliary kernel for control flow.

    Attributes:
        node: the control-flow call that it belongs to.
        operator: (name, overload) of the kernel.
        args: its arguments, followed by its results.
    """

    node: Node
    operator: tuple[str, str]
    args: tuple[Source, ...]


@dataclass(frozen=True)
class PlannedMove:
    """Sets a value to a scalar, or to the scalar in another value; not for tensors."""

    node: Node
    source: Source
    target: Slot


@dataclass(frozen=True)
class PlannedResize:
    """Sets the sizes of a tensor in the memory of another one.

    Attributes:
        node: the tensor.
        sizes: its sizes.
    """

    node: Node
    sizes: tuple[Source, ...]


@dataclass
class PlannedJump:
    """Jumps to the instruction at `destination` unless `condition` holds."""

    node: Node
    condition: Source
    destination: int = -1


PlannedInstruction = PlannedNode | PlannedKernel | PlannedMove | PlannedResize | PlannedJump


def slot_of(node: Node) -> Slot:
    """Returns the slot of a node with a single value.

    A `getitem` shares the slot of its operand's result: a kernel that resizes its result resizes it for all
    users.
    """
    if node.target is operator.getitem:
        source, index = node.args
        assert isinstance(source, Node) and isinstance(index, int)
        return (source, index)
    return (node, 0)


def source_of(value: Any) -> Source:
    """Returns the operand for an argument of a call: a slot, or the scalar itself."""
    if isinstance(value, Node):
        return slot_of(value)
    assert value is None or isinstance(value, (bool, int, float)), f"{value!r} among the operands of a call"
    return value


def results_of(node: Node) -> tuple[Any, ...]:
    """Returns the values of a node's results: one, unless it calls an operator with several."""
    val = node.meta["val"]
    return tuple(val) if isinstance(val, (tuple, list)) else (val,)
