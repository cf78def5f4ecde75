# SPDX-License-Identifier: Apache-2.0
"""Extrema of operands and along a dimension, their positions, and bounds.

Positions are those of ATen: of the first of several equal elements, or of the first NaN. They are computed as
the minimum of the positions of the extremum, which does not depend on the target's order of ties.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, read_results, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Function, FunctionTable, Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules.arithmetic import promoted
from delegatec.edge.legalize.rules.indices import positions
from delegatec.edge.legalize.rules.pointwise import FLOATS, NUMERIC_RESULT, pointwise
from delegatec.edge.legalize.rules.reductions import amax, amin, reversed_order
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


# ---- of operands -----------------------------------------------------------------------------------------


def _ignoring_nan(choose: Function) -> Function:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x, y = promoted(x, y)
        if not x.is_floating_point():
            result: Tensor = choose(x, y)
            return result
        return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, choose(x, y)))

    return function


def _both_bounds(b: Builder, node: Node) -> Node:
    a: dict[str, Any] = bind(node)
    return b.call(aten.clamp.default, a["self"], a.get("min"), a.get("max"), val=node.meta["val"])


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


def _maximum_by_minimum(x: Value, y: Value) -> Value:
    return reversed_order(reversed_order(x).minimum(reversed_order(y)))


def _clamp(builder: Builder, node: Node) -> Node:
    """Clamps; like ATen, returns the upper bound if the bounds are out of order."""
    bound, dtype = bind(node), dtype_of(node)
    x = value_of(builder, bound["self"], dtype)
    if any(isinstance(bound[name], float) and math.isnan(bound[name]) for name in ("min", "max")):
        return (x * math.nan).node
    for name, choose in (("min", Value.maximum), ("max", Value.minimum)):
        if bound[name] is not None:
            x = choose(x, value_of(builder, bound[name], dtype))
    return x.node


# ---- along a dimension -----------------------------------------------------------------------------------


def first_at(x: Value, extremum: Value, dim: int) -> Value:
    """Returns the first position of the extremum along a dimension: int32, the dimension is kept with size 1.

    Args:
        x: integers or floats.
        extremum: the maximum or minimum along the dimension, which is kept; NaN if an element is NaN.
        dim: the dimension.
    """
    found = x.eq(extremum)
    if x.dtype.is_floating_point:  # NaN does not equal anything: only NaN is found then.
        found = found | x.isnan()
    size = x.shape[dim]
    index = positions(x.builder, size, dim, x.rank)
    return amin(found.where(index, size), [dim], keepdim=True).within(0, size - 1)


def _ordered(builder: Builder, node: Node) -> Value:
    x = value_of(builder, bind(node)["self"])
    return x.to(torch.int32) if x.dtype == torch.bool else x


def _position(largest: bool) -> Rule:
    def rule(builder: Builder, node: Node) -> Node:
        x, dim = _ordered(builder, node), bind(node)["dim"]
        if dim is None or not x.shape:
            x, dim = x.view(x.numel), 0
        dim = positive(dim, x.rank)
        extremum = (amax if largest else amin)(x, [dim], True)
        return first_at(x, extremum, dim).view(*node.meta["val"].shape).to(torch.int64).node

    return rule


def _with_position(largest: bool) -> Rule:
    def rule(builder: Builder, node: Node) -> list[Node | None]:
        x, source = _ordered(builder, node), bind(node)["self"]
        shape = tuple(node.meta["val"][0].shape)
        x = x if x.shape else x.view(1)
        dim = positive(bind(node)["dim"], x.rank)
        extremum = (amax if largest else amin)(x, [dim], True)
        result = extremum.view(*shape).to(dtype_of(source)).node
        if 1 not in read_results(node):
            return [result, None]
        return [result, first_at(x, extremum, dim).view(*shape).to(torch.int64).node]

    return rule


_EXTREMUM_AND_POSITION: Final[dict[Any, tuple[Any, Any]]] = {
    aten.max.dim: (aten.amax.default, aten.argmax.default),
    aten.min.dim: (aten.amin.default, aten.argmin.default),
}


def _separate_position(builder: Builder, node: Node) -> list[Node | None]:
    """Calls an operator for the extremum, and one for its position, if they are used."""
    extremum, position = _EXTREMUM_AND_POSITION[node.target]
    bound, (value, index), read = bind(node), node.meta["val"], read_results(node)
    x, dim, keepdim = bound["self"], bound["dim"], bound["keepdim"]
    dims = [dim] if shape_of(x) else []
    return [
        builder.call(extremum, x, dims, keepdim, val=value) if 0 in read else None,
        builder.call(position, x, dim, keepdim, val=index) if 1 in read else None,
    ]


def _among_bools(builder: Builder, node: Node) -> Node:
    """Searches the extremum, or NaN if there is one, in a mask: the target's comparisons skip NaN."""
    bound = bind(node)
    x, dim = value_of(builder, bound["self"]), bound["dim"]
    dims = [] if dim is None else [dim]
    extremum = value_of(builder, builder.call(_EXTREMA[node.target], x.node, dims, bool(dims)))
    found = (x.eq(extremum) | x.isnan()).to(torch.uint8)
    return builder.call(aten.argmax.default, found.node, dim, bound["keepdim"])


_EXTREMA: Final = {position: extremum for extremum, position in _EXTREMUM_AND_POSITION.values()}

RULES: RuleTable = {aten.clamp_min.default: _both_bounds, aten.clamp_max.default: _both_bounds}

FUNCTIONS: FunctionTable = {
    aten.fmax.default: _ignoring_nan(torch.maximum),
    aten.fmin.default: _ignoring_nan(torch.minimum),
}

OF_OPERANDS: Final = (
    Rewrite(aten.minimum.default, pointwise(_minimum, 2), note="by where, which keeps NaN; `and` for bools"),
    Rewrite(aten.maximum.default, pointwise(_maximum, 2), note="by where, which keeps NaN; `or` for bools"),
    *(
        Rewrite(target, _clamp, (NUMERIC_RESULT,), note="the maximum with one bound, then the minimum")
        for target in (aten.clamp.default, aten.clamp.Tensor)
    ),
)
ALONG_DIM: Final = tuple(
    Rewrite(target, rule, note="minimum of the positions of the extremum")
    for target, rule in (
        (aten.argmax.default, _position(largest=True)),
        (aten.argmin.default, _position(largest=False)),
        (aten.max.dim, _with_position(largest=True)),
        (aten.min.dim, _with_position(largest=False)),
    )
)
REWRITES: Final = (*OF_OPERANDS, *ALONG_DIM)

MAXIMUM_BY_MINIMUM: Final = Rewrite(
    aten.maximum.default, pointwise(_maximum_by_minimum, 2), (NUMERIC_RESULT,), note="the negated minimum"
)
SEPARATE_POSITION: Final = tuple(Rewrite(target, _separate_position) for target in _EXTREMUM_AND_POSITION)
POSITION_OF_FLOATS: Final = tuple(
    Rewrite(
        target,
        _among_bools,
        (operand_dtypes(FLOATS, "only floats can be NaN."),),
        note="of floats, in the mask of the extremum, or of NaN if there is one",
    )
    for target in _EXTREMA
)
"""For targets that skip NaN when they search for a position."""
