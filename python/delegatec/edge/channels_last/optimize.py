# SPDX-License-Identifier: Apache-2.0
"""Chooses the order in which each value of a program is stored, and removes permutations."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operation import Operation
from delegatec.edge.channels_last.problem import Problem
from delegatec.edge.channels_last.rules import RULES, OperationRules, operation_of
from delegatec.edge.channels_last.storage import Storage, Stored
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


def optimize_layout(program: EdgeProgram, rules: OperationRules = RULES) -> bool:
    """Removes permutations from a private program, and folds the others into constants if possible.

    Args:
        program: edited in place. Programs with dynamic sizes are not edited.
        rules: for the calls that can be computed in several orders of dimensions.
    """
    graph = program.graph
    if not graph.find_nodes(op="call_function", target=aten.permute.default) or _is_dynamic(program):
        return False
    builder = Builder(program)
    is_changed = _split_by_slices(builder)
    constants = dict(program.fixed_constants())
    storage = Storage(builder, constants)
    operations = {node: operation_of(node, rules) for node in graph.nodes}
    free = _free(storage, operations)
    problem = Problem(graph, operations, free.__contains__)
    problem.solve()
    is_changed |= _apply(storage, operations, problem, free)
    graph.eliminate_dead_code()
    program.erase_unused_placeholders()
    return is_changed


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


def _free(storage: Storage, operations: dict[Node, Operation]) -> set[Node]:
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


def _apply(storage: Storage, operations: dict[Node, Operation], problem: Problem, free: set[Node]) -> bool:
    """Emits each call in its configuration."""
    values: dict[Node, Stored] = {}
    for node, operation in operations.items():
        storage.builder.at(node)
        values[node] = operation.emit(storage, values, problem.labels[node])
    return storage.is_changed or any(value.node is not node for node, value in values.items())
