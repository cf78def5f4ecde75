# SPDX-License-Identifier: Apache-2.0
"""Memory requirements of a runtime call for its operands and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import Node

from delegatec.backends.vulkan.memory.representation import ANY, Limits, Representations, fits
from delegatec.backends.vulkan.memory.sizes import largest_shape, shape_of
from delegatec.edge.symbols import is_scalar


@dataclass(frozen=True)
class Group:
    """Tensors of a call that have one representation.

    Attributes:
        allowed: the representations that the runtime supports.
        operands: operands of the call.
        results: indices of its results.
        same_storage_as: index of the call's group that must have the same storage, but may have another
            layout; none if it is its own.
        exact: representations with more exact results, if not all: the others are used if these have no room.
    """

    allowed: Representations
    operands: tuple[Node, ...] = ()
    results: tuple[int, ...] = ()
    same_storage_as: int | None = None
    exact: Representations | None = None


IsConstant = Callable[[Node], bool]
"""Whether a node is a constant of the program."""

Demands = Callable[[Node, IsConstant], Sequence[Group]]
"""Returns the groups of a call. An operand in no group is a constant that the operator packs itself."""


def tensor_operands(node: Node) -> tuple[Node, ...]:
    """Returns the operands of a call, without duplicates."""
    return tuple(each for each in dict.fromkeys(node.all_input_nodes) if not is_scalar(each))


def result_values(node: Node) -> list[Any]:
    """Returns the values of all results of a call."""
    value = node.meta["val"]
    return list(value) if isinstance(value, (tuple, list)) else [value]


def tied(allowed: Representations = ANY) -> Demands:
    """Returns the demands of a call whose operands and results all have one representation."""

    def demands(node: Node, _: IsConstant) -> Sequence[Group]:
        return (Group(allowed, tensor_operands(node), tuple(range(len(result_values(node))))),)

    return demands


def first_operand(allowed: Representations) -> Demands:
    """Returns the demands of a call whose first operand and results have one representation.

    Other operands are constants that the operator packs itself.
    """

    def demands(node: Node, _: IsConstant) -> Sequence[Group]:
        return (Group(allowed, tensor_operands(node)[:1], tuple(range(len(result_values(node))))),)

    return demands


def within(groups: Sequence[Group], node: Node, limits: Limits) -> Iterator[Group]:
    """Yields groups with the representations that have room for all their tensors.

    Args:
        groups: of a call.
        node: the call.
        limits: of textures.
    """
    for group in groups:
        shapes = shapes_of(group, node)
        fitting = frozenset(
            each for each in group.allowed if all(fits(shape, each, limits) for shape in shapes)
        )
        yield replace(group, allowed=fitting if group.exact is None else fitting & group.exact or fitting)


def shapes_of(group: Group, node: Node) -> list[tuple[int, ...]]:
    """Returns the shapes of the tensors of a group of a call."""
    results = result_values(node)
    shapes = [shape_of(operand) for operand in group.operands]
    return shapes + [largest_shape(results[index]) for index in group.results]
