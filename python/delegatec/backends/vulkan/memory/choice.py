# SPDX-License-Identifier: Apache-2.0
"""Chooses representations so that transitions between them cost least.

A variable is a group of tensors that have one representation. A value costs one transition for each
representation, other than its producer's, that its consumers have. With two representations the choice is
optimal. A part of the graph in which one representation is free of transitions needs no search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from delegatec.backends.vulkan.memory.representation import Representation, Representations
from delegatec.edge.analysis.labeling import End, Labeling, Value
from delegatec.edge.analysis.minimum_cut import INFINITE


def transfer(producer: int, consumers: Iterable[int], cost: int) -> Value[int]:
    """Returns a value that one variable produces and others consume, with the cost of one transition."""
    return Value(cost, _end(producer), tuple(map(_end, consumers)))


def _end(variable: int) -> End[int]:
    return End(variable, lambda representation: representation)


def _link(first: int, second: int) -> Value[int]:
    storage = attrgetter("is_texture")
    return Value(INFINITE, End(first, storage), (End(second, storage),))


@dataclass
class Problem:
    """Variables and the costs of their choices.

    Attributes:
        domains: the possible representations of each variable.
        preference: representations, the preferred first. It decides between choices of equal cost.
        transfers: values between variables.
        links: pairs of variables that must have the same storage.
    """

    domains: list[Representations]
    preference: Sequence[Representation]
    transfers: list[Value[int]] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)

    def cost(self, labels: Sequence[Representation]) -> int:
        """Returns the cost of a choice for all variables."""
        return Labeling(dict(enumerate(labels)), self.transfers).cost(self.transfers)


def choose(problem: Problem) -> list[Representation]:
    """Returns a representation for each variable."""
    links = [_link(*link) for link in problem.links]
    labeling = Labeling(dict(enumerate(_start(problem))), [*problem.transfers, *links])
    unsettled = set(range(len(problem.domains)))
    for component in _components(problem, labeling):
        uniform = _uniform(problem, component, labeling)
        if uniform is not None:
            labeling.labels.update(dict.fromkeys(component, uniform))
            unsettled -= component
    proposals = [
        {variable: target for variable in unsettled if target in problem.domains[variable]}
        for target in problem.preference
    ]
    while labeling.improve(proposals):
        pass
    return list(labeling.labels.values())


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


def _components(problem: Problem, labeling: Labeling[int]) -> list[set[int]]:
    """Returns the connected variables that have a choice."""
    remaining = {variable for variable, domain in enumerate(problem.domains) if len(domain) > 1}
    found: list[set[int]] = []
    while remaining:
        pending = [remaining.pop()]
        found.append(set(pending))
        while pending:
            near = _ends(labeling, pending) & remaining
            pending = list(near)
            remaining -= near
            found[-1] |= near
    return found


def _ends(labeling: Labeling[int], variables: Iterable[int]) -> set[int]:
    """Returns the variables at the ends of the values of variables."""
    values = labeling.values(variables)
    return {end.variable for value in values for end in (value.producer, *value.consumers)}


def _uniform(problem: Problem, component: set[int], labeling: Labeling[int]) -> Representation | None:
    """Returns a representation for a component that needs no transition, if there is one."""
    common = frozenset.intersection(*(problem.domains[variable] for variable in component))
    outside = {labeling.labels[variable] for variable in _ends(labeling, component) - component}
    if len(outside) > 1:
        return None
    return next((each for each in problem.preference if each in common and outside <= {each}), None)
