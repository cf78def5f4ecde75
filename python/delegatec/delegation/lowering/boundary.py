# SPDX-License-Identifier: Apache-2.0
"""Conversions at the boundary of partitions, for backends that exchange some values in another dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.delegation.lowering.splice import rename_outputs
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

Boundary = Callable[[torch.dtype], torch.dtype]


def convert_boundary(
    program: EdgeProgram, groups: Sequence[Sequence[Node]], boundary: Boundary
) -> list[list[Node]]:
    """Converts values that cross the boundary of a group outside of it, and back inside of it.

    Args:
        program: edited in place.
        groups: of its nodes, in topological order each.
        boundary: dtype of a value -> dtype in which it crosses.

    Returns:
        The groups, with the conversions inside of them.
    """
    builder = Builder(program)
    return [
        [*_inputs(program, builder, group, boundary), *group, *_outputs(program, builder, group, boundary)]
        for group in groups
    ]


def _inputs(program: EdgeProgram, builder: Builder, group: Sequence[Node], boundary: Boundary) -> list[Node]:
    """Returns the new first nodes of a group."""
    members, fixed = set(group), program.fixed_constants()
    operands = dict.fromkeys(source for node in group for source in node.all_input_nodes)
    found: list[Node] = []
    for source in _crossing((each for each in operands if each not in members), boundary):
        if source.name in fixed:
            continue
        users = [node for node in group if source in node.all_input_nodes]
        outer = _cast(builder.at(users[0]), source, boundary(source.meta["val"].dtype))
        inner = _cast(builder, outer, source.meta["val"].dtype)
        last_before(source).append(outer)
        replace_operand(source, inner, users)
        found.append(inner)
    return found


def _outputs(program: EdgeProgram, builder: Builder, group: Sequence[Node], boundary: Boundary) -> list[Node]:
    """Returns the new last nodes of a group."""
    members, used = set(group), set(program.results())
    found: list[Node] = []
    for node in _crossing(group, boundary):
        outside = [
            user for user in node.users if user not in members and (user.op != "output" or node in used)
        ]
        if not outside:
            continue
        inner = _cast(builder.at(node), node, boundary(node.meta["val"].dtype))
        outer = _cast(builder, inner, node.meta["val"].dtype)
        outer.meta["crossing"] = node.name
        node.append(inner)
        inner.append(outer)
        replace_operand(node, outer, outside)
        rename_outputs(program, {node.name: outer.name})
        found.append(inner)
    return found


def _crossing(nodes: Iterable[Node], boundary: Boundary) -> list[Node]:
    """Returns the tensors of some nodes that cross in another dtype."""
    tensors = [node for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    return [node for node in tensors if boundary(node.meta["val"].dtype) != node.meta["val"].dtype]


def _cast(builder: Builder, node: Node, dtype: torch.dtype) -> Node:
    return builder.call(torch.ops.aten._to_copy.default, node, dtype=dtype)


def last_before(source: Node) -> Node:
    """Returns the node after which users of another one may be inserted: placeholders precede calls."""
    while source.next.op == "placeholder":
        source = source.next
    return source


def replace_operand(old: Node, new: Node, users: Iterable[Node]) -> None:
    for user in users:
        user.args = map_arg(user.args, lambda node: new if node is old else node)
        user.kwargs = map_arg(user.kwargs, lambda node: new if node is old else node)
