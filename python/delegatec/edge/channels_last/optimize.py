# SPDX-License-Identifier: Apache-2.0
"""Chooses the order in which each value of a program is stored, and removes permutations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, operand_nodes, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.layout_assignment import LayoutAssignment
from delegatec.edge.channels_last.operation import Fixed, Operation
from delegatec.edge.channels_last.rules import RULES, OperationRules, operation_of
from delegatec.edge.channels_last.storage import Storage, Stored
from delegatec.edge.channels_last.symbolic_sizes import SymbolicSizes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


IsLegal = Callable[[Node], bool]
"""Whether the target supports a call."""

# Calls in an order that the target does not support remain row-major, and the others are chosen again.
_MOST_ATTEMPTS: Final = 8


def optimize_layout(
    program: EdgeProgram, rules: OperationRules = RULES, is_legal: IsLegal | None = None
) -> bool:
    """Removes permutations from a private program, and folds those of constants.

    Args:
        program: edited in place.
        rules: for the calls that can be computed in several orders of dimensions.
        is_legal: for calls that the target does not support in all orders.
    """
    graph = program.graph
    if not graph.find_nodes(op="call_function", target=aten.permute.default):
        return False
    sizes = SymbolicSizes(program) if _is_dynamic(program) else None
    if sizes is not None and not sizes.encode():
        return False
    is_changed = _split_by_slices(Builder(program))
    operations = {node: operation_of(node, rules) for node in graph.nodes}
    for _ in range(_MOST_ATTEMPTS):
        attempt = _Attempt(program, operations)
        if sizes is not None:
            sizes.decode()
        illegal = attempt.illegal(is_legal) if is_legal is not None else set()
        if not illegal:
            is_changed |= attempt.is_changed
            break
        attempt.undo()
        if sizes is not None:
            sizes.encode()
        if any(isinstance(operations[node], Fixed) for node in illegal):
            break
        operations.update({node: Fixed(node, operand_nodes(node)) for node in illegal})
    if sizes is not None:
        sizes.decode()
    graph.eliminate_dead_code()
    program.erase_unused_placeholders()
    return is_changed


class _Attempt:
    """The calls of a program, emitted in the configurations that cost least.

    Args:
        program: edited in place.
        operations: for each of its nodes.
    """

    def __init__(self, program: EdgeProgram, operations: Mapping[Node, Operation]) -> None:
        self._graph = program.graph
        self._storage = Storage(Builder(program), dict(program.fixed_constants()))
        self._before = {node: (node.args, node.kwargs) for node in operations}
        self._made: dict[Node, Node] = {}  # new node -> the call that it was emitted for
        free = _free(self._storage, operations)
        assignment = LayoutAssignment(program.graph, operations, free.__contains__)
        assignment.solve()
        values: dict[Node, Stored] = {}
        for node, operation in operations.items():
            self._storage.builder.at(node)
            before = node.prev
            values[node] = operation.emit(self._storage, values, assignment.configs[node])
            made = node.prev
            while made is not before and node.op != "placeholder":
                self._made[made] = node
                made = made.prev
        self.is_changed = self._storage.is_changed
        self.is_changed |= any(value.node is not node for node, value in values.items())

    def illegal(self, is_legal: IsLegal) -> set[Node]:
        """Returns the calls for which an illegal call was emitted."""
        return {node for made, node in self._made.items() if not is_legal(made)}

    def undo(self) -> None:
        """Restores the program, but for dead code."""
        for node, (args, kwargs) in self._before.items():
            node.args, node.kwargs = args, kwargs


def _is_dynamic(program: EdgeProgram) -> bool:
    values = (node.meta.get("val") for node in program.graph.nodes)
    return any(
        isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and is_dynamic(value.shape))
        for value in values
    )


def _split_by_slices(builder: Builder) -> bool:
    """Replaces splits, which have several results, by slices."""
    graph = builder.program.graph
    splits = graph.find_nodes(op="call_function", target=aten.split_with_sizes.default)
    splits = [node for node in splits if all(isinstance(size, int) for size in bind(node)["split_sizes"])]
    for node in splits:
        bound = bind(node)
        dim = positive(bound["dim"], len(shape_of(bound["self"])))
        starts = [0]
        for size in bound["split_sizes"]:
            starts.append(starts[-1] + size)
        for user in list(node.users):
            index = user.args[1]
            assert user.target is operator.getitem and isinstance(index, int)
            part = builder.at(user).call(
                aten.slice.Tensor, bound["self"], dim, starts[index], starts[index + 1], val=user.meta["val"]
            )
            user.replace_all_uses_with(part)
            graph.erase_node(user)
        graph.erase_node(node)
    return bool(splits)


def _free(storage: Storage, operations: Mapping[Node, Operation]) -> set[Node]:
    """Returns the constants, and the values that only movements compute from them."""
    free: set[Node] = set()
    for node in operations:
        is_move = node.target in (
            aten.permute.default,
            aten.view.default,
            aten.squeeze.dims,
            aten.unsqueeze.default,
        )
        if storage.is_free(node) or (is_move and node.args[0] in free):
            free.add(node)
    return free
