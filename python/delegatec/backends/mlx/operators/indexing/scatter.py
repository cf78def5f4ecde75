# SPDX-License-Identifier: Apache-2.0
"""Writes to slices and to positions of one dimension."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.values import Array, Int
from delegatec.backends.mlx.dtypes import NUMERIC
from delegatec.backends.mlx.operators.positions import checked_bounds_of, span_of
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import STATIC_STEP
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize.constraints import HAS_AXIS, operand_dtypes
from delegatec.edge.symbols import sizes_key

_END: Final = 2**31 - 1


def _slice_scatter(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.written(b.of(bound["self"]))
    axis = positive(bound["dim"], len(x.shape))
    start = Int(0) if bound["start"] is None else b.integer(bound["start"])
    stop = Int(_END) if bound["end"] is None else b.integer(bound["end"])
    fields = {"axis": Int(axis), "start": start, "stop": stop, "step": bound["step"]}
    b.emit("SliceUpdate", dst=x, update=b.operand(bound["src"], x.dtype), out=b.result(node), **fields)


def _scatter_add(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, index, updates = (b.of(bound[name]) for name in ("self", "index", "src"))
    axis = positive(bound["dim"], len(x.shape))
    b.emit("ScatterAdd", x=x, indices=index, updates=updates, out=b.result(node), axis=axis)


def _index_put(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    ((axis, index),) = ((dim, each) for dim, each in enumerate(bound["indices"]) if each is not None)
    x, values = b.written(b.of(bound["self"])), _expanded(b, node, axis, index)
    span = span_of(index, b.facts.constant)
    if span is not None and isinstance(x.shape[axis], int):
        start, stop = checked_bounds_of(b, span, x.shape[axis])
        b.emit(
            "SliceUpdate", dst=x, update=values, out=b.result(node), axis=Int(axis), start=start, stop=stop
        )
        return
    # the runtime reads positions without their strides
    positions = b.contiguous(b.converted(b.of(index), torch.int64))
    b.emit("IndexCopy", dst=x, update=values, indices=positions, out=b.result(node), axis=axis)


def _expanded(b: GraphBuilder, node: Node, axis: int, index: Node) -> Array:
    """Returns the values in the sizes of the result at the positions of an index."""
    values, shape = b.operand(bind(node)["values"], dtype_of(node)), _written(node, axis, index)
    if sizes_key(values.shape) == sizes_key(shape):
        return values
    out = b.temporary(shape, values.dtype)
    b.emit("BroadcastTo", x=values, out=out, shape=b.integers(shape))
    return out


def _written(node: Node, axis: int, index: Node) -> list[Any]:
    shape: list[Any] = [*shape_of(node)]
    shape[axis] = shape_of(index)[0]
    return shape


def _other_put(node: Node, _: object) -> str | None:
    bound = bind(node)
    given = [(dim, each) for dim, each in enumerate(bound["indices"]) if each is not None]
    if bound["accumulate"]:
        return "accumulate is true"
    if len(given) != 1 or dtype_of(given[0][1]) not in (torch.int32, torch.int64):
        return "several indices, or one of another dtype"
    axis, index = given[0]
    if len(index.meta["val"].shape) != 1:
        return f"an index of rank {len(index.meta['val'].shape)}"
    wanted, found = sizes_key(_written(node, axis, index)), sizes_key(shape_of(bound["values"]))
    broadcasts = len(found) <= len(wanted) and all(
        own in (1, size) for own, size in zip(reversed(found), reversed(wanted), strict=False)
    )
    return None if broadcasts else f"values of shape {[str(size) for size in found]}"


def _smaller(node: Node, _: object) -> str | None:
    bound = bind(node)
    x, index, source = (tuple(bound[name].meta["val"].shape) for name in ("self", "index", "src"))
    dim = positive(bound["dim"], len(x))
    fits = sizes_key(index) == sizes_key(source) and all(
        sizes_key([a]) == sizes_key([b]) for d, (a, b) in enumerate(zip(x, index, strict=True)) if d != dim
    )
    return None if fits else f"an index of shape {[str(size) for size in index]}"


ROWS: Final = (
    operator_row("slice_scatter", _slice_scatter, HAS_AXIS, STATIC_STEP),
    operator_row(
        "scatter_add",
        _scatter_add,
        HAS_AXIS,
        operand_dtypes(NUMERIC, "MLX adds numbers."),
        Constraint("shape", "Index and src have the sizes of self, except for dim.", _smaller),
    ),
    operator_row(
        "index_put",
        _index_put,
        Constraint(
            "argument",
            "One index of rank 1, values that broadcast to its positions, and no accumulation.",
            _other_put,
        ),
        note="positions are read before the rest of the graph is computed; consecutive ones are a slice",
    ),
)
