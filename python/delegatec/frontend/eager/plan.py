# SPDX-License-Identifier: Apache-2.0
"""Which calls of a model are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegatec.edge.arguments import bind, writes
from delegatec.edge.functionalize import storage_roots
from delegatec.frontend.eager.calls import Call
from delegatec.frontend.eager.cost import operations
from delegatec.samples.defaults import DEFAULT_CALLS
from delegatec.samples.inputs import Trial, trials

aten = torch.ops.aten

# Operations of the variations that are called, all together: a fraction of a second.
_LIGHT: Final = 4 * 10**9
# Operators that draw random numbers in training, which is another error, or on request.
_DRAW_ON_REQUEST: Final = frozenset(
    {
        *(aten.dropout, aten.feature_dropout, aten.alpha_dropout, aten.feature_alpha_dropout),
        *(aten.native_dropout, aten.rrelu, aten.rrelu_with_noise, aten.scaled_dot_product_attention),
    }
)
_RECURRENT: Final = frozenset({aten.gru, aten.lstm, aten.rnn_relu, aten.rnn_tanh})

Planned = tuple[str, Trial, Call]
"""A method, the inputs of its program, and the call of the user's module with them."""


def planned_calls(programs: Mapping[str, ExportedProgram], count: int) -> list[Planned]:
    """Returns the calls to record, in order: the examples of all methods, then variations of them.

    Args:
        programs: method -> its program.
        count: calls of each method; more, if dynamic dimensions need more sizes; fewer, if one takes long and
            the number is the default.
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
    return [planned for each in rounds for planned in each]


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
    return method, replace(trial, name=f"{trial.name} again"), call


def is_random(program: ExportedProgram) -> bool:
    """Whether results or state of a program follow from random numbers that it draws when it runs.

    Those that initialize the weights of a module that `forward` creates, and then replaces, do not count.
    """
    graph, *bodies = _graphs(program)
    if any(_draws(node) for body in bodies for node in body.nodes):
        return True
    roots = storage_roots(graph)
    drawn = {roots[node] for node in graph.nodes if _draws(node)}
    count = -1
    while drawn and count < len(drawn):
        count = len(drawn)
        for node in graph.nodes:
            if drawn.isdisjoint(roots[each] for each in node.all_input_nodes):
                continue
            drawn.add(roots[node])
            if writes(node) and isinstance(written := node.args[0], Node):
                drawn.add(roots[written])
    return any(node.op in ("placeholder", "output") for node in drawn)


def _draws(node: Node) -> bool:
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    if node.target is aten.scaled_dot_product_attention.default:
        return bool(len(node.args) > 4 and node.args[4]) or bool(node.kwargs.get("dropout_p"))
    packet = getattr(node.target, "overloadpacket", None)
    if packet in _RECURRENT:
        bound = bind(node)
        return bool(bound["dropout"] and bound["train"])
    return packet not in _DRAW_ON_REQUEST


def _graphs(program: ExportedProgram) -> Iterator[torch.fx.Graph]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module.graph
