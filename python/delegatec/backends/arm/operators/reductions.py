# SPDX-License-Identifier: Apache-2.0
"""Reductions: TOSA reduces one dimension to size 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType, NanMode
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import FLOATS, FORMAT_FLOATS, TO_TOSA, VALUES
from delegatec.backends.arm.operators.conversion import converted, widened
from delegatec.backends.arm.operators.elementwise import arithmetic_type
from delegatec.backends.arm.operators.row import Lower, operator_row
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rules.reductions import reduced_dims

_PROPAGATE: Final = {"nan_mode": NanMode.PROPAGATE}


def reduced(b: GraphBuilder, name: str, value: Value, dims: list[int], **attributes: Any) -> Value:
    """Returns a value reduced to size 1 along dimensions."""
    for dim in dims:
        if value.shape[dim] > 1 or name == "ARGMAX":
            shape = (*value.shape[:dim], 1, *value.shape[dim + 1 :])
            value = b.emit(name, value, axis=dim, shape=shape, **attributes)
    return value


def _sum(b: GraphBuilder, node: Node) -> None:
    """Adds, half precision in FP32."""
    kind = arithmetic_type(dtype_of(node))
    total = reduced(b, "REDUCE_SUM", widened(b, converted(b, _operand(b, node), kind)), reduced_dims(node))
    _finish(b, node, total)


def _mean(b: GraphBuilder, node: Node) -> None:
    value = widened(b, converted(b, _operand(b, node), TO_TOSA[dtype_of(node)]))
    dims = reduced_dims(node)
    total = reduced(b, "REDUCE_SUM", value, dims)
    count = math.prod(value.shape[dim] for dim in dims)
    if count > 1:
        factor = b.scalar(1.0 / count, total.dtype, len(total.shape))
        total = b.emit("MUL", total, factor, b.scalar(0, DType.INT8), shape=total.shape)
    _finish(b, node, total)


def _operand(b: GraphBuilder, node: Node) -> Value:
    return b.of(bind(node)["self"])


def _finish(b: GraphBuilder, node: Node, value: Value) -> None:
    b.alias(node, converted(b, b.reshaped(value, shape_of(node)), TO_TOSA[dtype_of(node)]))


def _extremum(name: str, of_bools: str) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        value = _operand(b, node)
        if value.dtype == DType.BOOL:
            _finish(b, node, reduced(b, of_bools, value, reduced_dims(node)))
        else:
            _finish(b, node, reduced(b, name, value, reduced_dims(node), **_PROPAGATE))

    return lower


def _product(b: GraphBuilder, node: Node) -> None:
    value = widened(b, converted(b, _operand(b, node), TO_TOSA[dtype_of(node)]))
    name = "REDUCE_ALL" if value.dtype == DType.BOOL else "REDUCE_PRODUCT"
    _finish(b, node, reduced(b, name, value, reduced_dims(node)))


def _any(b: GraphBuilder, node: Node) -> None:
    value = converted(b, _operand(b, node), DType.BOOL)
    _finish(b, node, reduced(b, "REDUCE_ANY", value, reduced_dims(node)))


def _position(of_negative: bool) -> Lower:
    """Returns the lowering to the first position of an extremum along one dimension, or in all elements."""

    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        value = _operand(b, node)
        dim = bound["dim"]
        if dim is None or not value.shape:
            value, dim = b.reshaped(value, (math.prod(value.shape),)), 0
        dim = positive(dim, len(value.shape))
        if of_negative:
            value = _reversed(b, value)
        shape = (*value.shape[:dim], *value.shape[dim + 1 :])
        found = b.emit("ARGMAX", value, axis=dim, dtype=DType.INT32, shape=shape, **_PROPAGATE)
        b.alias(node, b.reshaped(found, shape_of(node)))

    return lower


def _reversed(b: GraphBuilder, value: Value) -> Value:
    """Returns values in reversed order: -x, or -1 - x for integers."""
    if value.dtype not in FORMAT_FLOATS:
        return b.emit("BITWISE_NOT", value, shape=value.shape)
    zero = b.scalar(0, value.dtype)
    return b.emit("NEGATE", value, zero, zero, shape=value.shape)


_FLOATS: Final = (result_dtypes(FLOATS, "REDUCE_PRODUCT has no integers."),)
_ORDERED: Final = FLOATS | {torch.int8, torch.int16}
_ROWS: Final[tuple[tuple[tuple[str, ...], Callable[[GraphBuilder, Node], None]], ...]] = (
    (("sum.dim_IntList",), _sum),
    (("mean.dim", "mean"), _mean),
    (("amax", "max"), _extremum("REDUCE_MAX", "REDUCE_ANY")),
    (("amin", "min"), _extremum("REDUCE_MIN", "REDUCE_ALL")),
    (("any", "any.dim", "any.dims"), _any),
)

ROWS: Final = (
    *(operator_row(name, lower, VALUES) for names, lower in _ROWS for name in names),
    *(operator_row(name, _product, VALUES, *_FLOATS) for name in ("prod", "prod.dim_int")),
    operator_row("argmax", _position(of_negative=False), _ORDERED),
    operator_row("argmin", _position(of_negative=True), _ORDERED),
)
