# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic, bits, and selection."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.dtypes import FLOATS, VALUES
from delegatec.backends.arm.operators.conversion import negated
from delegatec.backends.arm.operators.elementwise import arithmetic_type
from delegatec.backends.arm.operators.row import Lower, operand, operator_row
from delegatec.edge.arguments import bind, dtype_of, promoted, shape_of

# ATen's name -> TOSA's, whether the operands are exchanged, and whether the result is negated
_COMPARISONS: Final = {
    "eq": ("EQUAL", False, False),
    "ne": ("EQUAL", False, True),
    "gt": ("GREATER", False, False),
    "ge": ("GREATER_EQUAL", False, False),
    "lt": ("GREATER", True, False),
    "le": ("GREATER_EQUAL", True, False),
}
_BITS: Final = {"and": "AND", "or": "OR", "xor": "XOR"}


def _operands(node: Node) -> tuple[Any, Any]:
    first, second, *_ = bind(node).values()
    return first, second


def _comparison(name: str, is_reversed: bool, is_negated: bool) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        kind = _compared(promoted(_operands(node)))
        first, second = (operand(b, each, node, kind) for each in _operands(node))
        operands = (second, first) if is_reversed else (first, second)
        found = b.emit(name, *operands, dtype=DType.BOOL, shape=shape_of(node))
        b.alias(node, negated(b, found) if is_negated else found)

    return lower


def _compared(dtype: torch.dtype) -> int:
    """Returns the type in which values are compared: bools as 0 and 1, exact in each type."""
    return DType.INT32 if dtype == torch.bool else arithmetic_type(dtype)


def _equality(is_negated: bool) -> Lower:
    compare = _comparison("EQUAL", False, is_negated)

    def lower(b: GraphBuilder, node: Node) -> None:
        if promoted(_operands(node)) != torch.bool:
            compare(b, node)
            return
        first, second = (operand(b, each, node, DType.BOOL) for each in _operands(node))
        found = b.emit("LOGICAL_XOR", first, second, shape=shape_of(node))
        b.alias(node, found if is_negated else negated(b, found))

    return lower


def _logical(name: str) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        b.result(node, name, *(operand(b, each, node) for each in bind(node).values()))

    return lower


def _bitwise(name: str) -> Lower:
    """Returns the lowering to an operator on bits, or on bools."""

    def lower(b: GraphBuilder, node: Node) -> None:
        prefix = "LOGICAL" if dtype_of(node) == torch.bool else "BITWISE"
        b.result(node, f"{prefix}_{name}", *(operand(b, each, node) for each in bind(node).values()))

    return lower


def _select(b: GraphBuilder, node: Node) -> None:
    condition, then, otherwise = bind(node).values()
    values = (operand(b, each, node) for each in (then, otherwise))
    b.result(node, "SELECT", operand(b, condition, node, DType.BOOL), *values)


def _is_nan(b: GraphBuilder, node: Node) -> None:
    value = b.of(bind(node)["self"])
    b.alias(node, negated(b, b.emit("EQUAL", value, value, dtype=DType.BOOL, shape=value.shape)))


def _is_inf(b: GraphBuilder, node: Node) -> None:
    value = b.of(bind(node)["self"])
    size = b.emit("ABS", value, shape=value.shape)
    b.result(node, "EQUAL", size, b.scalar(math.inf, value.dtype, len(value.shape)))


_TENSORS: Final = ("Tensor", "Scalar")

ROWS: Final = (
    *(
        operator_row(
            f"{name}.{kind}",
            _equality(name == "ne") if name in ("eq", "ne") else _comparison(*found),
            VALUES,
        )
        for name, found in _COMPARISONS.items()
        for kind in _TENSORS
    ),
    *(operator_row(f"logical_{name}", _logical(f"LOGICAL_{kind}"), VALUES) for name, kind in _BITS.items()),
    operator_row("logical_not", _logical("LOGICAL_NOT"), VALUES),
    *(
        operator_row(f"bitwise_{name}.{kind}", _bitwise(found), VALUES)
        for name, found in _BITS.items()
        for kind in _TENSORS
    ),
    operator_row("bitwise_not", _bitwise("NOT"), VALUES),
    operator_row("where.self", _select, VALUES),
    operator_row("isnan", _is_nan, FLOATS),
    operator_row("isinf", _is_inf, FLOATS),
)
