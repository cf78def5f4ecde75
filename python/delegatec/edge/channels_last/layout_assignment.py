# SPDX-License-Identifier: Apache-2.0
"""The choice of a configuration for each call, so that rearranging values costs least.

Each move proposes a family: a configuration for each of many calls, such that the values between them need no
rearrangement. It starts at a value that is rearranged, and spreads over all calls that can follow.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

from torch.fx import Graph, Node

from delegatec.edge.analysis.labeling import End, Labeling, Value
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.channels_last.labeled_op import LabeledOp
from delegatec.edge.channels_last.layouts import Layout
from delegatec.edge.channels_last.moves import Move
from delegatec.edge.channels_last.operation import Config, Operation

# Cost of a permutation besides the bytes that it moves.
_CALL: Final = 4096
_MOST_ROUNDS: Final = 8

# Elementwise calls after a product that stay next to it if that costs nothing: targets fuse them.
_FUSED: Final = 4

Family = dict[Node, Any]
"""A configuration for each of some calls."""


class LayoutAssignment:
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
        self._operands: dict[Node, list[End[Node]]] = {}
        users: dict[Node, list[End[Node]]] = {node: [] for node in operations}
        for node, operation in operations.items():
            formats = [cache(partial(operation.operand, index)) for index in range(len(operation.operands))]
            self._operands[node] = [End(node, each) for each in formats]
            for operand, end in zip(operation.operands, self._operands[node], strict=True):
                if not is_free(operand):
                    users[operand].append(end)
        self._values: dict[Node, Value[Node]] = {}
        near: dict[Node, int] = {}
        for node, operation in operations.items():
            near[node] = _nearness(operation, near)
            if users[node]:
                cost = _CALL + math.prod(shape_of(node)) * dtype_of(node).itemsize + near[node]
                self._values[node] = Value(cost, End(node, cache(operation.result)), tuple(users[node]))
        start = {node: operation.start() for node, operation in operations.items()}
        self._labeling = Labeling(start, self._values.values())

    @property
    def configs(self) -> Mapping[Node, Any]:
        """The configuration of each call."""
        return self._labeling.labels

    def solve(self) -> None:
        """Improves the labels until no family does."""
        for _ in range(_MOST_ROUNDS):
            if not self._labeling.improve(self._families()):
                break

    def _families(self) -> Iterator[Family]:
        """Yields families that start at the values that are rearranged now, each configuration in one."""
        seen: set[tuple[Node, Config]] = set()
        for node, value in self._values.items():
            for end in value.consumers:
                own: Any = self._labeling.format(value.producer)
                needed: Any = self._labeling.format(end)
                if own == needed:
                    continue
                user = end.variable
                starts = (
                    (node, self._operations[node].for_result(needed)),
                    (user, self._follow(end, node, own)),
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

        def add(node: Node, found: Config | None) -> None:
            if found is not None:
                family[node] = found
                pending.append(node)

        while pending:
            node = pending.popleft()
            config = family[node]
            for operand, end in zip(self._operations[node].operands, self._operands[node], strict=True):
                if operand not in family and operand in self._values:
                    layout: Any = end.format(config)
                    add(operand, self._operations[operand].for_result(layout))
            if node in self._values:
                layout = self._values[node].producer.format(config)
                for end in self._values[node].consumers:
                    if end.variable not in family:
                        add(end.variable, self._follow(end, node, layout))
        return family

    def _follow(self, end: End[Node], operand: Node, layout: Layout) -> Config | None:
        """Returns a configuration in which a user takes an operand in a layout, if there is one."""
        user = self._operations[end.variable]
        return user.for_operand(user.operands.index(operand), layout)


def _nearness(operation: Operation, near: Mapping[Node, int]) -> int:
    """Returns how near a call is to a product or a convolution before it; 0 if it is far."""
    if isinstance(operation, LabeledOp):
        return _FUSED
    nearest = max((near[operand] for operand in operation.operands), default=0)
    return nearest if isinstance(operation, Move) else max(nearest - 1, 0)
