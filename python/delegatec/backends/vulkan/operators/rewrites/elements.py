# SPDX-License-Identifier: Apache-2.0
"""Functions of elements that the runtime lacks, or computes wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.vulkan.dtypes import FLOATS, INTEGERS
from delegatec.edge.arguments import bind, dtype_of, promoted, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.pointwise import pointwise
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

# Abramowitz and Stegun, 7.1.26: erf(x) = 1 - t (a1 + t (a2 + ...)) exp(-x^2) with t = 1 / (1 + p x), for
# x >= 0, to 1.5e-7.
_ERF_P: Final = 0.3275911
_ERF: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _compared(compare: Callable[..., Value]) -> Rule:
    """Returns a rule for a comparison in the dtype that the operands are promoted to."""

    def rule(builder: Builder, node: Node) -> Node:
        operands = list(bind(node).values())[:2]
        dtype = promoted(operands)
        first, *others = (
            value_of(builder, each, dtype) if isinstance(each, Node) else each for each in operands
        )
        return compare(first, *others).node

    return rule


def _equal(x: Value, y: Any) -> Value:
    """Compares twice: the runtime's equality of floats holds up to a distance of 1e-5."""
    return (x & y) | (~x & ~y) if x.dtype == torch.bool else x.le(y) & x.ge(y)


def _different(x: Value, y: Any) -> Value:
    return ~_equal(x, y)


def _maximum(x: Value, y: Value) -> Value:
    return -(-x).minimum(-y) if x.dtype.is_floating_point else 0 - (0 - x).minimum(0 - y)


def _reciprocal(x: Value) -> Value:
    one = torch.ones([1] * min(x.rank, 1), dtype=x.dtype)
    return Value(x.builder, x.builder.constant(one)) / x


def _erf(x: Value) -> Value:
    size = x.abs()
    t = _reciprocal(size * _ERF_P + 1.0)
    series = t * _ERF[-1] + _ERF[-2]
    for factor in reversed(_ERF[:-2]):
        series = series * t + factor
    magnitude = 1.0 - series * t * (-(x * x)).exp()
    return x.lt(0.0).where(-magnitude, magnitude)


def _gelu(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    if bound["approximate"] != "none":
        return None
    x = value_of(builder, bound["self"])
    return (x * 0.5 * (_erf(x * math.sqrt(0.5)) + 1.0)).node


def _promoted_clamp(builder: Builder, node: Node) -> Any:
    source = bind(node)["self"]
    if dtype_of(source) == dtype_of(node):
        return None
    return again(builder, node, self=value_of(builder, source, dtype_of(node)).node)


def _power(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    exponent = bound["exponent"]
    if exponent >= 0:
        return None
    base = value_of(builder, bound["self"])
    return _reciprocal(base**-exponent).node


def _truncated(x: Value) -> Value:
    return x.lt(0.0).where(-(-x).floor(), x.floor())


def _sign(x: Value) -> Value:
    return x.gt(0.0).to(x.dtype) - x.lt(0.0).to(x.dtype)


def _select_bools(builder: Builder, node: Node) -> Node | None:
    if dtype_of(node) != torch.bool:
        return None
    condition, one, other = (value_of(builder, each) for each in bind(node).values())
    return ((condition & one) | (~condition & other)).node


def _select_integers(builder: Builder, node: Node) -> Node | None:
    dtype = dtype_of(node)
    if dtype not in INTEGERS:
        return None
    condition, one, other = bind(node).values()
    x, y = (value_of(builder, each, dtype) for each in (one, other))
    return (value_of(builder, condition, dtype) * (x - y) + y).node


def _of_rank_one(builder: Builder, node: Node) -> Any:
    """Computes on one element instead of none."""
    if shape_of(node):
        return None
    bound = bind(node)
    operands = {
        name: value_of(builder, each).view(1).node for name, each in bound.items() if isinstance(each, Node)
    }
    return again(builder, node, **operands)


def _of_full_rank(builder: Builder, node: Node) -> Any:
    """Gives the condition the rank of the result.

    The runtime needs it to resize the result, also one of static sizes if others in the graph vary.
    """
    condition = value_of(builder, bind(node)["condition"])
    missing = len(shape_of(node)) - condition.rank
    if not missing:
        return None
    return again(builder, node, condition=condition.view(*[1] * missing, *condition.shape).node)


def _to_bool(builder: Builder, node: Node) -> Node | None:
    if dtype_of(node) != torch.bool:
        return None
    return _different(value_of(builder, bind(node)["self"]), 0).node


def _of_few_dimensions(builder: Builder, node: Node) -> Any:
    """Computes on two dimensions instead of more than four."""
    shape = shape_of(node)
    if len(shape) <= _FEW:
        return None
    bound = bind(node)
    operands = {name: value_of(builder, each) for name, each in bound.items() if isinstance(each, Node)}
    rows = (math.prod(shape[:-1]), shape[-1])
    joined = {
        name: x.view(*[1] * (len(shape) - x.rank), *x.shape).expand(*shape).view(*rows).node
        for name, x in operands.items()
    }
    return again(builder, node, **joined)


def _convert_few_dimensions(builder: Builder, node: Node) -> Node | None:
    x = value_of(builder, bind(node)["self"])
    if x.rank <= _FEW:
        return None
    return x.view(math.prod(x.shape[:-1]), x.shape[-1]).to(dtype_of(node)).view(*x.shape).node


def _full(builder: Builder, node: Node) -> Node | None:
    """Fills two dimensions instead of more than four."""
    shape = shape_of(node)
    if len(shape) <= _FEW:
        return None
    return full(builder, (math.prod(shape),), bind(node)["fill_value"], dtype_of(node)).view(*shape).node


_FEW: Final = 4
_FEW_DIMENSIONS: Final = (
    *("abs", "cos", "exp", "neg", "sigmoid", "sin", "sqrt", "rsqrt", "tanh", "tan", "round", "relu"),
    *(
        "bitwise_not",
        "logical_not",
        "hardshrink",
        "hardswish",
        "hardsigmoid",
        "leaky_relu",
        "gelu",
        "clamp",
        "hardtanh",
        "where.self",
    ),
)
_FLOATS: Final = (operand_dtypes(FLOATS, "it is computed in floating point."),)
_FLOAT_RESULT: Final = (result_dtypes(FLOATS, "it is computed in floating point."),)

_BINARY: Final = tuple(
    overload(f"{name}.{kind}")
    for name in ("add", "sub", "mul", "div", "lt", "le", "gt", "ge")
    for kind in ("Tensor", "Scalar")
) + tuple(
    overload(name)
    for name in (
        *("pow.Tensor_Scalar", "rsub.Scalar", "minimum", "floor", "logical_and", "logical_or"),
        *("bitwise_and.Tensor", "bitwise_or.Tensor"),
    )
)

REWRITES: Final = (
    *(Rewrite(overload(name), _of_few_dimensions) for name in _FEW_DIMENSIONS),
    Rewrite(aten._to_copy.default, _convert_few_dimensions),
    Rewrite(aten.full.default, _full, computes=False),
    *(Rewrite(target, _of_rank_one) for target in _BINARY),
    *(Rewrite(target, _compared(_equal)) for target in (aten.eq.Tensor, aten.eq.Scalar)),
    *(Rewrite(target, _compared(_different)) for target in (aten.ne.Tensor, aten.ne.Scalar)),
    Rewrite(aten.maximum.default, pointwise(_maximum, 2), note="the negated minimum"),
    Rewrite(aten.reciprocal.default, pointwise(_reciprocal), _FLOAT_RESULT),
    Rewrite(aten.erf.default, pointwise(_erf), _FLOAT_RESULT, note="to 1.5e-7"),
    Rewrite(aten.gelu.default, _gelu, _FLOATS, note="with erf to 1.5e-7"),
    Rewrite(aten.pow.Tensor_Scalar, _power, _FLOATS, note="the reciprocal for negative exponents"),
    Rewrite(aten.clamp.default, _promoted_clamp),
    Rewrite(aten.exp2.default, pointwise(lambda x: (x * math.log(2)).exp()), _FLOAT_RESULT),
    Rewrite(aten.ceil.default, pointwise(lambda x: -(-x).floor()), _FLOAT_RESULT),
    Rewrite(aten.trunc.default, pointwise(_truncated), _FLOAT_RESULT),
    Rewrite(aten.sign.default, pointwise(_sign), _FLOAT_RESULT),
    Rewrite(aten.isnan.default, _compared(lambda x: ~x.le(x)), _FLOATS),
    Rewrite(aten.isinf.default, _compared(lambda x: x.abs().ge(math.inf)), _FLOATS),
    Rewrite(aten.where.self, _of_full_rank, note="with a condition of full rank"),
    Rewrite(aten.where.self, _select_bools, note="by `and` and `or` for bools"),
    Rewrite(aten.where.self, _select_integers, note="by a product for integers"),
    Rewrite(aten._to_copy.default, _to_bool),
)
