# SPDX-License-Identifier: Apache-2.0
"""Removes unused operands and results of control flow, and captures constants.

torch.export passes every weight that one branch uses to both, as an operand. Here a weight becomes a constant
of the bodies that use it, where backends and folding find it; unused operands and results are removed.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.export.graph_signature import InputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge.control_flow import COND, FORMS, MAP, bodies_of, calls, group, operands
from delegatec.edge.program import EdgeProgram


def simplify_calls(program: EdgeProgram) -> bool:
    """Captures constants, and removes unused operands and results."""
    found = calls(program)
    if not found:
        return False
    fixed, specs = set(program.fixed_constants()), program.specs_by_name()
    changed = False
    for call in found:
        changed |= _capture(program, call, fixed, specs)
        changed |= _drop_operands(program, call)
        changed |= _drop_results(program, call)
    return changed


def _capture(program: EdgeProgram, call: Node, fixed: set[str], specs: Mapping[str, InputSpec]) -> bool:
    """Replaces operands that are constants of the program by constants of the bodies."""
    free = FORMS[call.target].free
    first = len(operands(call)) - len(group(call, free))
    captured = {
        first + index: operand
        for index, operand in enumerate(group(call, free))
        if isinstance(operand, Node) and operand.name in fixed
    }
    if not captured:
        return False
    for body in bodies_of(program, call):
        inputs = list(body.user_inputs())
        constants = {
            inputs[position]: (program.constants[constant.name], specs[constant.name])
            for position, constant in captured.items()
        }
        for position, constant in captured.items():
            # what backends know of a weight, such as its name in another file
            inputs[position].meta = {**constant.meta, **inputs[position].meta}
        _become_constants(body, constants)
    _keep_operands(call, captured)
    return True


def _become_constants(body: EdgeProgram, constants: Mapping[Node, tuple[torch.Tensor, InputSpec]]) -> None:
    """Turns operands of a body into constants, with the same names in the model as in its owner."""
    held = reversed([node for node in body.placeholders() if node.name in body.constants])
    known = {id(body.constants[node.name]): node for node in held}
    specs = body.specs_by_name()
    added: list[InputSpec] = []
    for placeholder, (value, spec) in constants.items():
        del specs[placeholder.name]
        if id(value) in known:
            placeholder.replace_all_uses_with(known[id(value)])
            body.graph.erase_node(placeholder)
            continue
        known[id(value)] = placeholder
        next(iter(body.graph.nodes)).prepend(placeholder)
        added.append(replace(spec, arg=TensorArgument(placeholder.name)))
        body.constants[placeholder.name] = value
    body.input_specs = [*reversed(added), *specs.values()]


def _drop_operands(program: EdgeProgram, call: Node) -> bool:
    """Removes unused operands, except for the state and the trip count of a loop."""
    form, bodies = FORMS[call.target], bodies_of(program, call)
    inputs = [list(body.user_inputs()) for body in bodies]
    unused: set[int] = set()
    position = 0
    for argument in form.groups():
        positions = range(position, position + len(group(call, argument)))
        position = positions.stop
        found = {index for index in positions if not any(nodes[index].users for nodes in inputs)}
        if argument == form.carried:
            continue
        if argument == form.sliced and len(found) == len(positions):
            found.discard(positions.start)
        unused |= found
    for body, nodes in zip(bodies, inputs, strict=True):
        removed = {nodes[index].name for index in unused}
        for index in unused:
            body.graph.erase_node(nodes[index])
        body.input_specs = [spec for spec in body.input_specs if spec.arg.name not in removed]
    _keep_operands(call, unused)
    return bool(unused)


def _keep_operands(call: Node, dropped: Collection[int]) -> None:
    """Removes the operands at some positions from the arguments of a call."""
    position = 0
    for argument in FORMS[call.target].groups():
        held = group(call, argument)
        kept = [operand for index, operand in enumerate(held, start=position) if index not in dropped]
        if len(kept) != len(held):
            call.update_arg(argument, kept)
        position += len(held)


def _drop_results(program: EdgeProgram, call: Node) -> bool:
    """Removes unused results of a call whose bodies need not return them."""
    if call.target not in (COND, MAP):
        return False
    read = sorted({_index(user) for user in call.users})
    count = len(call.meta["val"])
    if len(read) == count or not read:
        return False
    for user in list(call.users):
        user.update_arg(1, read.index(_index(user)))
    call.meta["val"] = tuple(call.meta["val"][index] for index in read)
    for body in bodies_of(program, call):
        output = body.output_node()
        results: Any = output.args[0]
        output.args = (tuple(results[index] for index in read),)
        body.output_specs = [body.output_specs[index] for index in read]
    return True


def _index(user: Node) -> int:
    assert user.target is operator.getitem and isinstance(user.args[1], int)
    return user.args[1]
