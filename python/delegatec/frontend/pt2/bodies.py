# SPDX-License-Identifier: Apache-2.0
"""Checks of calls with bodies: operands and results of a call are those of its bodies."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Graph, GraphModule, Node

from delegatec.edge.control_flow import COND, FORMS, WHILE_LOOP, Form
from delegatec.frontend.pt2.fields import fail

# Operator -> types of the arguments before its body; those after it are the operands.
_SCOPES: Final[dict[Any, tuple[tuple[type, ...], ...]]] = {
    torch.ops.higher_order.wrap_with_set_grad_enabled: ((bool,),),
    torch.ops.higher_order.wrap_with_autocast: (
        (str,),
        (torch.dtype, type(None)),
        (bool,),
        (bool, type(None)),
    ),
}
_NUMBERS: Final = {
    torch.SymInt: int,
    torch.SymFloat: float,
    torch.SymBool: bool,
}

# Type of a scalar; or dtype and sizes of a tensor, None for a symbolic size
_Description = tuple[Any, ...]


def check_bodies(graph: Graph, owner: torch.nn.Module) -> None:
    """Checks the calls with bodies of a graph, whose bodies are modules of its owner."""
    for node in graph.nodes:
        if node.target in _SCOPES:
            _check_scope(node, owner)
        elif node.target in FORMS:
            _check_control_flow(node, owner)


def _check_scope(call: Node, owner: torch.nn.Module) -> None:
    types = _SCOPES[call.target]
    for argument, allowed in zip(call.args, types, strict=False):
        if type(argument) not in allowed:
            fail(f"{call.name} has invalid arguments")
    body = _body(call, len(types), owner)
    _compare(call, "operands", _described(call.args[len(types) + 1 :]), _inputs(body))
    results = body.graph.output_node().args[0]
    if isinstance(results, tuple) != isinstance(call.meta.get("val"), tuple):
        fail(f"results of {call.name} do not match its body")
    _compare(call, "results", _results(call), _described(_returned(body)))


def _check_control_flow(call: Node, owner: torch.nn.Module) -> None:
    form = FORMS[call.target]
    if not isinstance(call.meta.get("val"), tuple):
        fail(f"{call.name} does not have several results")
    groups = {position: _group(call, position) for position in form.groups()}
    bodies = [_body(call, position, owner) for position in form.bodies]
    if call.target is COND and (not call.args or not isinstance(call.args[0], (Node, bool))):
        fail(f"{call.name} has no condition")
    rows = {
        position: values if position != form.sliced else _rows(call, values)
        for position, values in groups.items()
    }
    inputs = [value for position in form.groups() for value in rows[position]]
    for body in bodies:
        _compare(call, "operands", inputs, _inputs(body))
    if call.target is WHILE_LOOP:
        condition = _described(_returned(bodies[0]))
        if condition not in ([(torch.bool, ())], [(torch.bool, (1,))], [(bool,)]):
            fail(f"the condition of {call.name} is not a bool")
        bodies = bodies[1:]
    for body in bodies:
        _compare(call, "results", _results(call), _expected(call, form, groups, body))


def _expected(
    call: Node, form: Form, groups: dict[int, list[_Description]], body: GraphModule
) -> list[_Description]:
    """Returns the results of a call from those of its body."""
    returned = _described(_returned(body))
    state = len(groups[form.carried]) if form.carried is not None else 0
    _compare(call, "state", groups[form.carried] if form.carried is not None else [], returned[:state])
    if form.sliced is None:
        return returned
    count = groups[form.sliced][0][1][0]
    stacked = [
        (part[0], (count, *part[1])) if len(part) == 2 else fail(f"{call.name} stacks scalars")
        for part in returned[state:]
    ]
    return returned[:state] + stacked


def _rows(call: Node, operands: list[_Description]) -> list[_Description]:
    if not operands or any(len(each) != 2 or not each[1] for each in operands):
        fail(f"{call.name} has operands without rows")
    return [(dtype, sizes[1:]) for dtype, sizes in operands]


def _group(call: Node, position: int) -> list[_Description]:
    if position >= len(call.args):
        return []
    values = call.args[position]
    return (
        _described(values) if isinstance(values, (tuple, list)) else fail(f"{call.name} has invalid operands")
    )


def _body(call: Node, position: int, owner: torch.nn.Module) -> GraphModule:
    attribute = call.args[position] if position < len(call.args) and not call.kwargs else None
    if not isinstance(attribute, Node) or attribute.op != "get_attr":
        fail(f"{call.name} has no body")
    body = getattr(owner, str(attribute.target))
    assert isinstance(body, GraphModule)
    return body


def _inputs(body: GraphModule) -> list[_Description]:
    return _described(body.graph.find_nodes(op="placeholder"))


def _returned(body: GraphModule) -> tuple[Any, ...]:
    results: Any = body.graph.output_node().args[0]
    return results if isinstance(results, tuple) else (results,)


def _results(call: Node) -> list[_Description]:
    value = call.meta.get("val")
    return [_describe(each) for each in (value if isinstance(value, tuple) else (value,))]


def _described(values: Any) -> list[_Description]:
    return [_describe(each.meta.get("val") if isinstance(each, Node) else each) for each in values]


def _describe(value: Any) -> _Description:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(size if type(size) is int else None for size in value.shape)
    return (_NUMBERS.get(type(value), type(value)),)


def _compare(call: Node, what: str, first: list[_Description], second: list[_Description]) -> None:
    if len(first) != len(second) or not all(map(_agree, first, second)):
        fail(f"{what} of {call.name} do not match its body")


def _agree(first: _Description, second: _Description) -> bool:
    if len(first) != len(second) or first[0] != second[0]:
        return False
    if len(first) == 1:
        return True
    return len(first[1]) == len(second[1]) and all(
        a == b or a is None or b is None for a, b in zip(first[1], second[1], strict=True)
    )
