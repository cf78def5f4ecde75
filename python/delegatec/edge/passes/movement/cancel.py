# SPDX-License-Identifier: Apache-2.0
"""Removes permutations around elementwise operators."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.movement.arrangement import sizes_of
from delegatec.edge.passes.redirect import redirect
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_Order = tuple[int, ...]


def cancel_permutations(program: EdgeProgram) -> bool:
    """Removes permutations that restore the order of dimensions after elementwise operators.

    All operands of these operators have to be permuted in the same way, or to have one element, and all
    results have to be restored: no permutation is added.
    """
    canceler = _Canceler(program)
    for node in program.graph.nodes:
        canceler.visit(node)
    return redirect(canceler.restored)


class _Canceler:
    """Edits elementwise operators in place; `restored` are the permutations to replace by them."""

    def __init__(self, program: EdgeProgram) -> None:
        self._builder = Builder(program)
        # calls that cannot be computed in an order of dimensions
        self._failed: set[tuple[Node, _Order]] = set()
        self.restored: dict[Node, Node] = {}

    def visit(self, node: Node) -> None:
        """Removes a permutation if the operators before it can be computed in its order."""
        order = _order(node)
        if order is None or node in self.restored:
            return
        for each in self._region(node.all_input_nodes[0], order):
            self.restored.update({user: each for user in each.users if _order(user) == order})
            for operand in [operand for operand in each.all_input_nodes if self._cancels(operand, order)]:
                each.replace_input_with(operand, operand.all_input_nodes[0])
            sizes = shape_of(each)
            each.meta["val"] = self._builder.empty([sizes[dim] for dim in order], dtype_of(each))

    def _region(self, first: Node, order: _Order) -> list[Node]:
        """Returns the calls around one that can be computed in another order; none if one of them cannot."""
        sizes, region, sources = sizes_of(first), dict[Node, None](), list[Node]()
        pending = [(first, True)]
        while pending:
            node, is_user = pending.pop()
            if _is_elementwise(node) and sizes_of(node) == sizes and (node, order) not in self._failed:
                if node not in region:
                    region[node] = None
                    pending += [(operand, False) for operand in node.all_input_nodes]
                    pending += [(user, True) for user in node.users if _order(user) != order]
            elif not is_user and self._cancels(node, order):
                sources += node.all_input_nodes
            elif is_user or any(size != 1 for size in sizes_of(node) or ()):
                break
        else:
            if sources and not any(source in region for source in sources):
                return list(region)
        self._failed.update((node, order) for node in region)
        return []

    def _cancels(self, node: Node, order: _Order) -> bool:
        before = None if node in self.restored else _order(node)
        return before is not None and [before[dim] for dim in order] == list(range(len(order)))


def _order(node: Node) -> _Order | None:
    if node.target is not aten.permute.default:
        return None
    dims: Any = node.args[1]
    return tuple(dim % len(dims) for dim in dims)


def _is_elementwise(node: Node) -> bool:
    tags = node.target.tags if isinstance(node.target, OpOverload) else ()
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
