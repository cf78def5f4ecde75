# SPDX-License-Identifier: Apache-2.0
"""Comparisons, and selections by bools."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, promoted, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.pointwise import FLOATS, INTEGERS
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten


def _false(builder: Builder, node: Node) -> Node:
    return full(builder, shape_of(node), False, torch.bool).node


def _masked_fill(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"], dtype_of(node))
    return value_of(builder, bound["mask"], torch.bool).where(bound["value"], x).node


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
    """Compares twice; bools by `and` and `or`."""
    return (x & y) | (~x & ~y) if x.dtype == torch.bool else x.le(y) & x.ge(y)


def _different(x: Value, y: Any) -> Value:
    return ~_equal(x, y)


def _to_bool(builder: Builder, node: Node) -> Node | None:
    if dtype_of(node) != torch.bool:
        return None
    return _different(value_of(builder, bind(node)["self"]), 0).node


def _of_full_rank(builder: Builder, node: Node) -> Any:
    """Gives the condition the rank of the result."""
    condition = value_of(builder, bind(node)["condition"])
    missing = len(shape_of(node)) - condition.rank
    if not missing:
        return None
    return again(builder, node, condition=condition.view(*[1] * missing, *condition.shape).node)


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


def _select_by_extrema(builder: Builder, node: Node) -> Node | None:
    """Returns the maximum of both values, of which one is minus infinity."""
    bound, dtype = bind(node), dtype_of(node)
    condition, *values = bound.values()
    limit = (value_of(builder, condition, dtype) - 0.5) * math.inf
    chosen = [
        value_of(builder, value, dtype).minimum(most)
        for value, most in zip(values, (limit, -limit), strict=True)
        if shape_of(value) or builder.facts.of(value).high > -math.inf
    ]
    return functools.reduce(Value.maximum, chosen).node if chosen else None


def _nan_value(node: Node, _: object) -> str | None:
    bound = bind(node)
    return "a value is NaN" if any(_is_nan(bound[name]) for name in ("self", "other")) else None


def _is_nan(node: Node) -> bool:
    scalar = bind(node)["fill_value"] if node.target is aten.full.default else None
    return isinstance(scalar, float) and math.isnan(scalar)


_FLOATS: Final = (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),)
_INTEGERS: Final = (operand_dtypes(INTEGERS, "integers are always finite."),)

REWRITES: Final = (
    Rewrite(aten.masked_fill.Scalar, _masked_fill),
    *(
        Rewrite(target, _false, _INTEGERS, note="false for integers")
        for target in (aten.isinf.default, aten.isnan.default)
    ),
)

EQUAL_BY_ORDER: Final = (
    *(Rewrite(target, _compared(_equal)) for target in (aten.eq.Tensor, aten.eq.Scalar)),
    *(Rewrite(target, _compared(_different)) for target in (aten.ne.Tensor, aten.ne.Scalar)),
    Rewrite(aten._to_copy.default, _to_bool),
)
NOT_FINITE_BY_ORDER: Final = (
    Rewrite(aten.isnan.default, _compared(lambda x: ~x.le(x)), _FLOATS),
    Rewrite(aten.isinf.default, _compared(lambda x: x.abs().ge(math.inf)), _FLOATS),
)
WHERE_OF_BOOLS: Final = Rewrite(aten.where.self, _select_bools, note="by `and` and `or` for bools")
WHERE_BY_ARITHMETIC: Final = (
    Rewrite(aten.where.self, _of_full_rank, note="with a condition of full rank"),
    WHERE_OF_BOOLS,
    Rewrite(aten.where.self, _select_integers, note="by a product for integers"),
)
WHERE_BY_EXTREMA: Final = Rewrite(
    aten.where.self,
    _select_by_extrema,
    (
        result_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),
        Constraint(
            "argument", "Neither value is NaN: the maximum of a float and NaN may be NaN.", _nan_value
        ),
    ),
    note="the maximum of both values, one of which is minus infinity; NaN may become another value",
)
