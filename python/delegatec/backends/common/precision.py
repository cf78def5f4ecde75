# SPDX-License-Identifier: Apache-2.0
"""Conversion of a private program to half precision."""

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
from delegatec.edge.arguments import tensors
from delegatec.edge.builder import Builder
from delegatec.edge.float32_regions import FLOAT32
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
    passes = {Precision.FP16: to_float16, Precision.BF16: to_bfloat16}
    return [passes[settings.precision]] if settings.precision in passes else []


def to_float16(program: EdgeProgram) -> bool:
    """Converts the float32 values of a private program to float16, see `_to_half`."""
    return _to_half(program, torch.float16)


def to_bfloat16(program: EdgeProgram) -> bool:
    """Converts the float32 values of a private program to bfloat16, see `_to_half`."""
    return _to_half(program, torch.bfloat16)


def _to_half(program: EdgeProgram, half: torch.dtype) -> bool:
    """Converts every float32 value of a private program to another dtype, except for its inputs and outputs.

    Inputs are cast first, and outputs last; state has that dtype. A constant keeps its float32 tensor,
    although the dtype of its placeholder is the other one: it is converted when it is written, and float32
    computations use its full precision. Regions that the model computes in float32 stay in float32 (see
    `float32_regions`), and so do sums and means (see `float32_sums`), integer products (see
    `float32_products`), and other statistics if their rules and rows specify it.

    Args:
        program: edited in place.
        half: the other dtype.

    Returns:
        Whether the program had float32 values.
    """
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    inputs = [node for node in program.user_inputs() if _is_float32(node)]
    output = program.output_node()
    outputs: Any = output.args[0]
    returned = {node for node in program.user_outputs() if isinstance(node, Node) and _is_float32(node)}
    wide = _in_float32(program, calls)
    builder = Builder(program)
    narrowed: set[Node] = set()
    for node in (*program.placeholders(), *calls):
        if node in wide:
            continue
        value = _narrowed(builder, node.meta["val"], half)
        if value is not node.meta["val"] and node not in inputs:
            node.meta["val"] = value
            narrowed.add(node)
        if torch.float32 in node.args or torch.float32 in node.kwargs.values():
            node.args = tuple(half if each is torch.float32 else each for each in node.args)
            node.kwargs = {
                name: half if each is torch.float32 else each for name, each in node.kwargs.items()
            }
    first = next(iter(calls), output)
    casts = {node: _cast(builder, node, first, half) for node in inputs if node not in wide}
    for node, cast in casts.items():
        node.replace_all_uses_with(cast, delete_user_cb=lambda user: user not in wide)
        cast.args = (node,)
    _cast_operands(builder, calls, wide, narrowed, half)
    output.args = (
        tuple(
            _result(
                builder,
                casts.get(node, node),
                wide,
                half,
                returned=node in returned and spec.kind is OutputKind.USER_OUTPUT,
            )
            for node, spec in zip(outputs, program.output_specs, strict=True)
        ),
    )
    sum_in_float32(builder, calls, half)
    multiply_in_float32(
        builder, [node for node in program.graph.nodes if isinstance(node.target, OpOverload)], half
    )
    return bool(inputs or narrowed)


def _in_float32(program: EdgeProgram, calls: Sequence[Node]) -> set[Node]:
    """Returns the calls that stay in float32, and placeholders, except for state, that only these read."""
    wide: set[Node] = set()
    for node in calls:
        marked = node.meta.get(FLOAT32) if node.target is not operator.getitem else node.args[0] in wide
        if marked and any(value.dtype == torch.float32 for value in tensors(node.meta["val"])):
            wide.add(node)
    state = program.mutated_inputs()
    return wide | {
        node
        for node in program.placeholders()
        if _is_float32(node)
        and node.users
        and node.name not in state
        and all(user in wide for user in node.users)
    }


def _cast_operands(
    builder: Builder, calls: Sequence[Node], wide: set[Node], narrowed: set[Node], half: torch.dtype
) -> None:
    """Casts operands of float32 calls that come from other calls, and vice versa."""
    casts: dict[Node, Node] = {}
    for node in calls:
        if node.target in (operator.getitem, aten._to_copy.default):
            continue
        others, dtype = (narrowed, torch.float32) if node in wide else (wide, half)
        for operand in node.all_input_nodes:
            if operand in others:
                if operand not in casts:
                    casts[operand] = _cast(builder, operand, node, dtype)
                node.replace_input_with(operand, casts[operand])


def _result(builder: Builder, node: Any, wide: set[Node], half: torch.dtype, *, returned: bool) -> Any:
    """Returns a value in the dtype of a result, float32, or of state."""
    if not isinstance(node, Node) or returned == (node in wide):
        return node
    return _cast(builder, node, builder.program.output_node(), torch.float32 if returned else half)


def _narrowed(builder: Builder, value: Any, half: torch.dtype) -> Any:
    """Returns a value of another dtype for a float32 one; others unchanged."""
    if isinstance(value, (tuple, list)):
        items = [_narrowed(builder, item, half) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    return builder.empty(value.shape, half)


def _is_float32(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _cast(builder: Builder, node: Node, before: Node, dtype: torch.dtype) -> Node:
    """Inserts a cast that does not correspond to a node of the model."""
    graph = builder.program.graph
    with graph.inserting_before(before):
        cast = graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
    cast.meta["val"] = builder.empty(node.meta["val"].shape, dtype)
    return cast
