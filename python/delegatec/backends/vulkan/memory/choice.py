# SPDX-License-Identifier: Apache-2.0
"""Chooses representations so that transitions between them cost least.

A variable is a group of tensors that have one representation. A value costs one transition for each
representation, other than its producer's, that its consumers have. That is a labelling problem: with two
representations a minimum cut solves it exactly; with more, moves that are each a minimum cut (alpha
expansion: Boykov, Veksler and Zabih 2001) improve a labelling until none does. A part of the graph in which
one representation is free of transitions needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from delegatec.backends.vulkan.memory.representation import Representation, Representations
from delegatec.edge.analysis.minimum_cut import INFINITE, Network


@dataclass(frozen=True)
class Transfer:
    """A value that one variable produces and others consume.

    Attributes:
        producer: index of the variable.
        consumers: indices of the others.
        cost: of one transition.
    """

    producer: int
    consumers: frozenset[int]
    cost: int


@dataclass
class Problem:
    """Variables and what their choice costs.

    Attributes:
        domains: the possible representations of each variable.
        transfers: values between variables.
        links: pairs of variables that must have the same storage.
        preference: representations, the preferred first. It decides between choices of equal cost.
    """

    domains: list[Representations]
    preference: Sequence[Representation]
    transfers: list[Transfer] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)

    def cost(self, labels: Sequence[Representation]) -> int:
        """Returns the cost of a choice for all variables."""
        return sum(_cost(transfer, labels) for transfer in self.transfers) + sum(
            self.preference.index(label) for label in labels
        )


def _cost(transfer: Transfer, labels: Sequence[Representation]) -> int:
    needed = {labels[consumer] for consumer in transfer.consumers}
    return transfer.cost * len(needed - {labels[transfer.producer]})


def choose(problem: Problem) -> list[Representation]:
    """Returns a representation for each variable."""
    labels = _start(problem)
    for component in _components(problem):
        uniform = _uniform(problem, component, labels)
        if uniform is not None:
            for variable in component:
                labels[variable] = uniform
        else:
            _improve(problem, component, labels)
    return labels


def _start(problem: Problem) -> list[Representation]:
    labels = [next(each for each in problem.preference if each in domain) for domain in problem.domains]
    for first, second in problem.links:
        pairs = (
            (one, other)
            for one in problem.preference
            for other in problem.preference
            if one in problem.domains[first] and other in problem.domains[second]
        )
        labels[first], labels[second] = next(
            (one, other) for one, other in pairs if one.is_texture == other.is_texture
        )
    return labels


def _components(problem: Problem) -> list[list[int]]:
    """Returns the connected variables that have a choice."""
    root = list(range(len(problem.domains)))

    def find(variable: int) -> int:
        while root[variable] != variable:
            root[variable] = root[root[variable]]
            variable = root[variable]
        return variable

    is_free = [len(domain) > 1 for domain in problem.domains]
    groups = [(each.producer, *each.consumers) for each in problem.transfers] + problem.links
    for group in groups:
        free = [variable for variable in group if is_free[variable]]
        for variable in free[1:]:
            root[find(variable)] = find(free[0])
    found: dict[int, list[int]] = {}
    for variable, free_here in enumerate(is_free):
        if free_here:
            found.setdefault(find(variable), []).append(variable)
    return list(found.values())


def _neighbors(problem: Problem, component: Iterable[int]) -> set[int]:
    members = set(component)
    touched: set[int] = set()
    for transfer in problem.transfers:
        ends = {transfer.producer, *transfer.consumers}
        if ends & members:
            touched |= ends
    for link in problem.links:
        if members & set(link):
            touched |= set(link)
    return touched - members


def _uniform(
    problem: Problem, component: Sequence[int], labels: Sequence[Representation]
) -> Representation | None:
    """Returns a representation for a component that needs no transition, if there is one."""
    common = frozenset.intersection(*(problem.domains[variable] for variable in component))
    outside = {labels[variable] for variable in _neighbors(problem, component)}
    if len(outside) > 1:
        return None
    return next((each for each in problem.preference if each in common and outside <= {each}), None)


def _improve(problem: Problem, component: Sequence[int], labels: list[Representation]) -> None:
    """Moves variables of a component to one representation after another, as long as that costs less."""
    local = _part(problem, component)
    best = local.cost(labels)
    improved = True
    while improved:
        improved = False
        for target in problem.preference:
            moved = _expanded(local, component, labels, target)
            cost = local.cost(moved)
            if cost < best:
                labels[:], best, improved = moved, cost, True


def _part(problem: Problem, component: Sequence[int]) -> Problem:
    members = set(component)
    return Problem(
        problem.domains,
        problem.preference,
        [each for each in problem.transfers if members & {each.producer, *each.consumers}],
        [link for link in problem.links if members & set(link)],
    )


def _expanded(
    problem: Problem, component: Sequence[int], labels: Sequence[Representation], target: Representation
) -> list[Representation]:
    """Returns the cheapest labelling in which variables keep their representation or get the target.

    In the network, variables on the side of the source keep theirs, as many as the cost allows.
    """
    network = Network()
    nodes: dict[int, int] = {}
    for variable in component:
        if target in problem.domains[variable] and labels[variable] is not target:
            nodes[variable] = network.node()

    def at(variable: int) -> int:
        fixed = network.sink if labels[variable] is target else network.source
        return nodes.get(variable, fixed)

    for transfer in problem.transfers:
        _add_transfer(network, transfer, labels, target, at)
    for first, second in problem.links:
        if labels[first].is_texture != target.is_texture:
            network.edge(at(first), at(second), INFINITE, INFINITE)
    on_sink_side = network.sink_side()
    return [
        target if variable in nodes and on_sink_side[nodes[variable]] else label
        for variable, label in enumerate(labels)
    ]


def _add_transfer(
    network: Network,
    transfer: Transfer,
    labels: Sequence[Representation],
    target: Representation,
    at: Callable[[int], int],
) -> None:
    """Adds the cost of a value's transitions: once for each representation that consumers end with."""
    producer, cost = at(transfer.producer), transfer.cost
    kept: dict[Representation, list[int]] = {}
    for consumer in transfer.consumers:
        if labels[consumer] is not target:
            kept.setdefault(labels[consumer], []).append(at(consumer))
    for label, consumers in kept.items():
        # paid if one of them keeps it, and the producer does not have it
        any_keeps = network.node()
        for consumer in consumers:
            network.edge(consumer, any_keeps, INFINITE)
        network.edge(any_keeps, producer if labels[transfer.producer] is label else network.sink, cost)
    if labels[transfer.producer] is not target:
        # paid if the producer keeps its own, and a consumer has the target
        any_moves = network.node()
        network.edge(producer, any_moves, cost)
        for consumer in transfer.consumers:
            network.edge(any_moves, at(consumer), INFINITE)
