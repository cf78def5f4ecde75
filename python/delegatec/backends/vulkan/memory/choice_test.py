# SPDX-License-Identifier: Apache-2.0
"""The choice of representations: compared with all choices for small problems."""

from __future__ import annotations

import itertools
import random

import pytest

from delegatec.backends.vulkan.memory.choice import Problem, choose, transfer
from delegatec.backends.vulkan.memory.representation import (
    ANY,
    BUFFER,
    CHANNELS,
    ROWS,
    TEXTURES,
    Representation,
)

W, C, H, B = (
    Representation.WIDTH,
    Representation.CHANNELS,
    Representation.HEIGHT,
    Representation.BUFFER,
)
PREFERENCE = (W, C, H, B)


def _is_allowed(problem: Problem, labels: tuple[Representation, ...]) -> bool:
    return all(labels[a].is_texture == labels[b].is_texture for a, b in problem.links) and all(
        label in domain for label, domain in zip(labels, problem.domains, strict=True)
    )


def _best(problem: Problem) -> int:
    every = itertools.product(*problem.domains)
    return min(problem.cost(labels) for labels in every if _is_allowed(problem, labels))


def _random(seed: int, domains: tuple[frozenset[Representation], ...]) -> Problem:
    chance = random.Random(seed)
    count = chance.randint(2, 7)
    problem = Problem([chance.choice(domains) for _ in range(count)], PREFERENCE)
    for producer in range(count - 1):
        others = range(producer + 1, count)
        consumers = frozenset(chance.sample(others, chance.randint(1, min(3, len(others)))))
        problem.transfers.append(transfer(producer, consumers, chance.choice((100, 300, 1000))))
    return problem


@pytest.mark.parametrize("seed", range(60))
def test_two_representations_are_chosen_optimally(seed: int) -> None:
    problem = _random(seed, (ROWS, ROWS, BUFFER, frozenset({W})))
    labels = choose(problem)
    assert _is_allowed(problem, tuple(labels))
    assert problem.cost(labels) == _best(problem)


@pytest.mark.parametrize("seed", range(60))
def test_several_are_chosen_well(seed: int) -> None:
    """No expansion improves the choice: at most twice the optimum; in these problems it is optimal."""
    problem = _random(seed, (ANY, ANY, ROWS, CHANNELS, BUFFER, TEXTURES))
    labels = choose(problem)
    assert _is_allowed(problem, tuple(labels))
    assert problem.cost(labels) == _best(problem)


@pytest.mark.parametrize("seed", range(40))
def test_links_keep_the_storage(seed: int) -> None:
    problem = _random(seed, (ANY, ANY, ANY, ROWS, TEXTURES))
    problem.links.append((0, 1))
    labels = choose(problem)
    assert _is_allowed(problem, tuple(labels))
    assert problem.cost(labels) <= 2 * _best(problem)


def test_the_preferred_one_decides_if_all_are_free() -> None:
    problem = Problem([ANY] * 3, PREFERENCE, [transfer(0, frozenset({1, 2}), 10)])
    assert choose(problem) == [W, W, W]
    problem.preference = (B, W, C, H)
    assert choose(problem) == [B, B, B]


def test_consumers_share_a_transition() -> None:
    """Three consumers in channels cost one transition, and so the value stays where its producer has it."""
    problem = Problem(
        [BUFFER, ROWS, CHANNELS, CHANNELS, CHANNELS],
        PREFERENCE,
        [transfer(0, frozenset({1}), 100), transfer(1, frozenset({2, 3, 4}), 60)],
    )
    assert choose(problem)[1] is B
    assert problem.cost(choose(problem)) < 100


def test_a_chain_of_thousands() -> None:
    count = 4000
    problem = Problem(
        [ANY] * count, PREFERENCE, [transfer(i, frozenset({i + 1}), 10**6) for i in range(count - 1)]
    )
    problem.domains[0], problem.domains[-1] = CHANNELS, BUFFER
    labels = choose(problem)
    assert sum(a is not b for a, b in itertools.pairwise(labels)) == 1
