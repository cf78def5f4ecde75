# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions.

GLSL leaves the results of min, max, clamp and comparisons for NaN to the driver.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Final

from torch.fx import Node

from delegatec.backends.common.row import variants
from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import BOOLS, FLOATS, NUMERIC
from delegatec.backends.vulkan.memory.demands import tied
from delegatec.backends.vulkan.operators.clamps import bounds_of, clamp
from delegatec.backends.vulkan.operators.row import (
    KNOWN_SCALARS,
    Constraint,
    Lower,
    OperatorRow,
    operator_row,
    same_call,
)
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, promoted, shape_of
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.constraints import OWN_DTYPE, argument, rank_at_most, result_dtypes, same_dtypes
from delegatec.edge.symbols import is_scalar

_row: Final = functools.partial(operator_row, resizes=())

_EXACT: Final = 2**24

_SAME: Final = same_dtypes("the runtime does not promote.")


def _binary(name: str) -> Lower:
    """Returns the lowering of an operator on two tensors; a scalar operand becomes a constant."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second, *rest = bind(node).values()
        other = b.of(second) if isinstance(second, Node) else b.scalar_tensor(second, dtype_of(first))
        b.call(name, b.of(first), other, *map(b.argument, rest), b.result(node))

    return lower


def _reversed_sub(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    first, second = b.scalar_tensor(bound["other"], dtype_of(node)), b.of(bound["self"])
    b.call("aten.sub.Tensor", first, second, b.scalar(1), b.result(node))


def _floor(b: GraphBuilder, node: Node) -> None:
    one = b.scalar_tensor(1.0, dtype_of(node))
    b.call("aten.div.Tensor_mode", b.of(bind(node)["self"]), one, b.scalar("floor"), b.result(node))


def _no_promotion(node: Node, _: object) -> str | None:
    first, second, *_ = bind(node).values()
    operands = [each for each in (first, second) if isinstance(each, Node)]
    if any(map(is_scalar, operands)):
        return "a dynamic scalar"
    if promoted([first, second]) == dtype_of(operands[0]):
        return None
    return f"{dtype_of(operands[0])} and the scalar {second}"


_NO_PROMOTION: Final = Constraint("dtype", "A scalar operand does not promote the tensor.", _no_promotion)
_HAS_DIMENSION: Final = Constraint(
    "rank",
    "The result has a dimension: the runtime cannot build a tensor without dimensions.",
    lambda node, _: None if node.meta["val"].dim() else "rank 0",
)
_ALPHA: Final = argument(
    "alpha", lambda value: abs(value) <= _EXACT, "alpha is at most 2^24: the runtime stores it as float32."
)


def _reversed_bounds(node: Node, _: object) -> str | None:
    low, high = bounds_of(node)
    is_empty = low is not None and high is not None and low > high
    return f"bounds of {low} and {high}" if is_empty else None


def _large_bounds(node: Node, _: object) -> str | None:
    if dtype_of(node).is_floating_point:
        return None
    large = [
        each
        for each in bounds_of(node)
        if each is not None and (abs(each) > _EXACT or each != math.trunc(each))
    ]
    return f"the bound {large[0]}" if large else None


_ORDERED: Final = Constraint(
    "argument",
    "The lower bound is not above the upper one: GLSL's clamp is undefined then.",
    _reversed_bounds,
)
_SMALL_BOUNDS: Final = Constraint(
    "argument",
    "Bounds of integers are integers up to 2^24: the runtime stores them as float32.",
    _large_bounds,
)
_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "the runtime computes it in floating point only.", "convert to float32"
)


_NOT_NEGATIVE: Final[constraint.Constraint[Facts]] = constraint.Constraint(
    "value",
    "The base is not negative, such as an absolute value: GLSL's pow is undefined for negative ones.",
    lambda node, facts: None if facts.of(bind(node)["self"]).low >= 0 else "the base may be negative",
)


def _lower_rank(node: Node, _: object) -> str | None:
    rank, full = len(shape_of(bind(node)["condition"])), len(shape_of(node))
    return f"a condition of rank {rank} for a result of rank {full}" if rank < full else None


_FULL_RANK: Final = Constraint(
    "rank",
    "The condition has the rank of the result: the runtime aligns others at the first size.",
    _lower_rank,
)
_FOUR: Final = rank_at_most(4, "the shaders have four dimensions.")

_FINITE_SLOPE: Final = argument(
    "negative_slope",
    lambda slope: not isinstance(slope, (int, float)) or math.isfinite(slope),
    "The slope is finite: the shader multiplies it by zero for positive values.",
)

_UNARY: Final = (
    *("abs", "cos", "exp", "neg", "sigmoid", "sin", "sqrt", "rsqrt", "tanh", "tan"),
    *("hardshrink", "hardswish", "hardsigmoid", "leaky_relu"),
)
_ARITHMETIC: Final = {
    "add": "aten.add.Tensor",
    "sub": "aten.sub.Tensor",
    "mul": "aten.mul.Tensor",
    "div": "aten.div.Tensor",
}
# Without eq: for floats it has a tolerance of 1e-5, and the runtime does not find it for integers.
_COMPARISONS: Final = ("lt", "le", "gt", "ge")


def _rows() -> Iterator[OperatorRow]:
    for name in _UNARY:
        settings = (_FINITE_SLOPE,) if name == "leaky_relu" else ()
        yield _row(name, tied(), FLOATS, _FOUR, _FLOAT_RESULT, *settings, preserved=name.startswith("hard"))
    yield _row(
        "gelu",
        tied(),
        FLOATS,
        _FOUR,
        argument("approximate", lambda value: value == "tanh", "The runtime has the tanh approximation."),
    )
    yield _row("relu", tied(), FLOATS, _FOUR, _FLOAT_RESULT, lower=clamp)
    for name in ("clamp", "hardtanh"):
        bounds = (KNOWN_SCALARS, _SMALL_BOUNDS, _ORDERED)
        yield _row(name, tied(), NUMERIC, _FOUR, OWN_DTYPE, *bounds, lower=clamp)
    for name, call in _ARITHMETIC.items():
        dtypes = FLOATS if name == "div" else NUMERIC
        extra = (_ALPHA,) if name in ("add", "sub") else ()
        for overload_name in variants({name: ""}, "Tensor", "Scalar"):
            yield _row(
                overload_name,
                tied(),
                dtypes,
                _SAME,
                _NO_PROMOTION,
                _HAS_DIMENSION,
                *extra,
                lower=_binary(call),
            )
    yield _row(
        "rsub.Scalar",
        tied(),
        NUMERIC,
        _NO_PROMOTION,
        _HAS_DIMENSION,
        argument("alpha", lambda value: value == 1, "alpha is 1."),
        lower=_reversed_sub,
    )
    yield _row("minimum", tied(), NUMERIC, _SAME, _HAS_DIMENSION)
    yield _row("floor", tied(), FLOATS, _HAS_DIMENSION, _FLOAT_RESULT, lower=_floor, note="a quotient by one")
    yield _row("round", tied(), FLOATS, _FOUR, _FLOAT_RESULT, note="the driver chooses how ties are rounded")
    for name in _COMPARISONS:
        for overload_name in variants({name: ""}, "Tensor", "Scalar"):
            call = f"aten.{name}.Tensor"
            yield _row(
                overload_name, tied(), NUMERIC, _SAME, _NO_PROMOTION, _HAS_DIMENSION, lower=_binary(call)
            )
    yield _row(
        "pow.Tensor_Scalar",
        tied(),
        FLOATS,
        _NO_PROMOTION,
        _HAS_DIMENSION,
        argument("exponent", lambda value: value > 0, "GLSL's pow of zero is undefined for others."),
        known=(_NOT_NEGATIVE,),
        lower=_binary("aten.pow.Tensor_Tensor"),
    )
    for name in ("bitwise_and.Tensor", "bitwise_or.Tensor", "logical_and", "logical_or"):
        yield _row(name, tied(), BOOLS, _HAS_DIMENSION)
    yield _row("bitwise_not", tied(), BOOLS, _FOUR)
    yield _row("logical_not", tied(), BOOLS, _FOUR, lower=same_call("aten.bitwise_not.default"))
    yield _row(
        "where.self",
        tied(),
        FLOATS | BOOLS,
        _FOUR,
        result_dtypes(FLOATS, "the runtime selects floating point only."),
        Constraint(
            "dtype", "Both alternatives have the dtype of the result.", _alternatives_of_several_dtypes
        ),
        _FULL_RANK,
        resizes=(),
    )


def _alternatives_of_several_dtypes(node: Node, _: object) -> str | None:
    bound = bind(node)
    dtypes = {dtype_of(bound[name]) for name in ("self", "other")}
    return "alternatives of several dtypes" if len(dtypes) > 1 else None


ROWS: Final = tuple(_rows())
