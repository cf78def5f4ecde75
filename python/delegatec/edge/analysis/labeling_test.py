# SPDX-License-Identifier: Apache-2.0
"""Fusion moves: compared with all combinations of labels and a proposal."""

from __future__ import annotations

import itertools
import random

import pytest

from delegatec.edge.analysis.labeling import End, Labeling, Value
from delegatec.edge.analysis.minimum_cut import Network


def _random(chance: random.Random, variables: range) -> list[Value[int]]:
    ends = [End(variable, lambda label: label) for variable in variables]
    values = []
    for producer in variables:
        others = [end for end in ends if end.variable != producer]
        values.append(Value(chance.randint(1, 9), ends[producer], tuple(chance.sample(others, 2))))
    return values


@pytest.mark.parametrize("seed", range(40))
def test_a_move_to_one_label_is_optimal(seed: int) -> None:
    chance = random.Random(seed)
    variables = range(7)
    values = _random(chance, variables)
    start = {variable: chance.choice("abc") for variable in variables}
    can_change = [variable for variable in variables if start[variable] == "a" or chance.random() < 0.8]
    labeling = Labeling(start, values)
    before = labeling.cost(values)
    choices = itertools.product(
        *("a" + start[each] if each in can_change else start[each] for each in variables)
    )
    best = min(Labeling(dict(enumerate(choice)), values).cost(values) for choice in choices)
    assert labeling.move(dict.fromkeys(can_change, "a")) == (best < before)
    assert labeling.cost(values) == best


def test_a_move_that_costs_more_is_not_made() -> None:
    """One end alone has no reason to change its label."""
    first, second = End(0, str), End(1, str)
    labeling = Labeling({0: 1, 1: 1}, [Value(5, first, (second,))])
    assert not labeling.improve([{0: 2}, {1: 2}])
    assert labeling.labels == {0: 1, 1: 1}
    labeling = Labeling({0: 1, 1: 2}, [Value(5, first, (second,))])
    assert labeling.improve([{0: 2, 1: 2}])
    assert labeling.labels == {0: 2, 1: 2}


def test_formats_are_compared_rather_than_labels() -> None:
    parity = [End(variable, lambda label: label % 2) for variable in range(2)]
    labeling = Labeling({0: 0, 1: 1}, [Value(5, parity[0], (parity[1],))])
    assert labeling.move({0: 3, 1: 1})
    assert labeling.labels == {0: 3, 1: 1}
    assert not labeling.move({0: 5, 1: 1})


def test_the_minimum_cut_of_a_network() -> None:
    network = Network()
    first, second = network.node(), network.node()
    network.edge(network.source, first, 5)
    network.edge(first, second, 2, reverse=7)
    network.edge(second, network.sink, 4)
    assert network.sink_side() == [False, True, False, True]
