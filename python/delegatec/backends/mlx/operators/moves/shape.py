# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only change the shape."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.sizes import is_computable
from delegatec.backends.mlx.building.graph_builder import GraphBuilder, Size
from delegatec.backends.mlx.building.moves import reversed_along, sliced
from delegatec.backends.mlx.building.values import Index, Int
from delegatec.backends.mlx.dtypes import NUMERIC
from delegatec.backends.mlx.operators.row import Constraint, movement
from delegatec.backends.mlx.operators.rules import EXACT_FLOAT32, STATIC_STEP
from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.symbols import sizes_key, smallest


def _shape(node: Node) -> tuple[Any, ...]:
    return tuple(node.meta["val"].shape)


def _view(b: GraphBuilder, node: Node) -> None:
    x = b.of(bind(node)["self"])
    before = b.reshaped.get(x)
    if before is not None and sizes_key(before.shape) == sizes_key(_shape(node)):
        b.alias(node, before)
        return
    b.emit("Reshape", x=x, out=b.result(node), shape=b.shape(_shape(node)))


def _expand(b: GraphBuilder, node: Node) -> None:
    """Broadcasts; -1 keeps a dynamic size."""
    x, shape = b.of(bind(node)["self"]), _shape(node)
    old = (None,) * (len(shape) - len(x.shape)) + x.shape
    kept = [
        isinstance(size, torch.SymInt) and before is not None and sizes_key([before]) == sizes_key([size])
        for before, size in zip(old, shape, strict=True)
    ]
    sizes = [Int(-1) if keep else b.integer(size) for keep, size in zip(kept, shape, strict=True)]
    b.emit("BroadcastTo", x=x, out=b.result(node), shape=sizes)


def _permute(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, perm = b.of(bound["self"]), [positive(dim, len(bound["dims"])) for dim in bound["dims"]]
    if perm == list(range(len(perm))):
        b.alias(node, x)
    else:
        b.emit("Transpose", x=x, out=b.result(node), perm=perm)


def _squeeze(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["self"])
    wanted = {positive(dim, len(x.shape)) for dim in bound["dim"]}
    dims = [dim for dim, size in enumerate(x.shape) if type(size) is int and size == 1 and dim in wanted]
    if dims:
        b.emit("Squeeze", x=x, out=b.result(node), dims=dims)
    else:  # an empty list means all dimensions
        b.alias(node, x)


def _unsqueeze(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = positive(bound["dim"], len(_shape(node)))
    b.emit("ExpandDims", x=b.of(bound["self"]), out=b.result(node), axis=dim)


def _select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["self"])
    index = b.integer(bound["index"]).value
    dim = positive(bound["dim"], len(x.shape))
    b.emit("Take", x=x, out=b.result(node), index=Index(index), axis=dim)


def _slice(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["self"])
    dim = positive(bound["dim"], len(x.shape))
    # the runtime clamps bounds, and counts negative ones from the end, as ATen does
    start = Int(0) if bound["start"] is None else b.integer(bound["start"])
    stop = Int(_END) if bound["end"] is None else b.integer(bound["end"])
    b.alias(node, sliced(b, x, dim, start, stop, _shape(node), bound["step"]))


def _cat(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    tensors = [b.operand(tensor, dtype_of(node)) for tensor in bound["tensors"]]
    dim = positive(bound["dim"], len(_shape(node)))
    b.emit("Concatenate", tensors=tensors, out=b.result(node), axis=dim)


def _split(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, results = b.of(bound["self"]), node.meta["val"]
    dim = positive(bound["dim"], len(x.shape))
    if len(results) == 1:  # the runtime reads a single size as that of all parts
        b.alias(node, x, 0)
        return
    sizes: list[Size] = [value.shape[dim] for value in results]
    outs = [b.result(node, index) for index in range(len(results))]
    b.emit("Split", x=x, outs=outs, sizes=b.integers(sizes), axis=dim)


def _repeat(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.emit("Tile", x=b.of(bound["self"]), out=b.result(node), reps=b.integers(bound["repeats"]))


def _flip(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["self"])
    for dim in bound["dims"]:
        x = reversed_along(b, x, positive(dim, len(x.shape)))
    b.alias(node, x)


def _roll(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["self"])
    axes = [positive(dim, len(x.shape)) for dim in bound["dims"]]
    b.emit("Roll", x=x, out=b.result(node), shifts=b.integers(bound["shifts"]), axes=axes)


def _pad(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["self"])
    amounts: list[Any] = [0] * (2 * len(x.shape))
    for position, amount in enumerate(bound["pad"]):  # from the last dimension on
        dim, side = len(x.shape) - 1 - position // 2, position % 2
        amounts[2 * dim + side] = amount
    value = float(bound["value"] or 0)
    fields = {"amounts": b.integers(amounts), "mode": "constant", "value": value}
    b.emit("Pad", x=x, out=b.result(node), **fields)


def _amounts(node: Node, _: object) -> str | None:
    bound = bind(node)
    amounts, value = bound["pad"], bound["value"] or 0
    sizes = [each.meta["val"] if isinstance(each, Node) else each for each in amounts]
    if not all(is_computable(each) and smallest(each) >= 0 for each in sizes):
        return f"pad is {sizes}"
    is_exact = dtype_of(node).is_floating_point or abs(value) <= EXACT_FLOAT32
    return None if is_exact else f"value is {value}"


def _flat_roll(node: Node, _: object) -> str | None:
    return None if bind(node)["dims"] else "dims is empty"


_END: Final = 2**31 - 1

ROWS: Final = (
    movement("view", _view),
    movement("expand", _expand),
    movement("permute", _permute),
    movement("squeeze.dims", _squeeze, note="no operation if none of the dimensions has size 1"),
    movement("unsqueeze", _unsqueeze),
    movement("select.int", _select),
    movement("slice.Tensor", _slice, STATIC_STEP),
    movement("cat", _cat),
    movement("split_with_sizes", _split, preserved=True),
    movement("repeat", _repeat),
    movement("flip", _flip, note="a slice with a negative step for each dimension"),
    movement("roll", _roll, Constraint("argument", "dims is not empty.", _flat_roll), preserved=True),
    movement(
        "constant_pad_nd",
        _pad,
        operand_dtypes(NUMERIC, "MLX does not pad bools."),
        Constraint(
            "argument",
            "Amounts are positive; an integer value is at most 2^24, as the format has float32.",
            _amounts,
        ),
    ),
)
