# SPDX-License-Identifier: Apache-2.0
"""Computes a private program in float16."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def to_float16(program: EdgeProgram) -> bool:
    """Make every float32 value of a private program float16, except for its inputs and outputs.

    Inputs are cast before everything else, and outputs at the end. A constant keeps its float32 tensor: the
    dtype of its placeholder says what the program reads, who writes it converts it on the way, and what
    computes in float32 can read all of its digits. Sums and statistics go through float32 where the rules and
    rows that compute them say so.

    Args:
        program: edited in place.

    Returns:
        Whether the program had float32 values.
    """
    nodes = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    inputs = [node for node in program.user_inputs() if _is_float32(node)]
    output = program.output_node()
    outputs: Any = output.args[0]
    float32_outputs = {node for node in outputs if _is_float32(node)}
    builder = Builder(program)
    narrow = _Narrow()
    with builder.fake_mode:
        for node in nodes:
            if node not in inputs:
                node.meta["val"] = narrow(node.meta["val"])
            if torch.float32 in node.args or torch.float32 in node.kwargs.values():
                node.args = tuple(_narrowed_dtype(value) for value in node.args)
                node.kwargs = {name: _narrowed_dtype(value) for name, value in node.kwargs.items()}
        halves = {node: narrow(node.meta["val"]) for node in inputs}
        singles = {node: node.meta["val"].to(torch.float32) for node in float32_outputs}
    first = next((node for node in nodes if node.op == "call_function"), output)
    casts = {node: _cast(program, node, first, half) for node, half in halves.items()}
    for node, cast in casts.items():
        node.replace_all_uses_with(cast)
        cast.args = (node,)
    output.args = (
        tuple(
            _cast(program, casts.get(node, node), output, singles[node]) if node in singles else node
            for node in outputs
        ),
    )
    return narrow.found or bool(inputs)


class _Narrow:
    """Gives the float16 value for each float32 one; nodes of one signature go on sharing theirs."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}
        self.found = False

    def __call__(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(self, value))
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        self.found = True
        if id(value) not in self._known:
            self._known[id(value)] = (value, value.to(torch.float16))
        return self._known[id(value)][1]


def _is_float32(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _narrowed_dtype(argument: Any) -> Any:
    return torch.float16 if argument is torch.float32 else argument


def _cast(program: EdgeProgram, node: Node, before: Node, value: torch.Tensor) -> Node:
    """A cast that stands for no node of the model."""
    with program.graph.inserting_before(before):
        cast = program.graph.call_function(aten._to_copy.default, (node,), {"dtype": value.dtype})
    cast.meta["val"] = value
    return cast
