# SPDX-License-Identifier: Apache-2.0
"""Interpretation of edge programs in eager mode, on real tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Interpreter, Node
from torch.utils import _pytree as pytree

from delegatec.edge.control_flow import COND, FORMS, WHILE_LOOP, bodies_of, group
from delegatec.edge.program import EdgeProgram


def interpret(program: EdgeProgram, inputs: Sequence[Any]) -> list[Any]:
    """Runs a program once.

    Args:
        program: not modified, nor its mutable buffers.
        inputs: the flat inputs, in the order of `program.user_inputs()`.

    Returns:
        The values of `program.output_specs`, in order: the user's outputs, flat, and the new value of every
            buffer or input that the program writes to.

    Raises:
        ValueError: the number of inputs is wrong.
    """
    wanted = [node.name for node in program.user_inputs()]
    if len(wanted) != len(inputs):
        raise ValueError(
            f"{program.method} takes {len(wanted)} inputs ({', '.join(wanted)}), got {len(inputs)}"
        )
    given = dict(zip(wanted, inputs, strict=True))
    arguments = [
        given[node.name] if node.name in given else program.constants[node.name]
        for node in program.placeholders()
    ]
    with torch.no_grad():
        results = _DenseInterpreter(program).run(*arguments)
    return list(results)


class _DenseInterpreter(Interpreter):
    """Makes every tensor row-major: the edge program has no strides, and its views rely on that."""

    def __init__(self, program: EdgeProgram) -> None:
        super().__init__(program.graph_module)
        self._program = program

    def run_node(self, n: Node) -> Any:
        if n.op == "output":
            return super().run_node(n)
        return _dense(self._call(n) if n.target in FORMS else super().run_node(n))

    def _call(self, call: Node) -> tuple[Any, ...]:
        """Runs a call of control flow, whose bodies are programs with their own constants."""
        form, bodies = FORMS[call.target], bodies_of(self._program, call)
        values: Any = self.map_nodes_to_values(
            (call.args[0], *(group(call, index) for index in (form.carried, form.sliced, form.free))), call
        )
        first, carried, sliced, free = values
        if call.target is COND:
            return tuple(interpret(bodies[0 if first else 1], free))
        if call.target is WHILE_LOOP:
            condition, body = bodies
            while interpret(condition, [*carried, *free])[0]:
                carried = interpret(body, [*carried, *free])
            return tuple(carried)
        rounds = []
        for rows in zip(*sliced, strict=True):
            results = interpret(bodies[0], [*carried, *rows, *free])
            carried, stacked = results[: len(carried)], results[len(carried) :]
            rounds.append(stacked)
        return (*carried, *map(torch.stack, zip(*rounds, strict=True)))


def _dense(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, value)
