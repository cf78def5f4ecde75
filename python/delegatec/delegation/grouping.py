# SPDX-License-Identifier: Apache-2.0
"""Grouping of supported nodes into as few delegates as a directed acyclic graph allows, in linear time.

Along every path, nodes that a backend takes and nodes that it leaves alternate. Let the phase of a node be
the largest number of times that a path to it goes from a taken node to a left one. An edge never leads to a
smaller phase, and within a phase never from a taken node to a left one, so all taken nodes of one phase can
run as one step between the left ones: contracting each phase to a node leaves the graph acyclic. No
grouping has fewer
groups: a path that leaves and returns k times passes k + 1 groups, as a group that it returned to would
wait for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def phases(predecessors: Sequence[Iterable[int]], taken: Sequence[bool]) -> list[int]:
    """The phase of each node.

    Args:
        predecessors: for each node, in topological order, the indices of the nodes that it reads.
        taken: for each node, whether the backend takes it.

    Returns:
        For each node how often a path to it goes from a taken node to one that is not, at most.
    """
    phase = [0] * len(predecessors)
    for node, sources in enumerate(predecessors):
        here = taken[node]
        deepest = 0
        for source in sources:
            deepest = max(deepest, phase[source] + (taken[source] and not here))
        phase[node] = deepest
    return phase


def convex_groups(predecessors: Sequence[Iterable[int]], taken: Sequence[bool]) -> list[list[int]]:
    """The taken nodes in as few groups as possible.

    Every group is convex (no path leaves and returns), and contracting every group leaves the graph acyclic.
    A group need not be connected: what can run in one step is one step.

    Args:
        predecessors: for each node, in topological order, the indices of the nodes that it reads.
        taken: for each node, whether the backend takes it.

    Returns:
        The groups in the order in which they can run, each in topological order.
    """
    groups: dict[int, list[int]] = {}
    for node, phase in enumerate(phases(predecessors, taken)):
        if taken[node]:
            groups.setdefault(phase, []).append(node)
    return [groups[phase] for phase in sorted(groups)]


def connected_components(group: Sequence[int], predecessors: Sequence[Iterable[int]]) -> list[list[int]]:
    """The parts of a group that share no edge.

    Each part, and the group without some of its parts, is convex if the group is.

    Args:
        group: indices in topological order.
        predecessors: for each node of the graph, the indices of the nodes that it reads.

    Returns:
        The parts, ordered by their first node, each in topological order.
    """
    parent = {node: node for node in group}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in group:
        for source in predecessors[node]:
            if source in parent:
                a, b = root(source), root(node)
                parent[max(a, b)] = min(a, b)
    parts: dict[int, list[int]] = {}
    for node in group:
        parts.setdefault(root(node), []).append(node)
    return list(parts.values())
