# SPDX-License-Identifier: Apache-2.0
"""Passes values across the boundaries of control flow as integers, if only quantizations use them.

A value has one operand, result or state for each different quantization, so that the values do not change:
the state of a loop, for example, may have other parameters initially than after an iteration.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.control_flow import COND, FORMS, WHILE_LOOP, bodies_of, calls, group, operands
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import QUANTIZE

Parameters = tuple[Any, ...]
"""The arguments of a quantization after its operand."""

_SUPPORTED: Final = (COND, WHILE_LOOP)


def quantize_borders(program: EdgeProgram, operators: Collection[Any]) -> bool:
    """Moves quantizations out of bodies, or into them.

    Args:
        program: edited in place, without the calls in its bodies.
        operators: the operators of control flow to edit.

    Returns:
        Whether it changed anything.
    """
    found = [call for call in calls(program) if call.target in operators and call.target in _SUPPORTED]
    edited = [_Call(program, call).edit() for call in found]
    return any(edited)


class _Call:
    def __init__(self, program: EdgeProgram, call: Node) -> None:
        self._program = program
        self._builder = Builder(program)
        self._call = call
        self._bodies = bodies_of(program, call)
        # In a loop, the condition has no results of the call.
        self._returning = self._bodies if call.target is COND else self._bodies[1:]
        self._carried = len(group(call, FORMS[call.target].carried))

    def edit(self) -> bool:
        changed = False
        if self._call.target is COND:
            for index in reversed(range(len(self._call.meta["val"]))):
                wanted = _read(self._results(index))
                if wanted:
                    self._replace_result(index, wanted)
                    changed = True
        for index in reversed(range(len(operands(self._call)))):
            changed |= self._edit_state(index) if index < self._carried else self._edit_operand(index)
        return changed

    def _edit_operand(self, index: int) -> bool:
        wanted = _read(self._inputs(index))
        if wanted:
            self._replace_operand(index, wanted)
        return bool(wanted)

    def _edit_state(self, index: int) -> bool:
        """Replaces a state by several; the body may return it unchanged."""
        (body,) = self._returning
        returned: Any = body.output_node().args[0]
        own = list(body.user_inputs())[index]
        if own in (*returned[:index], *returned[index + 1 :]):
            return False
        used = _read([*self._inputs(index), *self._results(index)], body.output_node())
        if used:
            self._replace_result(index, used)
            self._replace_operand(index, used)
        return bool(used)

    def _inputs(self, index: int) -> list[Node]:
        """Returns the placeholders of an operand."""
        return [list(body.user_inputs())[index] for body in self._bodies]

    def _results(self, index: int) -> list[Node]:
        return [user for user in self._call.users if user.args[1] == index]

    def _replace_result(self, index: int, wanted: Sequence[Parameters]) -> None:
        for body in self._returning:
            _return_quantized(body, index, wanted)
        vals = list(self._call.meta["val"])
        made = [self._quantized(vals[index], each) for each in wanted]
        self._call.meta["val"] = (*vals[:index], *made, *vals[index + 1 :])
        own = self._results(index)
        for user in list(self._call.users):
            position: Any = user.args[1]
            if position > index:
                user.args = (self._call, position + len(wanted) - 1)
        for user in own:
            self._builder.at(user)
            for offset, each in enumerate(wanted):
                result = self._builder.call(operator.getitem, self._call, index + offset, val=made[offset])
                _redirect(user, each, result)
            self._program.graph.erase_node(user)

    def _replace_operand(self, index: int, wanted: Sequence[Parameters]) -> None:
        operand = operands(self._call)[index]
        made = [self._builder.at(self._call).call(QUANTIZE, operand, *each) for each in wanted]
        for body in self._bodies:
            _receive_quantized(
                body, index, [(each, node.meta["val"]) for each, node in zip(wanted, made, strict=True)]
            )
        for position in FORMS[self._call.target].groups():
            members = group(self._call, position)
            if index < len(members):
                self._call.update_arg(position, [*members[:index], *made, *members[index + 1 :]])
                break
            index -= len(members)
        self._carried = len(group(self._call, FORMS[self._call.target].carried))

    def _quantized(self, val: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        return self._builder.empty(val.shape, parameters[-1])


def _read(values: Iterable[Node], also: Node | None = None) -> list[Parameters]:
    """Returns the quantizations that use values; none if there are other users, besides one."""
    found: dict[Parameters, None] = {}
    for value in values:
        for user in value.users:
            if user is also:
                continue
            if user.target is not QUANTIZE or any(isinstance(each, Node) for each in user.args[1:]):
                return []
            found[tuple(user.args[1:])] = None
    return list(found)


def _redirect(value: Node, parameters: Parameters, replacement: Node) -> None:
    """Replaces the quantizations of a value with some parameters."""
    for user in list(value.users):
        if user.target is QUANTIZE and tuple(user.args[1:]) == parameters:
            user.replace_all_uses_with(replacement)
            user.graph.erase_node(user)


def _return_quantized(body: EdgeProgram, index: int, wanted: Sequence[Parameters]) -> None:
    output = body.output_node()
    returned: Any = output.args[0]
    value = returned[index]
    builder = Builder(body).at(output)
    made = [builder.call(QUANTIZE, value, *each) for each in wanted]
    for node in made:
        node.meta.update({key: each for key, each in value.meta.items() if key != "val"})
    output.args = ((*returned[:index], *made, *returned[index + 1 :]),)
    body.output_specs[index : index + 1] = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in made
    ]


def _receive_quantized(
    body: EdgeProgram, index: int, wanted: Sequence[tuple[Parameters, torch.Tensor]]
) -> None:
    old = list(body.user_inputs())[index]
    position = body.placeholders().index(old)
    made = []
    for offset, (parameters, val) in enumerate(wanted):
        with body.graph.inserting_before(old):
            node = body.graph.placeholder(f"{old.name}_{offset}")
        node.meta = {**old.meta, "val": val}
        _redirect(old, parameters, node)
        made.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
    body.graph.erase_node(old)
    body.input_specs[position : position + 1] = made
