# SPDX-License-Identifier: Apache-2.0
"""Rewrites of reductions to the dimensions and the form that the runtime has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.extrema import SEPARATE_POSITION
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.rules.reductions import reduced_dims
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten


def _kept(builder: Builder, node: Node) -> Any:
    """Keeps reduced dimensions, then drops them."""
    if bind(node)["keepdim"]:
        return None
    return again(builder, node, dim=reduced_dims(node), keepdim=True)


def _rows(builder: Builder, node: Node) -> Node | None:
    """Flattens the reduced dimensions into rows, and reduces the rows."""
    x, dims = value_of(builder, bind(node)["self"], dtype_of(node)), reduced_dims(node)
    if not x.shape:
        return x.node
    if x.rank == _RANK and dims == [1]:
        return None
    kept = [dim for dim in range(x.rank) if dim not in dims]
    count = math.prod(x.shape[dim] for dim in dims)
    rows = x.permute(*kept, *dims).view(math.prod(x.shape[dim] for dim in kept), count)
    target: Any = _REDUCTIONS[node.target]
    return Value(builder, builder.call(target, rows.node, [1], True)).view(*shape_of(node)).node


def _by_rows(reduce: Callable[[Node, Value], Node]) -> Rule:
    """Returns a rule that reduces rows, long ones in two passes, with a function of the call and a matrix."""

    def rule(builder: Builder, node: Node) -> Node | None:
        x = value_of(builder, bind(node)["self"], dtype_of(node))
        if x.rank != _RANK or reduced_dims(node) != [1]:
            return None
        count = x.shape[1]
        part = _divisor(count) if isinstance(count, int) and count > _LONG else 1
        for each in (count,) if part == 1 else (count // part, part):
            x = Value(builder, reduce(node, x if part == 1 else x.view(x.numel // each, each)))
        return x.view(*shape_of(node)).node

    return rule


def _short_rows(builder: Builder, node: Node) -> Node | None:
    """Multiplies without flattening dimensions."""
    x = value_of(builder, bind(node)["self"], dtype_of(node))
    if x.rank <= _RANK or reduced_dims(node) != [x.rank - 1]:
        return None
    if not isinstance(x.shape[-1], int) or x.shape[-1] > _LONG:
        return None
    return Value(builder, _product(node, x)).view(*shape_of(node)).node


def _product(node: Node, x: Value) -> Node:
    """Multiplies by a column of ones, or of a fraction for a mean; in float32, as eager mode sums float16."""
    if x.dtype == torch.float16:
        return Value(x.builder, _product(node, x.widened())).to(torch.float16).node
    count, is_mean = x.shape[-1], node.target is aten.mean.dim
    if not isinstance(count, int):
        total = (x @ full(x.builder, (count, 1), 1.0, x.dtype)).node
        return x.builder.call(aten.div.Scalar, total, count) if is_mean else total
    ones = torch.full((1, count), 1 / count if is_mean else 1.0, dtype=x.dtype)
    return x.builder.call(aten.linear.default, x.node, x.builder.constant(ones))


def _image(node: Node, x: Value) -> Node:
    """Reduces an image together with one other dimension."""
    target: Any = node.target
    return x.builder.call(target, x.view(1, 1, *x.shape).node, [1, 3], True)


def _divisor(count: int) -> int:
    """Returns the largest divisor that is not above the square root."""
    return next(each for each in range(math.isqrt(count), 0, -1) if count % each == 0)


_RANK: Final = 2
# A product sums a row in order, so the rounding error grows with the length; textures also limit it.
_LONG: Final = 2048

_REDUCTIONS: Final[dict[Any, Any]] = {
    aten.mean.dim: aten.mean.dim,
    aten.mean.default: aten.mean.dim,
    aten.sum.dim_IntList: aten.sum.dim_IntList,
    aten.amax.default: aten.amax.default,
    aten.max.default: aten.amax.default,
    aten.amin.default: aten.amin.default,
    aten.min.default: aten.amin.default,
}


def _position(builder: Builder, node: Node) -> Any:
    """Moves the searched dimension to the end."""
    bound = bind(node)
    x, dim = value_of(builder, bound["self"]), bound["dim"]
    if dim is None or not x.shape:
        moved = x.view(x.numel)
    else:
        dim = positive(dim, x.rank)
        moved = x.permute(*(each for each in range(x.rank) if each != dim), dim)
    return again(builder, node, self=moved.node, dim=-1, keepdim=True)


_FLOATS: Final = (operand_dtypes(FLOATS, "the runtime reduces floating point only."),)

REWRITES: Final = (
    *(Rewrite(target, _kept, _FLOATS) for target in (aten.mean.dim, aten.sum.dim_IntList)),
    *(Rewrite(target, _kept, _FLOATS) for target in (aten.amax.default, aten.amin.default)),
    *(Rewrite(target, _short_rows, _FLOATS) for target in (aten.mean.dim, aten.sum.dim_IntList)),
    *(Rewrite(target, _rows, _FLOATS, note="of rows") for target in _REDUCTIONS),
    *(
        Rewrite(
            target, _by_rows(_product), _FLOATS, note="a product with ones: buffers clamp to float16's range"
        )
        for target in (aten.mean.dim, aten.sum.dim_IntList)
    ),
    *(
        Rewrite(target, _by_rows(_image), _FLOATS, note="of images")
        for target in (aten.amax.default, aten.amin.default)
    ),
    *(Rewrite(target, _position, _FLOATS) for target in (aten.argmax.default, aten.argmin.default)),
    *(Rewrite(each.target, each.rule, _FLOATS) for each in SEPARATE_POSITION),
)
