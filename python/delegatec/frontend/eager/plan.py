# SPDX-License-Identifier: Apache-2.0
"""Which calls of a model are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import torch
from torch.export import ExportedProgram

from delegatec.frontend.eager.calls import Call
from delegatec.frontend.eager.cost import operations
from delegatec.samples.defaults import DEFAULT_CALLS
from delegatec.samples.inputs import Trial, trials

# Operations of the variations that are called, all together: a fraction of a second.
_LIGHT: Final = 4 * 10**9

Planned = tuple[str, Trial, Call]
"""A method, the inputs of its program, and the call of the user's module with them."""


def planned_calls(
    programs: Mapping[str, ExportedProgram], count: int, are_random: bool = False
) -> list[Planned]:
    """Returns the calls to record, in order: the examples of all methods, then variations of them.

    Args:
        programs: method -> its program.
        count: calls of each method; more, if dynamic dimensions need more sizes; fewer, if one takes long and
            the number is the default.
        are_random: whether the programs draw random numbers: each call begins with another seed.
    """
    rounds: list[list[Planned]] = []
    for name, program in programs.items():
        each_trial = trials(program, count - 1)
        if count == DEFAULT_CALLS:
            each_trial = _affordable(list(each_trial), operations(program))
        for index, trial in enumerate(each_trial):
            if index == len(rounds):
                rounds.append([])
            rounds[index].append((name, trial, Call(name, trial.args, trial.kwargs)))
    planned = [planned for each in rounds for planned in each]
    return [_seeded(each, seed) for seed, each in enumerate(planned)] if are_random else planned


def _affordable(calls: Sequence[Trial], cost: int) -> Iterator[Trial]:
    """Yields the example, and as many of the other calls as are affordable, small ones first.

    Args:
        calls: the example and its variations.
        cost: operations of the example.
    """
    example, *others = calls
    yield example
    total = 0
    for trial in sorted(others, key=_elements):
        total += cost * _elements(trial) // max(1, _elements(example))
        if total > _LIGHT:
            return
        yield trial


def _elements(trial: Trial) -> int:
    return sum(leaf.numel() for leaf in trial.leaves if isinstance(leaf, torch.Tensor))


def again(planned: Planned) -> Planned:
    """Returns a second call with the same inputs."""
    method, trial, call = planned
    renamed = method, replace(trial, name=f"{trial.name} again"), call
    return renamed if call.seed is None else _seeded(renamed, call.seed + 1)


def _seeded(planned: Planned, seed: int) -> Planned:
    method, trial, call = planned
    return method, trial, replace(call, seed=seed)
