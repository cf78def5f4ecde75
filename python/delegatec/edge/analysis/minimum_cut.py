# SPDX-License-Identifier: Apache-2.0
"""The minimum cut of a network, by augmenting paths in layers (Dinic)."""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60
"""A capacity that no minimum cut contains."""


class Network:
    """A directed network with a source and a sink.

    Attributes:
        source: the index of the source.
        sink: the index of the sink.
    """

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # indices of edges that leave each node
        self._heads: list[int] = []
        self._capacities: list[int] = []  # an edge and its reverse are at 2k and 2k + 1
        self.source, self.sink = 0, 1

    def node(self) -> int:
        """Adds a node."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, tail: int, head: int, capacity: int, reverse: int = 0) -> None:
        """Adds an edge, with a capacity in each direction: the costs if its ends are separated."""
        self._edges[tail].append(len(self._heads))
        self._edges[head].append(len(self._heads) + 1)
        self._heads += [head, tail]
        self._capacities += [capacity, reverse]

    def sink_side(self) -> list[bool]:
        """Returns for each node whether it is on the side of the sink, in the minimum cut closest to it."""
        while levels := self._levels():
            positions = [0] * len(self._edges)
            while self._augment(levels, positions):
                pass
        return self._reaching()

    def _reaching(self) -> list[bool]:
        """Returns for each node whether flow could still be sent from it to the sink."""
        found = [False] * len(self._edges)
        found[self.sink] = True
        stack = [self.sink]
        while stack:
            head = stack.pop()
            for edge in self._edges[head]:
                tail = self._heads[edge]
                if self._capacities[edge ^ 1] and not found[tail]:
                    found[tail] = True
                    stack.append(tail)
        return found

    def _levels(self) -> list[int]:
        """Returns the distances from the source; none if the sink cannot be reached."""
        levels = [-1] * len(self._edges)
        levels[self.source] = 0
        queue = deque([self.source])
        while queue:
            tail = queue.popleft()
            for edge in self._edges[tail]:
                head = self._heads[edge]
                if self._capacities[edge] and levels[head] < 0:
                    levels[head] = levels[tail] + 1
                    queue.append(head)
        return levels if levels[self.sink] >= 0 else []

    def _augment(self, levels: list[int], positions: list[int]) -> int:
        """Sends flow along one path to the sink, and returns how much; 0 if there is no path."""
        path: list[int] = []
        node = self.source
        while node != self.sink:
            edges = self._edges[node]
            while positions[node] < len(edges):
                edge = edges[positions[node]]
                if self._capacities[edge] and levels[self._heads[edge]] == levels[node] + 1:
                    break
                positions[node] += 1
            else:
                if not path:
                    return 0
                node = self._heads[path.pop() ^ 1]
                positions[node] += 1
                continue
            path.append(edge)
            node = self._heads[edge]
        flow = min(self._capacities[edge] for edge in path)
        for edge in path:
            self._capacities[edge] -= flow
            self._capacities[edge ^ 1] += flow
        return flow
