# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of long sequences as loops, for a runtime that copies the weights of each call."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.control_flow import SCAN
from delegatec.edge.convert import KERNEL_COMPOSITES, SIMPLIFY
from delegatec.edge.legalize.normal_form import decompose
from delegatec.edge.legalize.rules.recurrent import STEPS, Cell, Step, layer, steps_of
from delegatec.edge.legalize.value import Value
from delegatec.edge.passes.pass_manager import run_pass, run_passes
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram

RECURRENT: Final = frozenset(STEPS)
"""Calls that `loop_recurrent_layers` replaces."""
_FREE: Final = ("of_hidden", "hidden_bias", "projection")
"""Weights that each time step reads."""


def loop_recurrent_layers(program: EdgeProgram, most_copied: int | None) -> bool:
    """Replaces calls of recurrent layers by scans, or by their steps if these are few or small.

    A runtime that packs the weight of each matrix product has a copy for each unrolled step: it reads all of
    them from main memory in each run, and not one of them from a cache.

    Args:
        program: edited in place, without its bodies; it may be converted with the layers preserved.
        most_copied: bytes that the copies of a weight for all steps may have; None to unroll all layers. A
            single step is never a loop.

    Returns:
        Whether it had such layers.
    """
    if not any(node.target in STEPS for node in program.graph.nodes):
        return False
    known = {*program.bodies}
    kept = {node for node in program.graph.nodes if node.target not in STEPS}
    rewrite(program, {target: partial(_looped, step, most_copied) for target, step in STEPS.items()})
    run_pass(program, partial(decompose, preserve=KERNEL_COMPOSITES, kept=kept))
    for name, body in program.bodies.items():
        if name not in known:
            run_pass(body, partial(decompose, preserve=KERNEL_COMPOSITES))
    run_passes(program, SIMPLIFY)
    return True


def _looped(step: Step[Value], most_copied: int | None, b: Builder, node: Node) -> list[Node] | None:
    length = steps_of(node)
    # The second parameter is the weight for the hidden state, of one size in all layers of a call.
    weight = bind(node)["params"][1].meta["val"]
    if length is None or length == 1 or most_copied is None or length * weight.nbytes <= most_copied:
        return None

    def scanned(
        cell: Cell[Value], x: Value, state: tuple[Value, ...], is_reversed: bool
    ) -> tuple[tuple[Value, ...], Value]:
        # The product with the input is one for all time steps.
        rows = _in_turn(cell.from_input(x), is_reversed)
        *end, hidden = _scan(b, node, step, cell, rows, state)
        return tuple(end), _in_turn(hidden, is_reversed)

    return layer(b, node, scanned)


def _in_turn(x: Value, is_reversed: bool) -> Value:
    """Returns the rows in the order of time steps, or back."""
    return Value(x.builder, x.builder.call(torch.ops.aten.flip.default, x.node, [0])) if is_reversed else x


def _scan(
    b: Builder, node: Node, step: Step[Value], cell: Cell[Value], rows: Value, state: tuple[Value, ...]
) -> list[Value]:
    """Calls a scan of rows; returns the last state, and the hidden states of all rows."""
    program = b.program
    name = next(
        name
        for name in (f"recurrent_{index}" for index in range(len(program.bodies) + 1))
        if not hasattr(program.graph_module, name)
    )
    free = {each: getattr(cell, each) for each in _FREE if getattr(cell, each) is not None}
    carried = {f"state_{index}": each.node.meta["val"] for index, each in enumerate(state)}
    row = b.empty(rows.shape[1:], rows.dtype)
    weights = {each: value.node.meta["val"] for each, value in free.items()}
    body = _body_of(program, name, {**carried, "row": row, **weights})
    inputs = body.placeholders()
    # The call's nodes inherit its line and handle, and so do those of the body.
    output = body.output_node()
    output.meta = dict(node.meta)
    inner = Builder(body).at(output)
    inner.rule = b.rule
    values = [Value(inner, each) for each in inputs]
    bound: Any = dict(zip(free, values[len(state) + 1 :], strict=True))
    following = step(replace(cell, **bound), values[len(state)], tuple(values[: len(state)]))
    _return(body, [*following, following[0]])

    program.graph_module.add_submodule(name, body.graph_module)
    with program.graph.inserting_before(node):
        attribute = program.graph.get_attr(name)
    program.bodies[attribute.name] = body
    hidden = b.empty([rows.shape[0], *following[0].shape], rows.dtype)
    vals = (*(each.node.meta["val"] for each in following), hidden)
    operands = [each.node for each in state], [rows.node], [each.node for each in free.values()]
    call = b.call(SCAN, attribute, *operands, val=vals)
    return [Value(b, b.call(operator.getitem, call, index, val=val)) for index, val in enumerate(vals)]


def _body_of(program: EdgeProgram, name: str, inputs: Mapping[str, Any]) -> EdgeProgram:
    """Returns a body of a program without calls.

    Args:
        program: the program.
        name: of the attribute that will hold its graph.
        inputs: name of each operand -> its value.
    """
    graph = Graph()
    for each, val in inputs.items():
        graph.placeholder(each).meta["val"] = val
    graph.output(())
    nodes = graph.find_nodes(op="placeholder")
    return EdgeProgram(
        method=f"{program.method}.{name}",
        graph_module=GraphModule(torch.nn.Module(), graph),
        input_specs=[InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None) for node in nodes],
        output_specs=[],
        constants={},
        range_constraints=program.range_constraints,
        in_spec=pytree.tree_structure(((), {})),
        out_spec=pytree.tree_structure(()),
        origins=program.origins,
        is_body=True,
    )


def _return(body: EdgeProgram, results: Sequence[Value]) -> None:
    """Sets the results of a body."""
    nodes = [each.node for each in results]
    body.output_node().args = (tuple(nodes),)
    body.output_specs = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in nodes
    ]
