# SPDX-License-Identifier: Apache-2.0
"""Positions of extrema, sorting, and the largest elements.

Positions are those of integers: MLX skips NaN. It sorts in ascending order, and NaN last, as ATen does.
Descending order is that of the reversed elements, reversed: equal ones keep their order, and NaN is first.
MLX partitions by a sort on GPUs, as here.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder, Size
from delegatec.backends.mlx.building.moves import reshaped, reversed_along, sliced
from delegatec.backends.mlx.building.values import Array, Int
from delegatec.backends.mlx.dtypes import INTEGERS, NUMERIC
from delegatec.backends.mlx.operators.row import Constraint, Lower, operator_row
from delegatec.edge.arguments import bind, positive, read_results
from delegatec.edge.legalize.constraints import HAS_AXIS, operand_dtypes


def _position(name: str) -> Lower:
    """Returns the lowering to the position of an extremum."""

    def lower(b: GraphBuilder, node: Node) -> None:
        bound, out = bind(node), b.result(node)
        x = b.of(bound["self"])
        if bound["dim"] is None:
            flat = b.temporary((-1,), x.dtype)
            b.emit("Reshape", x=x, out=flat, shape=[Int(-1)])
            x, axis, keepdim = flat, 0, False
        else:
            axis, keepdim = positive(bound["dim"], len(x.shape)), bool(bound["keepdim"])
        found = b.temporary(out.shape if bound["dim"] is not None else (), torch.uint32)
        b.emit(name, x=x, out=found, axis=axis, keepdims=keepdim)
        b.alias(node, b.converted(reshaped(b, found, out.shape), torch.int64))

    return lower


def _order(b: GraphBuilder, x: Array, axis: int, *, descending: bool) -> Array:
    """Returns the sorted positions of the elements along a dimension, as uint32."""
    source = reversed_along(b, x, axis) if descending else x
    order = b.temporary(x.shape, torch.uint32)
    b.emit("Argsort", x=source, out=order, axis=axis)
    return order


def _ordered(b: GraphBuilder, node: Node, *, descending: bool, count: Size | None) -> None:
    """Lowers a call with two results: elements in order, and their positions; the first of them, or all."""
    x = b.of(bind(node)["self"])
    axis = positive(bind(node)["dim"], len(x.shape))
    positions = node.meta["val"][1]
    read = read_results(node)
    if 1 not in read:
        _values(b, node, x, axis, descending=descending, count=count)
        return
    order = _order(b, x, axis, descending=descending)
    if descending:
        # the last ones of the reversed elements, in reversed order
        order = reversed_along(b, order, axis)
    if count is not None:
        order = sliced(b, order, axis, Int(0), b.integer(count), positions.shape)
    index = b.converted(order, torch.int64)
    if descending:
        last = b.filled(x.shape[axis] - 1, torch.int64)
        forward = b.temporary(positions.shape, torch.int64)
        b.emit("Subtract", a=last, b=index, out=forward)
        index = forward
    b.alias(node, index, 1)
    if 0 in read:
        b.emit("TakeAlongAxis", x=x, indices=index, out=b.result(node, 0), axis=axis)


def _values(
    b: GraphBuilder, node: Node, x: Array, axis: int, *, descending: bool, count: Size | None
) -> None:
    found = b.temporary(x.shape, x.dtype)
    b.emit("Sort", x=x, out=found, axis=axis)
    if descending:
        found = reversed_along(b, found, axis)
    if count is not None:
        found = sliced(b, found, axis, Int(0), b.integer(count), node.meta["val"][0].shape)
    b.alias(node, found, 0)


def _sort(b: GraphBuilder, node: Node) -> None:
    _ordered(b, node, descending=bool(bind(node)["descending"]), count=None)


def _topk(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    _ordered(b, node, descending=bool(bound["largest"]), count=bound["k"])


_INTEGERS: Final = operand_dtypes(INTEGERS, "MLX does not compare with NaN.")
_NUMBERS: Final = operand_dtypes(NUMERIC, "MLX sorts numbers.", "convert to int32")


def _scalar_operand(node: Node, _: object) -> str | None:
    bound = bind(node)
    is_scalar = not bound["self"].meta["val"].shape
    return "self has rank 0" if is_scalar and bound["dim"] is not None else None


ROWS: Final = (
    *(
        operator_row(
            name,
            _position(node),
            _INTEGERS,
            Constraint("rank", "self has a dimension, or dim is None.", _scalar_operand),
        )
        for name, node in (("argmax", "Argmax"), ("argmin", "Argmin"))
    ),
    *(operator_row(name, _sort, _NUMBERS, HAS_AXIS, preserved=True) for name in ("sort", "sort.stable")),
    operator_row("topk", _topk, _NUMBERS, HAS_AXIS),
)
