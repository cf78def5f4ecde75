# SPDX-License-Identifier: Apache-2.0
"""Elementary functions of one or two values, for targets that lack them."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT, INTEGER_RESULT, INTEGERS, pointwise
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

# Below this magnitude, log1p and expm1 are series, with as many terms as the dtype resolves.
_SMALL: Final = 0.5
_LOG1P_TERMS: Final = {torch.float32: 7, torch.float16: 4, torch.bfloat16: 3}
_EXPM1_TERMS: Final = {torch.float32: 9, torch.float16: 5, torch.bfloat16: 4}


def log1p(x: Value) -> Value:
    """Returns log(1 + x), near zero as the series of 2 atanh(x / (2 + x))."""
    s = x / (x + 2.0)
    square = s * s
    terms = _LOG1P_TERMS[x.dtype]
    series = square * (2.0 / (2 * terms - 1)) + 2.0 / (2 * terms - 3)
    for index in reversed(range(terms - 2)):
        series = series * square + 2.0 / (2 * index + 1)
    return x.abs().lt(_SMALL).where(s * series, (x + 1.0).log())


def expm1(x: Value) -> Value:
    """Returns exp(x) - 1, near zero as the series x (1 + x / 2 (1 + x / 3 (...)))."""
    terms = _EXPM1_TERMS[x.dtype]
    series = x * (1.0 / terms) + 1.0
    for index in reversed(range(2, terms)):
        series = series * (x * (1.0 / index)) + 1.0
    return x.abs().lt(_SMALL).where(x * series, x.exp() - 1.0)


def _logit(builder: Builder, node: Node) -> Node:
    """Computes logit in float32, in which one minus a small number is not one."""
    bound, dtype = bind(node), dtype_of(node)
    x = value_of(builder, bound["self"], dtype).widened()
    if bound["eps"] is not None:
        low = torch.tensor(bound["eps"], dtype=torch.float32)
        x = x.clamp(low.item(), (1 - low).item())
    return (x / (1.0 - x)).log().to(dtype).node


def _inverted_bounds(node: Node, _: object) -> str | None:
    eps = bind(node)["eps"]
    return None if eps is None or eps <= 0.5 else f"eps is {eps}"


def _atan2(y: Value, x: Value) -> Value:
    """Returns the angle of (x, y), from the arc tangent of their smaller magnitude over the larger."""
    width, height = x.abs(), y.abs()
    is_steep = height.gt(width)
    longer, shorter = is_steep.where(height, width), is_steep.where(width, height)
    # 0 / 0 and inf / inf: angles of 0 and 45 degrees
    ratio = longer.eq(0.0).where(shorter, shorter / longer)
    ratio = (shorter.isinf() & longer.isinf()).where(1.0, ratio)
    angle = ratio.atan()
    angle = is_steep.where(math.pi / 2 - angle, angle)
    angle = x.is_negative().where(math.pi - angle, angle)
    return y.is_negative().where(-angle, angle)


def _xlogy(x: Value, y: Value) -> Value:
    """Returns x log(y), zero if x is zero, unless y is NaN."""
    return (x.eq(0.0) & ~y.isnan()).where(0.0, x * y.log())


def _minimum(x: Value, y: Value) -> Value:
    """Returns the elementwise minimum; NaN if an operand is NaN."""
    if x.dtype == torch.bool:
        return x & y
    smaller = x.lt(y)
    return (smaller | x.isnan() if x.dtype.is_floating_point else smaller).where(x, y)


def _maximum(x: Value, y: Value) -> Value:
    """Returns the elementwise maximum; NaN if an operand is NaN."""
    if x.dtype == torch.bool:
        return x | y
    larger = x.gt(y)
    return (larger | x.isnan() if x.dtype.is_floating_point else larger).where(x, y)


def _false(builder: Builder, node: Node) -> Node:
    return full(builder, shape_of(node), False, torch.bool).node


_INTEGERS: Final = (operand_dtypes(INTEGERS, "integers are always finite."),)

REWRITES: Final = (
    Rewrite(
        aten.log1p.default,
        pointwise(log1p),
        (FLOAT_RESULT,),
        note="a series near zero, where log(1 + x) loses the digits of x",
    ),
    Rewrite(
        aten.expm1.default,
        pointwise(expm1),
        (FLOAT_RESULT,),
        note="a series near zero, where exp(x) - 1 loses the digits of x",
    ),
    Rewrite(
        aten.logit.default,
        _logit,
        (
            FLOAT_RESULT,
            Constraint("argument", "eps is at most 0.5, so that the bounds are in order.", _inverted_bounds),
        ),
        note="in float32",
    ),
    Rewrite(
        aten.atan2.default, pointwise(_atan2, 2), (FLOAT_RESULT,), note="from the arc tangent of a ratio"
    ),
    *(
        Rewrite(target, pointwise(_xlogy, 2), (FLOAT_RESULT,))
        for target in (aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self)
    ),
    Rewrite(aten.minimum.default, pointwise(_minimum, 2), note="by where, which keeps NaN; `and` for bools"),
    Rewrite(aten.maximum.default, pointwise(_maximum, 2), note="by where, which keeps NaN; `or` for bools"),
    Rewrite(
        aten.abs.default,
        pointwise(lambda x: x.lt(0).where(-x, x)),
        (INTEGER_RESULT,),
        note="by where for integers",
    ),
    Rewrite(
        aten.sign.default,
        pointwise(lambda x: x.clamp(-1, 1)),
        (INTEGER_RESULT,),
        note="by clamp for integers",
    ),
    Rewrite(
        aten.trunc.default,
        pointwise(lambda x: x.lt(0.0).where(x.ceil(), x.floor())),
        (FLOAT_RESULT,),
    ),
    *(
        Rewrite(target, pointwise(lambda x: x), (INTEGER_RESULT,), note="no operation for integers")
        for target in (aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default)
    ),
    *(
        Rewrite(target, _false, _INTEGERS, note="false for integers")
        for target in (aten.isinf.default, aten.isnan.default)
    ),
)
