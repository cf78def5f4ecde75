# SPDX-License-Identifier: Apache-2.0
"""Groups are convex, contract to an acyclic graph, and are as few as possible, on random graphs."""

from __future__ import annotations

import random
from graphlib import TopologicalSorter

from hypothesis import given, settings
from hypothesis import strategies as st

from delegatec.delegation.grouping import connected_components, convex_groups
from delegatec.delegation.testing import lines_run

Dag = tuple[list[list[int]], list[bool]]


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    size = draw(st.integers(0, 40))
    predecessors = [
        sorted(draw(st.sets(st.integers(0, node - 1), max_size=4))) if node else [] for node in range(size)
    ]
    return predecessors, draw(st.lists(st.booleans(), min_size=size, max_size=size))


def reachable(predecessors: list[list[int]]) -> list[set[int]]:
    ancestors: list[set[int]] = []
    for sources in predecessors:
        ancestors.append(set(sources).union(*(ancestors[s] for s in sources)))
    return ancestors


def contracted_is_acyclic(predecessors: list[list[int]], groups: list[list[int]]) -> bool:
    owner = {node: -1 - index for index, group in enumerate(groups) for node in group}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for node, sources in enumerate(predecessors):
        here = owner.get(node, node)
        sorter.add(here, *(owner.get(s, s) for s in sources if owner.get(s, s) != here))
    try:
        list(sorter.static_order())
    except ValueError:
        return False
    return True


@given(dags())
@settings(max_examples=100, deadline=None)
def test_groups_are_disjoint_ordered_and_cover_supported_nodes(dag: Dag) -> None:
    predecessors, supported = dag
    groups = convex_groups(predecessors, supported)
    assert sorted(n for g in groups for n in g) == [n for n, t in enumerate(supported) if t]
    assert all(g == sorted(g) and g for g in groups)


@given(dags())
@settings(max_examples=100, deadline=None)
def test_groups_are_convex_and_contract_to_an_acyclic_graph(dag: Dag) -> None:
    predecessors, supported = dag
    groups = convex_groups(predecessors, supported)
    ancestors = reachable(predecessors)
    for group in groups:
        members = set(group)
        for node in range(len(predecessors)):
            if node not in members and ancestors[node] & members:
                assert not any(node in ancestors[m] for m in members), (group, node)
    assert contracted_is_acyclic(predecessors, groups)


@given(dags())
@settings(max_examples=100, deadline=None)
def test_number_of_groups_is_the_lower_bound(dag: Dag) -> None:
    predecessors, supported = dag
    # The lower bound, by brute force over paths: the number of returns plus one.
    best: dict[tuple[int, bool], int] = {}
    for node, sources in enumerate(predecessors):
        if supported[node]:
            inside = [best[s, True] for s in sources if (s, True) in best]
            outside = [best[s, False] + 1 for s in sources if (s, False) in best]
            best[node, True] = max([1, *inside, *outside])
        else:
            reached = [best[s, t] for s in sources for t in (True, False) if (s, t) in best]
            if reached:
                best[node, False] = max(reached)
    bound = max((count for (_, inside), count in best.items() if inside), default=0)
    assert len(convex_groups(predecessors, supported)) == bound


@given(dags())
@settings(max_examples=100, deadline=None)
def test_dropping_components_keeps_the_rest_convex(dag: Dag) -> None:
    predecessors, supported = dag
    kept: list[list[int]] = []
    for group in convex_groups(predecessors, supported):
        parts = connected_components(group, predecessors)
        assert sorted(n for p in parts for n in p) == group
        kept.append(sorted(n for p in parts[::2] for n in p))
    assert contracted_is_acyclic(predecessors, kept)


def test_fully_supported_graph_is_one_group() -> None:
    predecessors: list[list[int]] = [[]] + [[n - 1, n // 2] for n in range(1, 1000)]
    assert convex_groups(predecessors, [True] * 1000) == [list(range(1000))]


def test_diamond_around_an_outside_node_is_two_groups() -> None:
    assert convex_groups([[], [0], [0], [1, 2]], [True, False, True, True]) == [[0, 2], [3]]


@given(dags(), st.data())
@settings(max_examples=100, deadline=None)
def test_movable_nodes_are_in_the_group_of_their_first_user(dag: Dag, data: st.DataObject) -> None:
    predecessors, supported = dag
    movable: set[int] = set()
    for node, sources in enumerate(predecessors):
        if movable.issuperset(sources) and data.draw(st.booleans()):
            movable.add(node)
    groups = convex_groups(predecessors, supported, movable)
    assert len(groups) == len(convex_groups(predecessors, supported))
    assert contracted_is_acyclic(predecessors, groups)
    owner = {node: index for index, group in enumerate(groups) for node in group}
    for node in movable:
        users = [user for user, sources in enumerate(predecessors) if node in sources]
        if node in owner and users and all(user in owner for user in users):
            assert owner[node] == min(owner[user] for user in users)


def test_cost_is_linear() -> None:
    def cost(size: int) -> int:
        rng = random.Random(7)
        predecessors = [sorted({rng.randrange(n) for _ in range(3)}) if n else [] for n in range(size)]
        supported = [rng.random() < 0.9 for _ in range(size)]

        def work() -> None:
            for group in convex_groups(predecessors, supported):
                connected_components(group, predecessors)

        return lines_run(work)

    # Ten times the nodes: a quadratic algorithm would run a hundred times as many lines.
    assert cost(5_000) < 15 * cost(500)
