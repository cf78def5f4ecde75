# SPDX-License-Identifier: Apache-2.0
"""The choice of a configuration for each call, so that rearranging values costs least.

It is improved by moves. A move is a family: a configuration for each of many calls, such that the values
between them need no rearrangement. It starts at a value that is rearranged, and spreads over all calls that
can follow. A minimum cut determines the calls that change to their configuration of the family, exactly, but
for values whose rearrangement depends on their producer in both ways.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from torch.fx import Graph, Node

from delegatec.edge.analysis.minimum_cut import INFINITE, Network
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.channels_last.groups import Grouped
from delegatec.edge.channels_last.layouts import Layout
from delegatec.edge.channels_last.moves import Move
from delegatec.edge.channels_last.operation import Config, Operation

# What a permutation costs besides the bytes that it moves.
_CALL: Final = 4096
_MOST_ROUNDS: Final = 8

# Elementwise calls after a product that stay next to it if that costs nothing: targets fuse them.
_FUSED: Final = 4

Labels = dict[Node, Any]
"""The configuration of each call."""
Family = dict[Node, Any]


class Problem:
    """The calls of a graph, and the values between them.

    Args:
        graph: the graph.
        operations: for each node.
        is_free: whether a value costs nothing to rearrange.
    """

    def __init__(
        self, graph: Graph, operations: Mapping[Node, Operation], is_free: Callable[[Node], bool]
    ) -> None:
        self._operations = operations
        self._users: dict[Node, list[tuple[Node, int]]] = {node: [] for node in operations}
        self._costs: dict[Node, int] = {}
        for node, operation in operations.items():
            for index, operand in enumerate(operation.operands):
                if not is_free(operand):
                    self._users[operand].append((node, index))
        near: dict[Node, int] = {}
        for node, users in self._users.items():
            near[node] = _nearness(operations[node], near)
            if users:
                self._costs[node] = _CALL + math.prod(shape_of(node)) * dtype_of(node).itemsize + near[node]
        self._operands: dict[tuple[Node, int, Config], Layout] = {}
        self._results: dict[tuple[Node, Config], Layout] = {}
        self.labels: Labels = {node: operation.start() for node, operation in operations.items()}

    def solve(self) -> None:
        """Improves the labels until no move does."""
        for _ in range(_MOST_ROUNDS):
            is_better = False
            for family in self._families():
                is_better |= self._move(family)
            if not is_better:
                break

    def cost(self, nodes: Iterable[Node] | None = None) -> int:
        """Returns the cost of rearranging values, of all by default, each once per layout of its users."""
        total = 0
        for node in self._costs if nodes is None else nodes:
            own = self._result(node, self.labels[node])
            needed = {self._operand(user, index, self.labels[user]) for user, index in self._users[node]}
            total += self._costs[node] * len(needed - {own})
        return total

    def _operand(self, node: Node, index: int, config: Config) -> Layout:
        key = (node, index, config)
        if key not in self._operands:
            self._operands[key] = self._operations[node].operand(index, config)
        return self._operands[key]

    def _result(self, node: Node, config: Config) -> Layout:
        key = (node, config)
        if key not in self._results:
            self._results[key] = self._operations[node].result(config)
        return self._results[key]

    # ---- families ----------------------------------------------------------------------------------------

    def _families(self) -> Iterator[Family]:
        """Yields families that start at the values that are rearranged now, each configuration in one."""
        seen: set[tuple[Node, Config]] = set()
        for node in self._costs:
            for user, index in self._users[node]:
                own = self._result(node, self.labels[node])
                needed = self._operand(user, index, self.labels[user])
                if own == needed:
                    continue
                starts = (
                    (node, self._operations[node].for_result(needed)),
                    (user, self._operations[user].for_operand(index, own)),
                )
                for start, config in starts:
                    if config is not None and (start, config) not in seen:
                        family = self._family(start, config)
                        seen.update(family.items())
                        yield family

    def _family(self, start: Node, config: Config) -> Family:
        """Spreads a configuration over all calls that can follow without a rearrangement."""
        family: Family = {start: config}
        pending = deque([start])
        while pending:
            node = pending.popleft()
            operation, config = self._operations[node], family[node]
            for index, operand in enumerate(operation.operands):
                if operand in family or operand not in self._costs:
                    continue
                layout = self._operand(node, index, config)
                found = self._operations[operand].for_result(layout)
                if found is not None:
                    family[operand] = found
                    pending.append(operand)
            layout = self._result(node, config)
            for user, index in self._users[node]:
                if user not in family:
                    found = self._operations[user].for_operand(index, layout)
                    if found is not None:
                        family[user] = found
                        pending.append(user)
        return family

    # ---- moves -------------------------------------------------------------------------------------------

    def _move(self, family: Family) -> bool:
        """Gives calls their configuration of a family, as far as it pays; returns whether it does."""
        network = Network()
        variables = {node: network.node() for node, config in family.items() if self.labels[node] != config}
        if not variables:
            return False
        touched = self._values(variables)
        for node in touched:
            self._add(network, variables, family, node)
        on_sink_side = network.sink_side()
        changed = {node: self.labels[node] for node in variables if on_sink_side[variables[node]]}
        before = self.cost(touched)
        self.labels.update({node: family[node] for node in changed})
        if self.cost(touched) < before:
            return True
        self.labels.update(changed)
        return False

    def _values(self, nodes: Iterable[Node]) -> dict[Node, None]:
        """Returns the results and the operands of calls, if rearranging them costs something."""
        values = dict[Node, None]()
        for node in nodes:
            values.update(dict.fromkeys((node, *self._operations[node].operands)))
        return {node: None for node in values if node in self._costs}

    def _add(self, network: Network, variables: Mapping[Node, int], family: Family, node: Node) -> None:
        """Adds the cost of a value: variables on the side of the source keep their configuration."""

        def at(each: Node) -> int:
            # one whose configuration is already that of the family has changed
            return variables.get(each, network.sink if each in family else network.source)

        producer, cost = at(node), self._costs[node]
        kept = self._result(node, self.labels[node])
        changed = self._result(node, family[node]) if node in family else kept
        keeping: dict[Layout, list[int]] = {}
        changing: dict[Layout, list[int]] = {}
        for user, index in self._users[node]:
            if at(user) != network.sink:
                layout = self._operand(user, index, self.labels[user])
                keeping.setdefault(layout, []).append(at(user))
            if at(user) != network.source:
                layout = self._operand(user, index, family[user])
                changing.setdefault(layout, []).append(at(user))
        for layout, nodes in keeping.items():
            if layout == kept == changed:
                continue
            any_keeps = network.node()
            for each in nodes:
                network.edge(each, any_keeps, INFINITE)
            # paid if one of them keeps its configuration, and the producer does not
            network.edge(any_keeps, producer if layout == kept else network.sink, cost)
        for layout, nodes in changing.items():
            if layout == kept == changed:
                continue
            any_changes = network.node()
            network.edge(producer if layout == changed else network.source, any_changes, cost)
            for each in nodes:
                network.edge(any_changes, each, INFINITE)


def _nearness(operation: Operation, near: Mapping[Node, int]) -> int:
    """Returns how near a call is to a product or a convolution before it; 0 if it is far."""
    if isinstance(operation, Grouped):
        return _FUSED
    nearest = max((near[operand] for operand in operation.operands), default=0)
    return nearest if isinstance(operation, Move) else max(nearest - 1, 0)
