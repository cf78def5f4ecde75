# SPDX-License-Identifier: Apache-2.0
"""Which calls of a model are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.frontend.eager.calls import Call
from delegatec.frontend.method import Method
from delegatec.samples.inputs import Trial, trials

Planned = tuple[str, Trial, Call]
"""A method, the inputs of its program, and the call of the user's module with the same inputs."""


def planned_calls(
    methods: Mapping[str, Method], programs: Mapping[str, ExportedProgram], count: int
) -> list[Planned]:
    """Returns the calls to record, in order: the examples of all methods, then variations of them.

    Args:
        methods: the model's methods.
        programs: method -> its program.
        count: calls of each method; more, if dynamic dimensions need more sizes.
    """
    rounds: list[list[Planned]] = []
    for name, program in programs.items():
        for number, trial in enumerate(trials(program, count - 1)):
            if number == len(rounds):
                rounds.append([])
            rounds[number].append((name, trial, _call(methods[name], trial)))
    return [planned for each in rounds for planned in each]


def _call(method: Method, trial: Trial) -> Call:
    """Returns a call with containers of the user's types, which programs do not know."""
    kwargs = dict(method.example_kwargs or {})
    return Call(
        method.function,
        _in_containers(method.example_inputs, trial.args),
        {name: _in_containers(kwargs[name], value) for name, value in trial.kwargs.items()},
    )


def _in_containers(example: Any, plain: Any) -> Any:
    return pytree.tree_unflatten(pytree.tree_leaves(plain), pytree.tree_structure(example))


def is_random(program: ExportedProgram) -> bool:
    """Whether a program draws random numbers when it runs."""
    return any(
        torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        for graph in _graphs(program)
        for node in graph.nodes
    )


def _graphs(program: ExportedProgram) -> Iterator[torch.fx.Graph]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module.graph
