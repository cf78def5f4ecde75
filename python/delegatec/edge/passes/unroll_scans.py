# SPDX-License-Identifier: Apache-2.0
"""Scans as the calls of all of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.control_flow import FORMS, SCAN, bodies_of, calls, group, returned
from delegatec.edge.passes.scan_rows import Rows, quantization_of, replace_stacked
from delegatec.edge.program import EdgeProgram

_FORM: Final = FORMS[SCAN]
_NARROW: Final = (torch.int8, torch.uint8, torch.float16)


def unroll_quantized_scans(
    program: EdgeProgram, most_copied: int | None = None, most_calls: int = 1 << 14
) -> bool:
    """Replaces scans with weights of less than 32 bits by the calls of all of their steps.

    `quantize` makes scans of recurrent layers. Without them, a backend that lacks loops makes one delegate,
    as of the layers in float. Scans of a varying number of rows, or with control flow inside, stay.

    Args:
        program: edited in place, without its bodies; it is in normal form, and remains so.
        most_copied: bytes that copies of the body's weights for all steps may have, see
            `loop_recurrent_layers`; None for no limit.
        most_calls: calls that all steps may have.

    Returns:
        Whether it changed a scan.
    """
    changed = False
    for call in calls(program):
        if call.target is not SCAN:
            continue
        (body,) = bodies_of(program, call)
        length = group(call, _FORM.sliced)[0].meta["val"].shape[0]
        if body.bodies or not isinstance(length, int) or not is_quantized(body):
            continue
        is_small = most_copied is None or length * _weight_bytes(body) <= most_copied
        if length * len(_computed(body)) <= most_calls and (is_small or length == 1):
            _inline(program, call, body)
            changed = True
    if changed:
        program.graph.eliminate_dead_code()
        program.erase_unused_bodies()
    return changed


def is_quantized(body: EdgeProgram) -> bool:
    """Whether a body has stored weights of less than 32 bits, and so those of `quantize`."""
    return any(value.dtype in _NARROW for value in body.constants.values())


def _weight_bytes(body: EdgeProgram) -> int:
    """Returns the bytes of the largest constant, like `loop_recurrent_layers` for its weight."""
    return max((value.nbytes for value in body.constants.values()), default=0)


def _computed(body: EdgeProgram) -> list[Node]:
    return [node for node in body.graph.nodes if node.op == "call_function"]


@dataclass(frozen=True)
class _Inputs:
    """The inputs of a scan's body: its state, a row of each sliced operand, and others."""

    state: list[Node]
    rows: list[Node]
    free: list[Node]

    @staticmethod
    def of(call: Node, body: EdgeProgram) -> _Inputs:
        inputs = list(body.user_inputs())
        first = len(group(call, _FORM.carried))
        last = first + len(group(call, _FORM.sliced))
        return _Inputs(inputs[:first], inputs[first:last], inputs[last:])


def _run(
    b: Builder,
    body: EdgeProgram,
    inputs: _Inputs,
    values: dict[Any, Any],
    sources: Sequence[Node],
    count: int,
) -> tuple[list[Node], list[list[Node]]]:
    """Copies the calls of a body for each row; returns the last state, and each other result of all steps.

    Args:
        b: inserts the calls.
        body: the body.
        inputs: its inputs.
        values: inputs and constants of the body, without rows -> values next to the calls.
        sources: for each row that the body reads, a tensor of all rows.
        count: how many rows.
    """
    nodes, results = _computed(body), returned(body)
    stacked: list[list[Node]] = [[] for _ in results[len(inputs.state) :]]
    rows = [Rows.of(b, source, row) for source, row in zip(sources, inputs.rows, strict=True)]
    for index in range(count):
        values.update((row, each.at(b, index)) for row, each in zip(inputs.rows, rows, strict=True))
        for node in nodes:
            values[node] = b.copy(node, values.__getitem__)
        found = [values[each] for each in results]
        for each, value in zip(stacked, found[len(inputs.state) :], strict=True):
            each.append(value)
        values.update(zip(inputs.state, found, strict=False))
    return [values[each] for each in inputs.state], stacked


def _inline(program: EdgeProgram, call: Node, body: EdgeProgram) -> None:
    """Replaces a scan by the calls of all of its steps."""
    b, inputs, sources = Builder(program).at(call), _Inputs.of(call, body), group(call, _FORM.sliced)
    held = {id(value): name for name, value in program.fixed_constants().items()}
    placeholders = {node.name: node for node in program.placeholders()}
    values: dict[Any, Any] = dict(zip(inputs.state, group(call, _FORM.carried), strict=True))
    values.update(zip(inputs.free, group(call, _FORM.free), strict=True))
    for node in body.placeholders():
        if node.name in body.constants:
            name = held.get(id(body.constants[node.name]))
            values[node] = placeholders[name] if name else b.stored(node, body)
    state, stacked = _run(b, body, inputs, values, sources, sources[0].meta["val"].shape[0])
    for user in list(call.users):
        index: Any = user.args[1]
        if index < len(state):
            user.replace_all_uses_with(state[index])
        else:
            made = returned(body)[index]
            replace_stacked(b, user, stacked[index - len(state)], quantization_of(made))
        program.graph.erase_node(user)
    program.graph.erase_node(call)
