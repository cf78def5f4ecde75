# SPDX-License-Identifier: Apache-2.0
"""Conversion of a private program to float16."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch._ops import OpOverload
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from delegatec.backends.common.float32_products import multiply_in_float32
from delegatec.backends.common.float32_sums import sum_in_float32
from delegatec.backends.common.settings import Precision
from delegatec.edge.builder import Builder
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


class HasPrecision(Protocol):
    """Settings with a precision."""

    @property
    def precision(self) -> Precision:
        """The dtype in which float32 values are computed."""
        ...


def precision_passes(settings: HasPrecision) -> Sequence[Pass]:
    """Returns the pass that converts a private program to the precision of the settings, if one is needed."""
    return [to_float16] if settings.precision is Precision.FP16 else []


def to_float16(program: EdgeProgram) -> bool:
    """Converts every float32 value of a private program to float16, except for its inputs and outputs.

    Inputs are cast first, and outputs last; state is float16. A constant keeps its float32 tensor, although
    the dtype of its placeholder is float16: it is converted when it is written, and float32 computations use
    its full precision. Sums and means stay in float32 (see `float32_sums`), and so do products of integers
    (see `float32_products`), other statistics if their rules and rows specify it.

    Args:
        program: edited in place.

    Returns:
        Whether the program had float32 values.
    """
    nodes = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    inputs = [node for node in program.user_inputs() if _is_float32(node)]
    output = program.output_node()
    outputs: Any = output.args[0]
    float32_outputs = {
        node
        for node, spec in zip(outputs, program.output_specs, strict=True)
        if _is_float32(node) and spec.kind is OutputKind.USER_OUTPUT
    }
    builder = Builder(program)
    found = bool(inputs)
    for node in nodes:
        narrowed = _narrowed(builder, node.meta["val"])
        if narrowed is not node.meta["val"] and node not in inputs:
            node.meta["val"] = narrowed
            found = True
        if torch.float32 in node.args or torch.float32 in node.kwargs.values():
            node.args = tuple(_narrowed_dtype(value) for value in node.args)
            node.kwargs = {name: _narrowed_dtype(value) for name, value in node.kwargs.items()}
    first = next((node for node in nodes if node.op == "call_function"), output)
    casts = {node: _cast(builder, node, first, torch.float16) for node in inputs}
    for node, cast in casts.items():
        node.replace_all_uses_with(cast)
        cast.args = (node,)
    output.args = (
        tuple(
            _cast(builder, casts.get(node, node), output, torch.float32)
            if node in float32_outputs and spec.kind is OutputKind.USER_OUTPUT
            else node
            for node, spec in zip(outputs, program.output_specs, strict=True)
        ),
    )
    sum_in_float32(builder, [node for node in nodes if node.op == "call_function"])
    multiply_in_float32(
        builder, [node for node in program.graph.nodes if isinstance(node.target, OpOverload)]
    )
    return found


def _narrowed(builder: Builder, value: Any) -> Any:
    """Returns a float16 value for a float32 one; others unchanged."""
    if isinstance(value, (tuple, list)):
        items = [_narrowed(builder, item) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    return builder.empty(value.shape, torch.float16)


def _is_float32(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _narrowed_dtype(argument: Any) -> Any:
    return torch.float16 if argument is torch.float32 else argument


def _cast(builder: Builder, node: Node, before: Node, dtype: torch.dtype) -> Node:
    """Inserts a cast that does not correspond to a node of the model."""
    graph = builder.program.graph
    with graph.inserting_before(before):
        cast = graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
    cast.meta["val"] = builder.empty(node.meta["val"].shape, dtype)
    return cast
