# SPDX-License-Identifier: Apache-2.0
"""What a method does, one step an instruction, before values have numbers.

A slot is one value that an instruction computes: (node, position among its results). What control flow needs
beside the nodes (how often a loop has run, a tensor that is kept for a moment) has slots of its own, at
positions below zero.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

Slot = tuple[Node, int]

# What an instruction takes: a value, or a number that stands in the program.
Source = Slot | bool | int | float | None


@dataclass(frozen=True)
class NodeStep:
    """The operator, delegate or primitive that a node calls."""

    node: Node


@dataclass(frozen=True)
class KernelStep:
    """A kernel of control flow.

    Attributes:
        node: the call that it is part of.
        operator: (name, overload) of the kernel.
        args: its arguments, and its results behind them.
    """

    node: Node
    operator: tuple[str, str]
    args: tuple[Source, ...]


@dataclass(frozen=True)
class MoveStep:
    """Lets a value be a number, or what another value is: numbers only, no tensors."""

    node: Node
    source: Source
    target: Slot


@dataclass
class JumpStep:
    """Goes on with the step at `destination` if `condition` does not hold."""

    node: Node
    condition: Source
    destination: int = -1


Step = NodeStep | KernelStep | MoveStep | JumpStep


def slot_of(node: Node) -> Slot:
    """The slot of a node that stands for one value.

    A `getitem` has the slot of the result that it takes, not one of its own: a kernel that resizes its result
    resizes what everyone reads.
    """
    if node.target is operator.getitem:
        source, index = node.args
        assert isinstance(source, Node) and isinstance(index, int)
        return (source, index)
    return (node, 0)


def source_of(value: Any) -> Source:
    """What an instruction takes for an argument of a call: a slot, or the number itself."""
    if isinstance(value, Node):
        return slot_of(value)
    assert value is None or isinstance(value, (bool, int, float)), f"{value!r} among the operands of a call"
    return value


def results_of(node: Node) -> tuple[Any, ...]:
    """The values of a node's results: one, unless it calls an operator with several."""
    val = node.meta["val"]
    return tuple(val) if isinstance(val, (tuple, list)) else (val,)
