# SPDX-License-Identifier: Apache-2.0
"""Gathers. The runtime counts negative indices from the end, as ATen does."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import reshaped, transposed
from delegatec.backends.mlx.building.values import Array, Index
from delegatec.backends.mlx.dtypes import INTEGERS
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.edge.arguments import bind, broadcast, dtype_of, positive
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.symbols import sizes_key


def _take(b: GraphBuilder, node: Node, x: Array, index: Array, axis: int) -> None:
    b.emit("Take", x=x, out=b.result(node), index=Index(index), axis=axis)


def _embedding(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    _take(b, node, b.of(bound["weight"]), b.of(bound["indices"]), 0)


def _index_select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, index = b.of(bound["self"]), b.of(bound["index"])
    _take(
        b,
        node,
        x,
        reshaped(b, index, (1,)) if not index.shape else index,
        positive(bound["dim"], len(x.shape)),
    )


def _gather(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, index = b.of(bound["self"]), b.of(bound["index"])
    b.emit("TakeAlongAxis", x=x, indices=index, out=b.result(node), axis=positive(bound["dim"], len(x.shape)))


def _index(b: GraphBuilder, node: Node) -> None:
    """Takes along a dimension; several are gathered, and adjacent ones then have the place of the first."""
    bound = bind(node)
    x = b.of(bound["self"])
    given = {dim: b.of(each) for dim, each in enumerate(bound["indices"]) if each is not None}
    if len(given) == 1:
        ((dim, index),) = given.items()
        _take(b, node, x, index, dim)
        return
    axes = list(given)
    leading = broadcast(*(each.shape for each in given.values()))
    slices = [1 if dim in given else size for dim, size in enumerate(x.shape)]
    rest = tuple(size for dim, size in enumerate(x.shape) if dim not in given)
    found = b.temporary((*leading, *slices), x.dtype)
    b.emit("Gather", x=x, indices=list(given.values()), out=found, axes=axes, sliceSizes=slices)
    found = reshaped(b, found, (*leading, *rest))
    if axes == list(range(axes[0], axes[-1] + 1)) and axes[0]:
        before = list(range(len(leading), len(leading) + axes[0]))
        after = list(range(len(leading) + axes[0], len(found.shape)))
        found = transposed(b, found, [*before, *range(len(leading)), *after])
    b.alias(node, found)


def _smaller_index(node: Node, _: object) -> str | None:
    bound = bind(node)
    x, index = (tuple(bound[name].meta["val"].shape) for name in ("self", "index"))
    dim = positive(bound["dim"], len(x))
    fits = len(x) == len(index) and all(
        sizes_key([a]) == sizes_key([b]) for d, (a, b) in enumerate(zip(x, index, strict=True)) if d != dim
    )
    return None if fits else f"an index of shape {[str(size) for size in index]}"


def _other_index(node: Node, _: object) -> str | None:
    bound = bind(node)
    given = [each for each in bound["indices"] if each is not None]
    bad = {dtype_of(each) for each in given} - INTEGERS
    if bad:
        return f"an index of dtype {', '.join(map(str, sorted(bad, key=str)))}"
    shape: Any = bound["self"].meta["val"].shape
    is_static = all(isinstance(size, int) for size in shape)
    return None if is_static or len(given) == 1 else "several indices into a tensor of dynamic size"


def _positions(name: str) -> Constraint:
    def broken(node: Node, _: object) -> str | None:
        dtype = dtype_of(bind(node)[name])
        return None if dtype in (torch.int32, torch.int64) else f"{name} is {dtype}"

    return Constraint("dtype", "Indices are int32 or int64.", broken)


ROWS: Final = (
    operator_row("embedding", _embedding, _positions("indices")),
    operator_row("index_select", _index_select, _positions("index"), HAS_AXIS),
    operator_row(
        "gather",
        _gather,
        _positions("index"),
        HAS_AXIS,
        Constraint("shape", "The index has the sizes of self, except for dim.", _smaller_index),
    ),
    operator_row(
        "index.Tensor",
        _index,
        Constraint("argument", "Indices are integers; several only of static sizes.", _other_index),
    ),
)
