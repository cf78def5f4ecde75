# SPDX-License-Identifier: Apache-2.0
"""Gathers, as gathers along one dimension by one index of nonnegative int32 positions.

Indices are not checked at run time: the result of one that is out of range is undefined.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import HAS_AXIS, argument
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.indices import ElementIndex, TensorIndex, progression
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _with_rank_1(builder: Builder, node: Node) -> Any:
    """Replaces an index of rank 0 by one of rank 1."""
    bound = bind(node)
    name = "indices" if "indices" in bound else "index"
    if shape_of(bound[name]):
        return None
    return again(builder, node, **{name: value_of(builder, bound[name]).view(1).node})


def _index(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x, given = value_of(builder, bound["self"]), [index for index in bound["indices"] if index is not None]
    if len(given) == 1 and shape_of(given[0]) and builder.facts.of(given[0]).low >= 0:
        return None
    place = TensorIndex(x, bound["indices"])
    if len(given) == 1:
        found = x.index(place.axis, place.index.to(torch.int64))
    else:
        found = place.of(x).take(place.axis, place.index)
    return found.view(*shape_of(node)).node


def _gather(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    place = ElementIndex(x, bound["dim"], bound["index"])
    return x.view(*place.shape).take(place.axis, place.index).view(*shape_of(node)).node


def _flip(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    for dim in sorted(positive(dim, x.rank) for dim in bound["dims"] if x.rank):
        if (size := x.shape[dim]) > 1:
            x = x.index_select(dim, progression(builder, size, start=size - 1, step=-1))
    return x.node


def _unfold(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x, size, step = value_of(builder, bound["self"]), bound["size"], bound["step"]
    dim = positive(bound["dimension"], x.rank)
    count = shape_of(node)[dim]
    if size == step:  # The windows are adjacent.
        windows = x.slice(dim, 0, count * size).view(*x.shape[:dim], count, size, *x.shape[dim + 1 :])
    else:
        start = progression(builder, count, 1, step=step)
        windows = x.take(dim, (start + progression(builder, size)).within(0, x.shape[dim] - 1))
    order = [d for d in range(x.rank + 1) if d != dim + 1] + [dim + 1]
    return windows.permute(*order).node


def _as_strided(builder: Builder, node: Node) -> Node:
    bound, sizes = bind(node), shape_of(node)
    x = value_of(builder, bound["self"])
    index = progression(builder, 1, max(len(sizes) - 1, 0), start=bound["storage_offset"] or 0)
    for dim, (size, stride) in enumerate(zip(sizes, bound["stride"], strict=True)):
        if size > 1:
            step = progression(builder, size, len(sizes) - 1 - dim, step=stride)
            index = (index + step).within(0, x.numel - 1)
    return x.view(x.numel).take(0, index).view(*sizes).node


def _are_indices(indices: Any) -> bool:
    given = [index for index in indices if index is not None]
    return bool(given) and all(dtype_of(index) in (torch.int32, torch.int64) for index in given)


def _row(
    target: Any, rule: Rule, *constraints: Constraint[object], computes: bool = True, note: str = ""
) -> Rewrite:
    return Rewrite(target, rule, constraints, note, computes)


INDICES: Final = argument(
    "indices",
    _are_indices,
    "Indices are int32 or int64: the number of elements that a mask selects is data-dependent.",
    "torch.where for masks",
)

REWRITES: Final = (
    _row(aten.embedding.default, _with_rank_1, note="reshapes an index of rank 0 to rank 1"),
    _row(aten.index_select.default, _with_rank_1, HAS_AXIS, note="reshapes an index of rank 0 to rank 1"),
    _row(
        aten.index.Tensor,
        _index,
        HAS_AXIS,
        INDICES,
        note="several indices as positions in a view; adds the size to indices that may be negative",
    ),
    _row(aten.gather.default, _gather, note="by positions in a view"),
    _row(aten.flip.default, _flip, computes=False),
    _row(aten.unfold.default, _unfold, HAS_AXIS, computes=False),
    _row(aten.as_strided.default, _as_strided, computes=False, note="for an operand in row-major order"),
)
