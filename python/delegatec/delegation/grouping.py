# SPDX-License-Identifier: Apache-2.0
"""Grouping of supported nodes into as few delegates as a directed acyclic graph allows, in linear time.

Along every path, supported and unsupported nodes alternate. The phase of a node is the maximum over all paths
to it of the number of edges from a supported to an unsupported node. No edge leads to a smaller phase, nor
within a phase from a supported to an unsupported node, so all supported nodes of one phase can run in one
step: contracting each phase to a node leaves the graph acyclic. No grouping has fewer groups: a path that
leaves and returns k times passes k + 1 groups, as a group that it returned to would depend on itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def phases(predecessors: Sequence[Iterable[int]], supported: Sequence[bool]) -> list[int]:
    """Returns the phase of each node.

    Args:
        predecessors: for each node, in topological order, the indices of its operands.
        supported: for each node, whether the backend supports it.
    """
    phase = [0] * len(predecessors)
    for node, sources in enumerate(predecessors):
        here = supported[node]
        deepest = 0
        for source in sources:
            deepest = max(deepest, phase[source] + (supported[source] and not here))
        phase[node] = deepest
    return phase


def convex_groups(predecessors: Sequence[Iterable[int]], supported: Sequence[bool]) -> list[list[int]]:
    """Groups the supported nodes into as few groups as possible.

    Every group is convex (no path leaves and returns), and contracting every group leaves the graph acyclic.
    A group need not be connected.

    Args:
        predecessors: for each node, in topological order, the indices of its operands.
        supported: for each node, whether the backend supports it.

    Returns:
        The groups in the order in which they can run, each in topological order.
    """
    groups: dict[int, list[int]] = {}
    for node, phase in enumerate(phases(predecessors, supported)):
        if supported[node]:
            groups.setdefault(phase, []).append(node)
    return [groups[phase] for phase in sorted(groups)]


def connected_components(group: Sequence[int], predecessors: Sequence[Iterable[int]]) -> list[list[int]]:
    """Splits a group into connected components.

    Each component, and the group without some components, is convex if the group is.

    Args:
        group: indices in topological order.
        predecessors: for each node of the graph, the indices of its operands.

    Returns:
        The components, ordered by their first node, each in topological order.
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
