# SPDX-License-Identifier: Apache-2.0
"""Channels-last inputs and outputs of a method, for backends whose delegates exchange them without copies.

Such a delegate has an input with the dimensions in memory order, and permutes it. Outside of it is the
inverse permutation of the method's input, which has the same bytes as its operand, so that emission needs no
copy. The same holds for outputs. Conversions next to the delegate, such as the quantization of an input, are
computed in memory order, too. `meta["crossing"]` of a value at the boundary is the name of the one that it
replaces, for reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from delegatec.delegation import plugins
from delegatec.delegation.delegates.original import Original
from delegatec.delegation.lowering.boundary import last_before, replace_operand
from delegatec.delegation.partitioning.checks import innermost_partitioner, query
from delegatec.delegation.protocol.backend import Backend
from delegatec.delegation.protocol.partitioner import Partitioner
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.builder import Builder
from delegatec.edge.dim_orders import DimOrder, inverse
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

# Elementwise calls, which compute from their first operand.
_CONVERSIONS: Final = frozenset(
    {
        aten._to_copy.default,
        DEQUANTIZE,
        QUANTIZE,
    }
)


def order_boundary(
    program: EdgeProgram, groups: Sequence[Sequence[Node]], backend: Backend, partitioner: Partitioner
) -> list[list[Node]]:
    """Permutes channels-last inputs and outputs inside of groups.

    Args:
        program: edited in place.
        groups: of its nodes, in topological order each.
        backend: of the groups; see `Backend.orders_boundary`.
        partitioner: decides whether the backend supports a permutation.

    Returns:
        The groups, with the permutations inside of them.
    """
    if not program.dim_orders and not program.output_orders:
        return [list(group) for group in groups]
    boundary = _Boundary(program, backend, innermost_partitioner(partitioner))
    return [[*boundary.inputs(group), *group, *boundary.outputs(group)] for group in groups]


class _Boundary:
    """The inputs and outputs of a method that are not row-major."""

    def __init__(self, program: EdgeProgram, backend: Backend, partitioner: Partitioner) -> None:
        self._program = program
        self._backend = backend
        self._partitioner = partitioner
        self._builder = Builder(program)
        mutated = program.mutated_inputs()
        self._orders = {
            node: program.dim_orders[node.name]
            for node in program.user_inputs()
            if node.name in program.dim_orders and node.name not in mutated
        }

    def inputs(self, group: Sequence[Node]) -> list[Node]:
        """Returns the new first nodes of a group."""
        members = set(group)
        operands = dict.fromkeys(source for node in group for source in node.all_input_nodes)
        found = [self._input(source, members, group) for source in operands if source not in members]
        return [node for node in found if node is not None]

    def _input(self, source: Node, members: set[Node], group: Sequence[Node]) -> Node | None:
        """Returns the permutation of an operand inside of a group, if it is exchanged in another order."""
        chain = [source]
        while chain[-1].target in _CONVERSIONS and set(chain[-1].users) <= (members | set(chain)):
            chain += chain[-1].all_input_nodes
        order = self._orders.get(chain[-1])
        if order is None or is_dynamic(source.meta["val"].shape):
            return None
        users = [node for node in group if source in node.all_input_nodes]
        made = [self._builder.at(users[0]).call(aten.permute.default, chain[-1], list(order))]
        last_before(chain[-1]).append(made[0])
        for node in reversed(chain[:-1]):
            made.append(self._builder.at(node).call(node.target, made[-1], *node.args[1:], **node.kwargs))
        inner = self._builder.at(users[0]).call(aten.permute.default, made[-1], list(inverse(order)))
        if not self._supports(inner):
            self._erase([inner, *reversed(made)])
            return None
        replace_operand(source, inner, users)
        # reports have the original names, and do not count these nodes
        made[-1].meta["crossing"] = inner.meta["crossing"] = source.name
        self._erase(chain[:-1])
        return inner

    def outputs(self, group: Sequence[Node]) -> list[Node]:
        """Returns the new last nodes of a group."""
        output, members = self._program.output_node(), set(group)
        results: Any = output.args[0]
        owned = list(results)
        made: dict[Node, Node | None] = {}
        inside: dict[Node, Node] = {}
        position = -1
        for index, spec in enumerate(self._program.output_specs):
            position += spec.kind is OutputKind.USER_OUTPUT
            if spec.kind is not OutputKind.USER_OUTPUT or position not in self._program.output_orders:
                continue
            order, result = self._program.output_orders[position], results[index]
            if result not in made:
                made[result] = self._output(result, members, inside, order)
            outer = made[result]
            if outer is not None:
                owned[index] = outer
                self._program.output_specs[index] = replace(spec, arg=replace(spec.arg, name=outer.name))
        output.args = (tuple(owned),)
        for result, outer in made.items():
            while outer is not None and result not in members and not result.users:
                (source,) = result.all_input_nodes
                self._program.graph.erase_node(result)
                result = source
        return list(inside.values())

    def _output(
        self, result: Node, members: set[Node], inside: dict[Node, Node], order: DimOrder
    ) -> Node | None:
        """Returns a result that crosses the boundary in an order of dimensions.

        Args:
            result: of the program.
            members: nodes of the group.
            inside: values of the group -> their permutations inside of it, for results so far.
            order: of the result.
        """
        chain = [result]
        while chain[-1] not in members and chain[-1].target in _CONVERSIONS and len(chain[-1].users) == 1:
            chain += chain[-1].all_input_nodes
        if chain[-1] not in members or is_dynamic(result.meta["val"].shape):
            return None
        inner = inside.get(chain[-1])
        if inner is None:
            inner = self._builder.at(chain[-1]).call(aten.permute.default, chain[-1], list(order))
            chain[-1].append(inner)
            if not self._supports(inner):
                self._erase([inner])
                return None
            inner.meta["crossing"] = chain[-1].name
            inside[chain[-1]] = inner
        last = inner
        for node in reversed(chain[:-1]):
            last = self._builder.at(node).call(node.target, last, *node.args[1:], **node.kwargs)
        outer = self._builder.at(chain[0]).call(aten.permute.default, last, list(inverse(order)))
        last.append(outer)
        outer.meta["crossing"] = result.name
        return outer

    def _erase(self, nodes: Sequence[Node]) -> None:
        """Erases unused nodes, users first."""
        for node in nodes:
            if not node.users:
                self._program.graph.erase_node(node)

    def _supports(self, permutation: Node) -> bool:
        """Whether delegates exchange the operand or the result of a permutation, and compute it."""
        if not plugins.call(Backend.orders_boundary, self._backend, permutation.meta["val"]):
            return False
        alone = Original(PartitionView(self._program, [permutation]), {}).program
        # a call that only moves data is not worth a delegate
        rejections = query(self._partitioner, alone).rejections
        return all(rejection.rule == "trivial" for rejection in rejections)
