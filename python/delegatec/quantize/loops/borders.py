# SPDX-License-Identifier: Apache-2.0
"""Scans as calls of their steps between those of `loops`, and back."""

from __future__ import annotations

import operator as python
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from delegatec.edge.control_flow import FORMS, SCAN, group
from delegatec.edge.quantization.operators import DEQUANTIZE, DEQUANTIZING, QUANTIZE
from delegatec.quantize.graph.bodies import bodies_of, describe_bodies
from delegatec.quantize.graph.constants import delete_unused_modules, getattr_of, store, unused_name
from delegatec.quantize.loops.order import Loop, carry, carry_of, row, scheduled, stacked, state

aten = torch.ops.aten

_FORM: Final = FORMS[SCAN]
_INHERITED: Final = ("stack_trace", "nn_module_stack")


def flatten_loops(model: GraphModule) -> None:
    """Replaces scans by the calls of a step, in place; control flow in their bodies stays.

    Args:
        model: the graph of one method, whose bodies have operands, and maybe constants.
    """
    calls = model.graph.find_nodes(op="call_function", target=SCAN)
    if calls:
        describe_bodies(model)
    for number, call in enumerate(calls):
        for body in bodies_of(model, call):
            _flatten(model, call, body.module, number)
    if calls:
        model.graph.eliminate_dead_code()
        delete_unused_modules(model)
        model.recompile()


def _flatten(model: GraphModule, call: Node, body: GraphModule, number: int) -> None:
    rows, count = group(call, _FORM.sliced), len(group(call, _FORM.carried))
    inherited: dict[str, Any] = {key: call.meta[key] for key in _INHERITED if key in call.meta}
    inputs = body.graph.find_nodes(op="placeholder")

    def border(function: Any, value: Node, val: Any, *numbers: int) -> Node:
        with model.graph.inserting_before(call):
            made = model.graph.call_function(function, (value, *numbers))
        made.meta = {**inherited, "val": val}
        return made

    values: dict[Node, Any] = {}
    for index, (operand, given) in enumerate(zip(group(call, _FORM.carried), inputs, strict=False)):
        values[given] = border(state, operand, given.meta["val"], number, index)
    for operand, given in zip(rows, inputs[count:], strict=False):
        values[given] = border(row, operand, given.meta["val"], number)
    values.update(zip(inputs[count + len(rows) :], group(call, _FORM.free), strict=True))
    for node in body.graph.nodes:
        if node.op == "get_attr":
            values[node] = _stored(model, call, str(node.target), getattr_of(body, node))
        elif node.op == "call_function":
            with model.graph.inserting_before(call):
                values[node] = model.graph.node_copy(node, values.__getitem__)
    results: Any = body.graph.output_node().args[0]
    found: list[Node] = [values[each] for each in results]
    length = rows[0].meta["val"].shape[0]
    made = [border(carry, each, each.meta["val"], number, index) for index, each in enumerate(found[:count])]
    for each in found[count:]:
        val = each.meta["val"]
        made.append(border(stacked, each, val.new_empty([length, *val.shape]), number))
    for user in list(call.users):
        position: Any = user.args[1]
        user.replace_all_uses_with(made[position])
        model.graph.erase_node(user)
    model.graph.erase_node(call)


def _stored(model: GraphModule, node: Node, name: str, value: Any) -> Node:
    """Stores a tensor, or the graph of control flow; returns a node before another one that loads it."""
    unused = unused_name(model, name)
    if isinstance(value, Tensor):
        return store(model, node, unused, value)
    model.add_submodule(unused, value)
    with model.graph.inserting_before(node):
        return model.graph.get_attr(unused)


def gather_loops(model: GraphModule) -> None:
    """Replaces the calls of each loop by a scan, in place.

    Rows, state and results pass the border as integers if they are quantized on both sides.

    Args:
        model: the graph of one method.
    """
    loops = [each for each in scheduled(model.graph.nodes) if isinstance(each, Loop)]
    for loop in loops:
        _pass_integers(loop)
    if not loops:
        return
    model.graph.eliminate_dead_code()
    for loop in _in_order(model):
        _gather(model, loop)
    model.graph.lint()
    model.recompile()


def _in_order(model: GraphModule) -> list[Loop]:
    """Moves the calls of each loop next to each other, after what they read; returns the loops."""
    order = list(scheduled(model.graph.nodes))
    last, *others = (node for each in order for node in (each.nodes if isinstance(each, Loop) else (each,)))
    for node in others:
        last.append(node)
        last = node
    return [each for each in order if isinstance(each, Loop)]


# ---- integers --------------------------------------------------------------------------------------------


def _pass_integers(loop: Loop) -> None:
    for node in loop.calls(stacked):
        _skip_copies(node)
    for node in (*loop.calls(row), *loop.calls(stacked)):
        if (found := _parameters(node)) and found == _read(node, found):
            _narrow(node)
    for node in loop.calls(state):
        end = carry_of(node)
        found = _parameters(node)
        if found and all(each == found for each in (_parameters(end), _read(node, found), _read(end, found))):
            _narrow(node)
            _narrow(end)


def _skip_copies(node: Node) -> None:
    """Reads the quantized value that a copy has: torch makes one where a step returns a value twice."""
    found = _parameters(node)
    while found is not None:
        value: Any = node.args[0]
        for target in (QUANTIZE, aten.clone.default, DEQUANTIZE):
            value = value.args[0]
            if value.target is not target or (target is not aten.clone.default and value.args[1:] != found):
                return
        node.update_arg(0, value)


def _parameters(node: Node) -> tuple[Any, ...] | None:
    """Returns the scale, zero point, range and dtype of the operand of a call; None for one in float."""
    operand: Any = node.args[0]
    return tuple(operand.args[1:]) if operand.target is DEQUANTIZE else None


def _read(node: Node, default: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Returns the parameters with which all users of a value quantize it; None for users in float."""
    found = {tuple(user.args[1:]) if user.target is QUANTIZE else None for user in node.users}
    return default if not found else found.pop() if len(found) == 1 else None


def _narrow(node: Node) -> None:
    """Makes a call at a border one of integers."""
    operand: Any = node.args[0]
    node.update_arg(0, operand.args[0])
    dtype: Any = operand.args[-1]
    node.meta["val"] = node.meta["val"].to(dtype)
    for user in list(node.users):
        user.replace_all_uses_with(node)
        node.graph.erase_node(user)


# ---- bodies ----------------------------------------------------------------------------------------------


def _gather(model: GraphModule, loop: Loop) -> None:
    states, rows = loop.calls(state), loop.calls(row)
    carries, results = loop.calls(carry), loop.calls(stacked)
    own = {*states, *rows, *carries, *results}
    nodes = [node for node in loop.nodes if node not in own]
    inside = set(loop.nodes)
    read = [each for node in (*nodes, *carries, *results) for each in node.all_input_nodes]
    outer = [each for each in dict.fromkeys(read) if each not in inside]
    # Values are dequantized next to the layers that read them.
    copied = [each for each in outer if each.target in DEQUANTIZING or _graph_of(model, each) is not None]
    operands = [each for node in copied for each in node.all_input_nodes]
    free = list(dict.fromkeys([*operands, *(each for each in outer if each not in copied)]))
    graph, values = Graph(), dict[Node, Node]()
    for node in (*states, *rows, *free):
        values[node] = graph.placeholder(node.name)
        values[node].meta = {"val": node.meta.get("val")}
    for node in (*copied, *nodes):
        values[node] = graph.node_copy(node, values.__getitem__)
    returned: list[Node] = []
    for node in (*carries, *results):
        value = values[_operand(node)]
        if value in returned or value.op == "placeholder":
            meta = value.meta
            value = graph.call_function(aten.clone.default, (value,))
            value.meta = dict(meta)
        returned.append(value)
    graph.output(tuple(returned))
    root = nn.Module()
    for node in copied:
        inner = _graph_of(model, node)
        if inner is not None:
            root.add_module(str(node.target), inner)
    name = unused_name(model, f"loop_{loop.number}")
    model.add_submodule(name, GraphModule(root, graph))
    _call(model, loop, name, [[*map(_operand, states)], [*map(_operand, rows)], free])


def _call(model: GraphModule, loop: Loop, name: str, operands: list[list[Node]]) -> None:
    """Replaces the calls of a loop by a scan with a body."""
    first = loop.nodes[0]
    exits = [*loop.calls(carry), *loop.calls(stacked)]
    with model.graph.inserting_before(first):
        body = model.graph.get_attr(name)
        scan = model.graph.call_function(SCAN, (body, *operands))
        made = [model.graph.call_function(python.getitem, (scan, index)) for index in range(len(exits))]
    inherited: dict[str, Any] = {key: first.meta[key] for key in _INHERITED if key in first.meta}
    scan.meta = {**inherited, "val": tuple(node.meta["val"] for node in exits)}
    for node, result in zip(exits, made, strict=True):
        result.meta = {**inherited, "val": node.meta["val"]}
        node.replace_all_uses_with(result)
    for node in reversed(loop.nodes):
        model.graph.erase_node(node)


def _graph_of(model: GraphModule, node: Node) -> GraphModule | None:
    """Returns the graph of control flow that a node loads; None for other nodes."""
    value = getattr_of(model, node) if node.op == "get_attr" else None
    return value if isinstance(value, GraphModule) else None


def _operand(node: Node) -> Node:
    operand = node.args[0]
    assert isinstance(operand, Node)
    return operand
