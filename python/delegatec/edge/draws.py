# SPDX-License-Identifier: Apache-2.0
"""Which values of exported programs follow from random numbers that the programs draw when they run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Graph, GraphModule, Node

from delegatec.edge.arguments import bind, writes
from delegatec.edge.functionalize import storage_roots

aten = torch.ops.aten

# Operators that draw random numbers in training, which is another error, or on request.
_DRAW_ON_REQUEST: Final = frozenset(
    {
        *(aten.dropout, aten.feature_dropout, aten.alpha_dropout, aten.feature_alpha_dropout),
        *(aten.native_dropout, aten.rrelu, aten.rrelu_with_noise, aten.scaled_dot_product_attention),
    }
)
_RECURRENT: Final = frozenset({aten.gru, aten.lstm, aten.rnn_relu, aten.rnn_tanh})


@dataclass(frozen=True)
class Drawn:
    """The results and inputs of a method that follow from random numbers.

    Attributes:
        outputs: indices of results, flattened.
        inputs: indices of inputs, flattened, to which the method writes such values.
    """

    outputs: frozenset[int] = frozenset()
    inputs: frozenset[int] = frozenset()


def is_random(program: ExportedProgram) -> bool:
    """Whether results or state of a program follow from random numbers that it draws when it runs.

    Those that initialize the weights of a module that `forward` creates, and then replaces, do not count.
    """
    return any(node.op in ("placeholder", "output") for node in _drawn_nodes(program, ()))


def drawn_values(programs: Mapping[str, ExportedProgram]) -> dict[str, Drawn]:
    """Returns which values of methods follow from random numbers, also through state that they share.

    Args:
        programs: method -> its program.
    """
    state: set[str] = set()
    count = -1
    while count < len(state):
        count = len(state)
        nodes = {name: _drawn_nodes(program, state) for name, program in programs.items()}
        for name, program in programs.items():
            state |= _state_written(program, nodes[name])
    return {name: _drawn(program, nodes[name]) for name, program in programs.items()}


def _drawn_nodes(program: ExportedProgram, state: Collection[str]) -> set[Node]:
    """Returns the nodes whose values follow from random numbers: those that define memory, and the output.

    Args:
        program: the program.
        state: names of parameters, buffers and constants that contain such values when it is called.
    """
    graph, roots = program.graph, storage_roots(program.graph)
    drawn = {roots[node] for node in graph.nodes if _draws(node) or _has_drawing_body(node)}
    drawn |= {node for node, _, name in _inputs(program) if name in state}
    count = -1
    while drawn and count < len(drawn):
        count = len(drawn)
        for node in graph.nodes:
            if drawn.isdisjoint(roots[each] for each in node.all_input_nodes):
                continue
            drawn.add(roots[node])
            if writes(node) and isinstance(written := node.args[0], Node):
                drawn.add(roots[written])
    return drawn


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


def _has_drawing_body(node: Node) -> bool:
    return any(_draws(each) for body in _bodies(node) for each in body.nodes)


def _bodies(node: Node) -> Iterator[Graph]:
    """Yields the graphs of the functions that a node calls, such as those of `cond`, and of their nodes."""
    for source in node.all_input_nodes if node.op == "call_function" else ():
        module = node.graph.owning_module
        if source.op != "get_attr" or module is None:
            continue
        body = getattr(module, str(source.target), None)
        if isinstance(body, GraphModule):
            yield from (each.graph for each in body.modules() if isinstance(each, GraphModule))


def _inputs(program: ExportedProgram) -> Iterator[tuple[Node, int, str]]:
    """Yields the placeholders, with the index of a user's input or -1, and the name of state or ""."""
    index = 0
    nodes = program.graph.find_nodes(op="placeholder")
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        is_input = spec.kind is InputKind.USER_INPUT
        yield node, index if is_input else -1, spec.target or ""
        index += is_input


def _state_written(program: ExportedProgram, drawn: Collection[Node]) -> set[str]:
    return {name for node, _, name in _inputs(program) if name and node in drawn}


def _drawn(program: ExportedProgram, nodes: Collection[Node]) -> Drawn:
    roots = storage_roots(program.graph)
    results = program.graph.output_node().args[0]
    specs = program.graph_signature.output_specs
    assert isinstance(results, (tuple, list))
    users = [
        result for result, spec in zip(results, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT
    ]
    return Drawn(
        frozenset(
            index for index, result in enumerate(users) if isinstance(result, Node) and roots[result] in nodes
        ),
        frozenset(index for node, index, _ in _inputs(program) if index >= 0 and node in nodes),
    )
