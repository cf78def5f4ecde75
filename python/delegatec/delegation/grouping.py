# SPDX-License-Identifier: Apache-2.0
"""Grouping of supported nodes into as few delegates as a directed acyclic graph allows, in linear time.

Along every path, supported and unsupported nodes alternate. The phase of a node is the maximum over all paths
to it of the number of edges from a supported to an unsupported node. No edge leads to a smaller phase, nor
within a phase from a supported to an unsupported node, so all supported nodes of one phase can run together:
contracting each phase to a node leaves the graph acyclic. No grouping has fewer groups: a path that leaves
and returns k times passes k + 1 groups, as a group that it returned to would depend on itself.

Calls that depend only on constants, such as the dequantization of a weight, can run at any time before their
first user. They are in its group if it is supported, so that they are not computed by an earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from torch.fx import Node


def constant_calls(nodes: Sequence[Node], constants: Collection[str]) -> frozenset[int]:
    """Returns the indices of calls that depend only on constants.

    Args:
        nodes: calls, in topological order.
        constants: names of placeholders.
    """
    found: dict[Node, int] = {}
    for position, node in enumerate(nodes):
        operands = node.all_input_nodes
        if operands and all(each in found or each.name in constants for each in operands):
            found[node] = position
    return frozenset(found.values())


def phases(
    predecessors: Sequence[Iterable[int]], supported: Sequence[bool], movable: Collection[int] = ()
) -> list[int]:
    """Returns the phase of each node.

    Args:
        predecessors: for each node, in topological order, the indices of its operands.
        supported: for each node, whether the backend supports it.
        movable: nodes that are in the phase of their first user, if they are supported.
    """
    phase = [0] * len(predecessors)
    for node, sources in enumerate(predecessors):
        here = supported[node]
        deepest = 0
        for source in sources:
            deepest = max(deepest, phase[source] + (supported[source] and not here))
        phase[node] = deepest
    if movable:
        _delay(phase, predecessors, supported, movable)
    return phase


def _delay(
    phase: list[int],
    predecessors: Sequence[Iterable[int]],
    supported: Sequence[bool],
    movable: Collection[int],
) -> None:
    latest: dict[int, int] = {}
    for node in range(len(phase) - 1, -1, -1):
        if node in movable and supported[node]:
            phase[node] = latest.get(node, phase[node])
        bound = phase[node] - (not supported[node])
        for source in predecessors[node]:
            if supported[source]:
                latest[source] = min(latest.get(source, bound), bound)


def convex_groups(
    predecessors: Sequence[Iterable[int]], supported: Sequence[bool], movable: Collection[int] = ()
) -> list[list[int]]:
    """Groups the supported nodes into as few groups as possible.

    Every group is convex (no path leaves and returns), and contracting every group leaves the graph acyclic.
    A group need not be connected.

    Args:
        predecessors: for each node, in topological order, the indices of its operands.
        supported: for each node, whether the backend supports it.
        movable: see `phases`.

    Returns:
        The groups in the order in which they can run, each in topological order.
    """
    groups: dict[int, list[int]] = {}
    for node, phase in enumerate(phases(predecessors, supported, movable)):
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
