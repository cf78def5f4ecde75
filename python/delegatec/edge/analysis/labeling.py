# SPDX-License-Identifier: Apache-2.0
"""Labels for variables such that the values between them need few conversions.

Labels are improved by fusion moves (Lempitsky, Rother, Roth and Blake 2010): each variable keeps its label or
takes that of a proposal, and a minimum cut determines which. It is exact, but for values whose conversions
depend on their producer in both ways. A proposal of one label for all is an alpha expansion (Boykov, Veksler
and Zabih 2001), which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from delegatec.edge.analysis.minimum_cut import INFINITE, Network

Variable = TypeVar("Variable", bound=Hashable)


@dataclass(frozen=True, eq=False)
class End(Generic[Variable]):
    """The producer or a consumer of a value.

    Attributes:
        variable: the variable.
        format: returns the format of the value there, for a label of the variable.
    """

    variable: Variable
    format: Callable[[Any], Hashable]


@dataclass(frozen=True, eq=False)
class Value(Generic[Variable]):
    """A value, which is converted to each format that its producer does not have and a consumer needs.

    Attributes:
        cost: of one conversion.
        producer: the end that has the value.
        consumers: the ends that need it.
    """

    cost: int
    producer: End[Variable]
    consumers: tuple[End[Variable], ...]


class Labeling(Generic[Variable]):
    """Labels of variables.

    Attributes:
        labels: of all variables.

    Args:
        labels: at the start.
        values: between the variables.
    """

    def __init__(self, labels: Mapping[Variable, Any], values: Iterable[Value[Variable]]) -> None:
        self.labels = dict(labels)
        self._values: dict[Variable, list[Value[Variable]]] = {variable: [] for variable in labels}
        for value in values:
            for variable in dict.fromkeys(end.variable for end in (value.producer, *value.consumers)):
                self._values[variable].append(value)

    def values(self, variables: Iterable[Variable]) -> list[Value[Variable]]:
        """Returns the values that variables produce or consume."""
        return list(dict.fromkeys(value for each in variables for value in self._values[each]))

    def cost(self, values: Iterable[Value[Variable]]) -> int:
        """Returns the cost of the conversions of values."""
        total = 0
        for value in values:
            needed = {self.format(end) for end in value.consumers}
            total += value.cost * len(needed - {self.format(value.producer)})
        return total

    def format(self, end: End[Variable]) -> Hashable:
        """Returns the format of a value at its producer or a consumer."""
        return end.format(self.labels[end.variable])

    def improve(self, proposals: Iterable[Mapping[Variable, Any]]) -> bool:
        """Makes a move for each proposal; returns whether any costs less."""
        return sum(map(self.move, proposals)) > 0

    def move(self, proposal: Mapping[Variable, Any]) -> bool:
        """Gives variables their label of a proposal where that costs less; returns whether it does anywhere.

        Args:
            proposal: labels of some variables, also of those that have them already.
        """
        network = Network()
        nodes = {each: network.node() for each, label in proposal.items() if self.labels[each] != label}
        if not nodes:
            return False
        values = self.values(nodes)
        for value in values:
            self._add(network, nodes, proposal, value)
        is_on_sink_side = network.sink_side()
        before = {each: self.labels[each] for each, node in nodes.items() if is_on_sink_side[node]}
        cost = self.cost(values)
        self.labels.update({each: proposal[each] for each in before})
        if self.cost(values) < cost:
            return True
        self.labels.update(before)
        return False

    def _add(
        self,
        network: Network,
        nodes: Mapping[Variable, int],
        proposal: Mapping[Variable, Any],
        value: Value[Variable],
    ) -> None:
        """Adds the cost of a value: variables on the side of the source keep their label."""

        def node(end: End[Variable]) -> int:
            # a variable that has the label of the proposal already has taken it
            return nodes.get(end.variable, network.sink if end.variable in proposal else network.source)

        def proposed(end: End[Variable]) -> Hashable:
            return end.format(proposal[end.variable]) if end.variable in proposal else self.format(end)

        producer, kept, taken = node(value.producer), self.format(value.producer), proposed(value.producer)
        keeping: dict[Hashable, list[int]] = {}
        taking: dict[Hashable, list[int]] = {}
        for end in value.consumers:
            if (consumer := node(end)) != network.sink:
                keeping.setdefault(self.format(end), []).append(consumer)
            if consumer != network.source:
                taking.setdefault(proposed(end), []).append(consumer)
        for needed, consumers in keeping.items():
            if needed == kept == taken:
                continue
            # paid if one of them keeps its label, and the producer does not
            any_keeps = network.node()
            for consumer in consumers:
                network.edge(consumer, any_keeps, INFINITE)
            network.edge(any_keeps, producer if needed == kept else network.sink, value.cost)
        for needed, consumers in taking.items():
            if needed == kept == taken:
                continue
            any_takes = network.node()
            network.edge(producer if needed == taken else network.source, any_takes, value.cost)
            for consumer in consumers:
                network.edge(any_takes, consumer, INFINITE)
