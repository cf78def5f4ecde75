# SPDX-License-Identifier: Apache-2.0
"""Gathers a table's rows before the arithmetic on the table, such as dequantization of an embedding."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import map_arg

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS, operands_of

aten = torch.ops.aten

_BY_ELEMENT: Final = frozenset(
    {aten._to_copy.default, aten.neg.default}
    | {getattr(aten, name).Tensor for name in ("add", "sub", "mul", "div", "bitwise_and", "bitwise_or")}
    | {getattr(aten, name).Scalar for name in ("add", "sub", "mul", "div", "rsub", "bitwise_and")}
    | {aten.bitwise_right_shift.Tensor_Scalar}
)


def gather_rows_first(program: EdgeProgram) -> bool:
    """Computes only the rows of a table that an embedding gathers, if constants determine the table."""
    return rewrite(program, {aten.embedding.default: _gather_first})


def _gather_first(b: Builder, node: Node) -> Node | None:
    table, indices, *_ = bind(node).values()
    height, count = shape_of(table)[0], indices.meta["val"].numel()
    if table.op != "call_function" or not isinstance(height, int) or height == 1:
        return None
    if isinstance(count, int) and count >= height:
        return None
    order = _arithmetic(table, height, b.program.fixed_constants())
    if order is None:
        return None
    flat = b.call(aten.view.default, indices, [count])
    rows = _gathered(b, order, flat, count)
    return b.call(aten.view.default, rows, list(shape_of(node)), val=node.meta["val"])


def _gathered(builder: Builder, order: list[Node], positions: Node, count: Any) -> Node:
    """Returns rows of the last of several tables."""
    rows: dict[Node, Node] = {}
    for each in order:
        target: Any = each.target
        # torch does not infer the values of all these operators for a dynamic number of rows
        val = builder.empty([count, *shape_of(each)[1:]], each.meta["val"].dtype)
        if each.op == "placeholder":
            rows[each] = builder.call(aten.index_select.default, each, 0, positions, val=val)
        elif target is aten.view.default:
            (table, *_) = each.all_input_nodes
            rows[each] = builder.call(target, rows[table], [count, *shape_of(each)[1:]], val=val)
        else:
            args: Any = map_arg(each.args, lambda operand: rows.get(operand, operand))
            rows[each] = builder.call(target, *args, val=val, **each.kwargs)
    return rows[order[-1]]


def _arithmetic(table: Node, height: int, fixed: Any) -> list[Node] | None:
    """Returns the tables that a table is computed from, operands first; None for other computations."""
    order: dict[Node, None] = {}
    pending = [table]
    while pending:
        node = pending[-1]
        operands = _tables_of(node, height, fixed)
        if operands is None:
            return None
        missing = [operand for operand in operands if operand not in order]
        if missing:
            pending += missing
        else:
            order[pending.pop()] = None
    return list(order)


def _tables_of(node: Node, height: int, fixed: Any) -> list[Node] | None:
    if node.name in fixed:
        return []
    if not _has_height(node, height):
        return None
    if node.target in _BY_ELEMENT:
        tables = [operand for operand in node.all_input_nodes if _has_rows(operand, node, height)]
    elif node.target is aten.view.default or _is_per_row(node):  # all operands are tables
        tables = node.all_input_nodes
    else:
        return None
    if not all(_has_height(operand, height) for operand in tables):
        return None
    others = [operand for operand in node.all_input_nodes if operand not in tables]
    return tables if tables and all(operand.name in fixed for operand in others) else None


def _has_rows(operand: Node, node: Node, height: int) -> bool:
    return len(shape_of(operand)) == len(shape_of(node)) and _has_height(operand, height)


def _has_height(node: Node, height: int) -> bool:
    """Whether the first dimension has a size; a comparison of a dynamic size would narrow its range."""
    shape = shape_of(node)
    return bool(shape) and statically_known_true(shape[0] == height)


def _is_per_row(node: Node) -> bool:
    """Whether a call dequantizes blocks of one row each."""
    return node.target is DEQUANTIZE_BLOCKS and bool(operands_of(node).block[0] == 1)
