# SPDX-License-Identifier: Apache-2.0
"""Activation functions."""

from __future__ import annotations

import functools
import math
from typing import Final

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, clamp, unary
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.quantized.scales import SHARES
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import argument

_row: Final = functools.partial(operator_row, resizes=True)


def _relu(b: GraphBuilder, node: Node) -> None:
    b.alias(node, clamp(b, b.of(bind(node)["self"]), 0.0, math.inf))


def _clamp(b: GraphBuilder, node: Node) -> None:
    """Clamps to two bounds. If they are reversed, ATen's result is the upper one."""
    source, *bounds = list(bind(node).values())[:3]
    least, most = (
        default if bound is None else float(bound)
        for bound, default in zip(bounds, (-math.inf, math.inf), strict=True)
    )
    b.alias(node, clamp(b, b.of(source), min(least, most), most))


def _gelu(b: GraphBuilder, node: Node) -> None:
    b.alias(node, unary(b, Operation.Gelu, b.of(bind(node)["self"])))


def _leaky_relu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    dtype, shape = b.type_of(source)
    out = b.temporary(shape, dtype)
    slope = b.representable(bound["negative_slope"], dtype)
    b.emit(Operation.LeakyRelu, schema.LeakyReluT(slope, source, out, 0))
    b.alias(node, out)


def _elu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    dtype, shape = b.type_of(source)
    out = b.temporary(shape, dtype)
    b.emit(Operation.Elu, schema.EluT(b.representable(bound["alpha"], dtype), source, out, 0))
    b.alias(node, out if bound["scale"] == 1 else binary(b, Operation.Multiply, out, float(bound["scale"])))


def _hardsigmoid(b: GraphBuilder, node: Node) -> None:
    shifted = binary(b, Operation.Add, b.of(bind(node)["self"]), 3.0)
    b.alias(node, binary(b, Operation.Multiply, clamp(b, shifted, 0.0, 6.0), 1 / 6))


def _silu(b: QuantizedBuilder, node: Node) -> None:
    source = b.of(bind(node)["self"])
    if b.scale_of(node) is None:
        factor = unary(b, Operation.Sigmoid, source)
    else:
        factor = b.quantized_value(b.shape_of(source), SHARES, dtype_of(node))
        b.emit(Operation.Sigmoid, schema.UnaryT(source, factor, 0))
    b.alias(node, binary(b, Operation.Multiply, source, factor))


def _nan_bound(node: Node, _: object) -> str | None:
    bounds = list(bind(node).values())[1:3]
    return "a bound is NaN" if any(isinstance(each, float) and math.isnan(each) for each in bounds) else None


_BOUNDS: Final = Constraint("argument", "Bounds are not NaN: the runtime rejects NaN.", _nan_bound)

ROWS: Final[tuple[OperatorRow, ...]] = (
    _row("relu", _relu),
    _row("clamp", _clamp, _BOUNDS),
    _row("hardtanh", _clamp, _BOUNDS),
    _row(
        "gelu",
        _gelu,
        argument(
            "approximate",
            lambda value: value == "none",
            "approximate is none: XNNPACK computes Gelu with erf.",
        ),
        preserved=True,
    ),
    _row("leaky_relu", _leaky_relu),
    _row(
        "elu",
        _elu,
        argument(
            "input_scale", lambda value: value == 1, "input_scale is 1: XNNPACK does not scale the input."
        ),
        argument("alpha", lambda value: value > 0, "alpha is positive: the limit of XNNPACK."),
    ),
    _row("hardsigmoid", _hardsigmoid, preserved=True, note="a clamp between a sum and a product"),
    _row("silu", _silu, preserved=True, note="the product with the sigmoid"),
)
