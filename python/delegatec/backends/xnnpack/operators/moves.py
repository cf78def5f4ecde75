# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only change the shape."""

from __future__ import annotations

import functools
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.building.expansion import expanded
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import (
    concatenated,
    padded,
    transposed,
)
from delegatec.backends.xnnpack.building.views import is_viewable, part, stacked, viewed
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FLOATS_OR_BOOLS, SAME_DTYPES
from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.legalize.constraints import argument
from delegatec.edge.symbols import sizes_key

_SIZE: Final = torch.ops.aten.sym_size.int
_move: Final = functools.partial(operator_row, dtypes=FLOATS_OR_BOOLS, resizes=True, computes=False)


def _view(b: GraphBuilder, node: Node) -> None:
    b.alias(node, viewed(b, b.of(bind(node)["self"]), node.meta["val"].shape))


def _permute(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dims = [positive(dim, len(bound["dims"])) for dim in bound["dims"]]
    b.alias(node, transposed(b, b.of(bound["self"]), dims))


def _select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    shape = b.shape_of(source)
    dim = positive(bound["dim"], len(shape))
    index = positive(bound["index"], shape[dim])  # type: ignore[arg-type]
    chosen = part(b, source, dim, index, index + 1)
    b.alias(node, viewed(b, chosen, node.meta["val"].shape))


def _slice(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    shape = b.shape_of(source)
    dim = positive(bound["dim"], len(shape))
    size = shape[dim]
    if sizes_key([size]) == sizes_key([node.meta["val"].shape[dim]]):
        b.alias(node, source)
        return
    # ATen's bounds may be None, negative or out of range.
    start, end = _range(node) or slice(bound["start"], bound["end"]).indices(size)[:2]
    b.alias(node, part(b, source, dim, start, end))


def _range(node: Node) -> tuple[int, int] | None:
    """Returns start and end of a slice if they are in range for all sizes of the dimension."""
    bound = bind(node)
    start, end = bound.get("start"), bound.get("end")
    if "step" not in bound or not isinstance(start, int) or not isinstance(end, int) or start < 0:
        return None
    length = node.meta["val"].shape[bound["dim"]]
    return (start, end) if isinstance(length, int) and end - start == length else None


def _stack(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = positive(bound["dim"], len(shape_of(node)))
    b.alias(node, stacked(b, [b.of(each) for each in bound["tensors"]], dim))


def _split(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    dim = positive(bound["dim"], len(b.shape_of(source)))
    start = 0
    for index, value in enumerate(node.meta["val"]):
        end = start + value.shape[dim]
        b.alias(node, part(b, source, dim, start, end), index)
        start = end


def _cat(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = positive(bound["dim"], len(shape_of(node)))
    b.alias(node, concatenated(b, [b.of(each) for each in bound["tensors"]], dim))


def _pad(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    rank, pad = len(shape_of(node)), list(bound["pad"])
    pairs = [(0, 0)] * (rank - len(pad) // 2) + list(zip(pad[-2::-2], pad[::-2], strict=True))
    before, after = zip(*pairs, strict=True)
    b.alias(node, padded(b, b.of(bound["self"]), before, after, bound["value"] or 0.0))


def _expand(b: GraphBuilder, node: Node) -> None:
    source = bind(node)["self"]
    b.alias(node, expanded(b, b.of(source), node.meta["val"].shape))


def _unknown_sizes(node: Node, _: object) -> str | None:
    bound, sizes = bind(node), node.meta["val"].shape
    old = list(bound["self"].meta["val"].shape)
    if "index" in bound:
        old[bound["dim"]] = 1
    if is_viewable(old, sizes):
        return None
    return f"the sizes {[str(size) for size in old]} as {[str(size) for size in sizes]}"


def _unknown_copies(node: Node, _: object) -> str | None:
    """A dynamic number of copies is a size of another value, from which ones are made."""
    bound = bind(node)
    old, new = bound["self"].meta["val"].shape, node.meta["val"].shape
    keys = sizes_key([*[1] * (len(new) - len(old)), *old])
    for given, have, want in zip(bound["size"], keys, sizes_key(new), strict=True):
        if have != want and isinstance(want, str) and getattr(given, "target", None) is not _SIZE:
            return f"the sizes {[str(size) for size in new]}"
    return None


def _moving_range(node: Node, _: object) -> str | None:
    bound = bind(node)
    source = bound["self"].meta["val"].shape
    dim = positive(bound["dim"], len(source))
    if _range(node) is not None:
        return None
    sizes = [source[dim], node.meta["val"].shape[dim]] if "step" in bound else [source[dim]]
    if all(isinstance(size, int) for size in sizes) or len(set(sizes_key(sizes))) < len(sizes):
        return None
    return f"a slice of a dimension of {source[dim]} elements"


_ONE_UNKNOWN: Final = Constraint(
    "dynamic-shape",
    "A reshape changes at most one dynamic dimension: the runtime infers one.",
    _unknown_sizes,
)
_FIXED_RANGE: Final = Constraint(
    "dynamic-shape", "The dimension is static, or the slice fits into all of its sizes.", _moving_range
)
_COPIES: Final = Constraint(
    "dynamic-shape",
    "A dynamic number of copies is a size of a tensor: the runtime infers no other.",
    _unknown_copies,
)
_STEP: Final = argument("step", lambda value: value == 1, "step is 1: XNNPACK has no strided slice.")
_GROWS: Final = argument(
    "pad",
    lambda pads: all(isinstance(each, int) and each >= 0 for each in pads),
    "Padding is static and not negative: the runtime neither resizes nor crops.",
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    _move("view", _view, _ONE_UNKNOWN),
    _move("unsqueeze", _view, _ONE_UNKNOWN, note="a reshape"),
    _move("squeeze.dims", _view, _ONE_UNKNOWN, note="a reshape"),
    # The runtime's kernels of these two compute an index for each element: they are 2 to 160 times as slow.
    operator_row("permute", _permute, dtypes=FLOATS_OR_BOOLS, resizes=True),
    _move("select.int", _select, _FIXED_RANGE, _ONE_UNKNOWN, note="a slice and a reshape"),
    _move("slice.Tensor", _slice, _FIXED_RANGE, _STEP),
    _move("split_with_sizes", _split, _FIXED_RANGE, note="a slice for each part"),
    _move("stack", _stack, SAME_DTYPES, note="of heads, with several dynamic sizes"),
    _move("cat", _cat, SAME_DTYPES, note="a tree if there are more than five operands"),
    _move("constant_pad_nd", _pad, _GROWS),
    operator_row(
        "expand", _expand, _COPIES, dtypes=FLOATS_OR_BOOLS, resizes=True, note="the product with ones"
    ),
)
