# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions. TOSA broadcasts operands of one rank and promotes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType, NanMode
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder, bound
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import FLOATS, FORMAT_FLOATS, NUMERIC, TO_TOSA, VALUES
from delegatec.backends.arm.operators.conversion import converted, widened
from delegatec.backends.arm.operators.row import (
    Constraint,
    KnownConstraint,
    Lower,
    operand,
    operator_row,
    zero_point,
)
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of

_FUNCTIONS: Final = {
    "exp": "EXP",
    "log": "LOG",
    "sin": "SIN",
    "cos": "COS",
    "tanh": "TANH",
    "sigmoid": "SIGMOID",
    "erf": "ERF",
    "rsqrt": "RSQRT",
    "reciprocal": "RECIPROCAL",
}
"""The results are floating point for operands of any dtype."""
_EXTREMA: Final = {
    "maximum": ("MAXIMUM", NanMode.PROPAGATE),
    "minimum": ("MINIMUM", NanMode.PROPAGATE),
    "fmax": ("MAXIMUM", NanMode.IGNORE),
    "fmin": ("MINIMUM", NanMode.IGNORE),
}
_LEAST_INTEGRAL: Final = {DType.FP32: 2.0**23, DType.FP16: 2.0**10, DType.BF16: 2.0**7}
"""Magnitudes from which on all floats are integers."""
_NARROW: Final = (DType.INT8, DType.INT16)


def arithmetic_type(dtype: torch.dtype) -> int:
    """Returns the type of arithmetic on a dtype: INT32 for integers, which wrap when they are narrowed."""
    kind = TO_TOSA[dtype]
    return DType.INT32 if kind in _NARROW else kind


def _type_of_product(dtype: torch.dtype, factors: Sequence[Any]) -> int:
    """Returns `arithmetic_type`, but FP32 if a scalar is not a normal number of float16.

    Eager mode multiplies by such a scalar in float32, and rounds the product.
    """
    kind, limits = arithmetic_type(dtype), torch.finfo(torch.float16)
    sizes = [abs(each) for each in factors if isinstance(each, float) and math.isfinite(each)]
    if kind == DType.FP16 and any(size and not limits.tiny <= size <= limits.max for size in sizes):
        return int(DType.FP32)
    return kind


def compute(b: GraphBuilder, node: Node, name: str, operands: Sequence[Any], **attributes: Any) -> None:
    """Lowers integer and float arithmetic.

    Args:
        b: the graph.
        node: the result.
        name: the operator of TOSA.
        operands: nodes and scalars, converted to the dtype of the result.
        **attributes: of the operator.
    """
    dtype = dtype_of(node)
    kind = _type_of_product(dtype, operands) if name == "MUL" else arithmetic_type(dtype)
    values = [operand(b, each, node, kind) for each in operands]
    emitted = b.emit(name, *values, *_shift(b, name), dtype=kind, shape=shape_of(node), **attributes)
    b.alias(node, converted(b, emitted, TO_TOSA[dtype_of(node)]))


def _shift(b: GraphBuilder, name: str) -> Sequence[Value]:
    return [b.scalar(0, DType.INT8)] if name == "MUL" else []


def _operands(node: Node) -> tuple[Any, Any]:
    first, second, *_ = bind(node).values()
    return first, second


def _function(name: str) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        compute(b, node, name, [bind(node)["self"]])

    return lower


def _scaled(name: str) -> Lower:
    """Returns the lowering of `self op alpha * other`; the sum of bools is whether any is true."""

    def lower(b: GraphBuilder, node: Node) -> None:
        if dtype_of(node) == torch.bool:
            compute(b, node, "LOGICAL_OR", _operands(node))
            return
        kind = arithmetic_type(dtype_of(node))
        first, second = (operand(b, each, node, kind) for each in _operands(node))
        alpha = bind(node)["alpha"]
        if alpha != 1:
            factor = b.scalar(alpha, kind, len(second.shape))
            second = b.emit("MUL", second, factor, *_shift(b, "MUL"), shape=second.shape)
        emitted = b.emit(name, first, second, dtype=kind, shape=shape_of(node))
        b.alias(node, converted(b, emitted, TO_TOSA[dtype_of(node)]))

    return lower


def _reversed_difference(b: GraphBuilder, node: Node) -> None:
    bound_ = bind(node)
    kind = arithmetic_type(dtype_of(node))
    first = operand(b, bound_["self"], node, kind)
    if bound_["alpha"] != 1:
        factor = b.scalar(bound_["alpha"], kind, len(first.shape))
        first = b.emit("MUL", first, factor, *_shift(b, "MUL"), shape=first.shape)
    second = operand(b, bound_["other"], node, kind)
    emitted = b.emit("SUB", second, first, dtype=kind, shape=shape_of(node))
    b.alias(node, converted(b, emitted, TO_TOSA[dtype_of(node)]))


def _mul(b: GraphBuilder, node: Node) -> None:
    name = "LOGICAL_AND" if dtype_of(node) == torch.bool else "MUL"
    compute(b, node, name, _operands(node))


def _quotient(b: GraphBuilder, node: Node) -> None:
    """Multiplies by the reciprocal; half precision in FP32, for one rounding."""
    first, second = _operands(node)
    kind = TO_TOSA[dtype_of(node)]
    dividend = widened(b, operand(b, first, node))
    rank = len(dividend.shape)
    if isinstance(second, Node):
        divisor = widened(b, operand(b, second, node))
        factor = b.emit("RECIPROCAL", divisor, shape=divisor.shape)
    else:
        factor = b.scalar(_inverse(float(second)), dividend.dtype, rank)
    shape = shape_of(node)
    product = b.emit("MUL", dividend, factor, *_shift(b, "MUL"), shape=shape)
    b.alias(node, b.cast(product, kind))


def _inverse(scalar: float) -> float:
    return math.copysign(math.inf, scalar) if scalar == 0 else 1.0 / scalar


def _negate(b: GraphBuilder, node: Node) -> None:
    value = operand(b, bind(node)["self"], node)
    zero = zero_point(b, value)
    b.result(node, "NEGATE", value, zero, zero)


def _root(b: GraphBuilder, node: Node) -> None:
    """Takes the reciprocal of the reciprocal root, which is right for zero and infinity."""
    value = operand(b, bind(node)["self"], node)
    wide = widened(b, value)
    inverse = b.emit("RSQRT", wide, shape=value.shape)
    b.alias(node, b.cast(b.emit("RECIPROCAL", inverse, shape=value.shape), value.dtype))


def _extremum(name: str, nan_mode: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        if dtype_of(node) == torch.bool:
            compute(b, node, "LOGICAL_OR" if name == "MAXIMUM" else "LOGICAL_AND", _operands(node))
        else:
            compute(b, node, name, _operands(node), nan_mode=nan_mode)

    return lower


def _limits(node: Node) -> tuple[Any, Any]:
    _, *limits = bind(node).values()
    low, high = (*limits, None)[:2] if node.target is not torch.ops.aten.relu.default else (0, None)
    return low, high


def _clamp(b: GraphBuilder, node: Node) -> None:
    low, high = _limits(node)
    kind = TO_TOSA[dtype_of(node)]
    value = operand(b, bind(node)["self"], node)
    if kind in FORMAT_FLOATS:
        lowest, highest = -math.inf, math.inf
    else:
        info = torch.iinfo(torch.int32 if dtype_of(node) == torch.int64 else dtype_of(node))
        lowest, highest = info.min, info.max
    low = lowest if low is None else max(low, lowest)
    high = highest if high is None else min(high, highest)
    low = min(low, high)  # as torch orders them
    if kind == DType.INT32:
        for name, limit, neutral in (("MAXIMUM", low, lowest), ("MINIMUM", high, highest)):
            if limit != neutral:
                scalar = b.scalar(int(limit), kind, len(value.shape))
                value = b.emit(name, value, scalar, shape=value.shape, nan_mode=NanMode.PROPAGATE)
        b.alias(node, value)
        return
    limits = {"min_val": bound(low, kind), "max_val": bound(high, kind)}
    b.result(node, "CLAMP", value, **limits, nan_mode=NanMode.PROPAGATE)


def _power(b: GraphBuilder, node: Node) -> None:
    compute(b, node, "POW", list(bind(node).values())[:2])


def _unpredictable(node: Node, facts: Facts) -> str | None:
    """Requires positive bases; infinite operands are undefined, too."""
    base, exponent = (facts.of(each) for each in list(bind(node).values())[:2])
    if (
        base.low > 0
        and base.high < math.inf
        and abs(exponent.low) < math.inf
        and abs(exponent.high) < math.inf
    ):
        return None
    return f"a base in [{base.low}, {base.high}], an exponent in [{exponent.low}, {exponent.high}]"


def _round(b: GraphBuilder, node: Node) -> None:
    """Converts to integers, as CAST rounds; larger floats have no fraction."""
    value = b.of(bind(node)["self"])
    kind, shape = value.dtype, value.shape
    size = b.emit("ABS", value, shape=shape)
    limit = b.scalar(_LEAST_INTEGRAL[kind], kind, len(shape))
    is_small = b.emit("GREATER", limit, size, dtype=DType.BOOL, shape=shape)
    rounded = b.cast(b.cast(value, DType.INT32), kind)
    b.alias(node, b.emit("SELECT", is_small, rounded, value, dtype=kind, shape=shape))


def _nan_limit(node: Node, _: object) -> str | None:
    if any(isinstance(each, float) and math.isnan(each) for each in _limits(node)):
        return "a bound is NaN"
    return None


_DEFINED: Final = KnownConstraint(
    "argument", "POW is defined for positive finite bases and finite exponents.", _unpredictable
)
_LIMITS: Final[Constraint] = Constraint(
    "argument", "Bounds are not NaN: CLAMP does not support it.", _nan_limit
)

ROWS: Final = (
    *(operator_row(name, _function(operation), VALUES) for name, operation in _FUNCTIONS.items()),
    *(operator_row(name, _function(name.upper()), FLOATS) for name in ("floor", "ceil")),
    operator_row("sqrt", _root, VALUES),
    operator_row("abs", _function("ABS"), NUMERIC),
    operator_row("neg", _negate, NUMERIC),
    *(operator_row(f"add.{kind}", _scaled("ADD"), VALUES) for kind in ("Tensor", "Scalar")),
    *(operator_row(f"sub.{kind}", _scaled("SUB"), VALUES) for kind in ("Tensor", "Scalar")),
    operator_row("rsub.Scalar", _reversed_difference, VALUES),
    *(operator_row(f"mul.{kind}", _mul, VALUES) for kind in ("Tensor", "Scalar")),
    *(operator_row(f"div.{kind}", _quotient, VALUES) for kind in ("Tensor", "Scalar")),
    *(
        operator_row(name, _extremum(*found), VALUES, preserved=name.startswith("f"))
        for name, found in _EXTREMA.items()
    ),
    *(operator_row(name, _clamp, VALUES, _LIMITS) for name in ("clamp", "hardtanh", "relu")),
    operator_row("round", _round, FLOATS),
    *(
        operator_row(f"pow.{kind}", _power, VALUES, known=(_DEFINED,))
        for kind in ("Scalar", "Tensor_Scalar", "Tensor_Tensor")
    ),
)
