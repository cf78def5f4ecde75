# SPDX-License-Identifier: Apache-2.0
"""Top-k, for targets that lack it.

The rank of an element is the number of elements before it in the order: larger ones, and equal ones at an
earlier position, so that the order is stable. That takes the same few operations for any k, on the square of
the size; if that is too large, the elements are found one after the other.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, read_results, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.indices import positions
from delegatec.edge.legalize.rules.reductions import folded, reversed_order
from delegatec.edge.legalize.value import Value, cat, table, value_of

aten = torch.ops.aten

_MOST_COMPARISONS: Final = 2**24
_MOST_ITERATIONS: Final = 16


def _top(builder: Builder, node: Node) -> list[Node | None]:
    bound, k = bind(node), bind(node)["k"]
    x = value_of(builder, bound["self"])
    shape = tuple(node.meta["val"][0].shape)
    dim = positive(bound["dim"], x.rank) if x.rank else 0
    last = [*(d for d in range(x.rank) if d != dim), dim][: x.rank]
    rows, size = _rows(node)
    x = x.permute(*last).view(rows, size)
    find = _by_comparison if rows * size * size <= _MOST_COMPARISONS else _by_iteration
    index = find(x, k, bound["largest"]).within(0, size - 1)
    flat = (index + positions(builder, rows, 0, 2) * size).view(rows * k)
    results = (x.view(rows * size).index_select(0, flat), index.to(torch.int64))
    in_rows, back = [shape[d] for d in last], [last.index(d) for d in range(len(last))]
    read = read_results(node)
    return [
        value.view(*in_rows).permute(*back).node if output in read or not output else None
        for output, value in enumerate(results)
    ]


def _rows(node: Node) -> tuple[int, int]:
    """Returns the number of rows, and the size of each."""
    bound = bind(node)
    shape = shape_of(bound["self"]) or (1,)
    size = shape[bound["dim"]]
    return math.prod(shape) // size, size


def _keys(x: Value, largest: bool) -> tuple[Value, Value]:
    """Returns the sort keys of rows: values, and int32 tie-breakers, smaller ones first.

    NaN is greater than all other values: its key is infinite, with a tie-breaker beyond that of infinity.
    """
    size = x.shape[1]
    position = positions(x.builder, size, 1, 2)
    if not x.dtype.is_floating_point:
        return x, position
    nan = x.isnan()
    beyond = position - size if largest else position + size
    return nan.where(math.inf, x), nan.where(beyond, position)


def _by_comparison(x: Value, k: int, largest: bool) -> Value:
    """Returns the positions [rows, k], int32, of the first elements in order."""
    builder, (rows, size) = x.builder, x.shape
    (own, other), (own_tie, other_tie) = (
        (of.view(of.shape[0], size, 1), of.view(of.shape[0], 1, size)) for of in _keys(x, largest)
    )
    beats = other.gt(own) if largest else other.lt(own)
    earlier = other.eq(own) & other_tie.lt(own_tie)
    order = _total((beats | earlier).to(torch.float32).mean([2]), size).view(rows, 1, size)
    found = order.eq(table(builder, torch.arange(k, dtype=torch.float32).view(1, k, 1)))
    position = table(builder, torch.arange(size, dtype=torch.float32).view(1, 1, size))
    return _total(found.where(position, 0.0).mean([2]), size).to(torch.int32)


def _total(mean: Value, count: int) -> Value:
    """Returns the integer sum of a mean, rounded, as float32."""
    return (mean * float(count) + 0.5).floor()


def _by_iteration(x: Value, k: int, largest: bool) -> Value:
    """Returns the positions [rows, k], int32: repeatedly that of the extremum of the rest."""
    size = x.shape[1]
    keys, ties = _keys(x, largest)
    keys = reversed_order(keys) if largest else keys
    last = math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max
    rest, candidates, found = keys, ties, []
    for _ in range(k):
        equal = rest.eq(folded(rest, [1], Value.fmin, keepdim=True))
        first = folded(equal.where(candidates, 2 * size), [1], Value.fmin, keepdim=True)
        found.append(first)
        taken = ties.eq(first)
        rest, candidates = taken.where(last, rest), taken.where(2 * size, candidates)
    ties = cat(found, 1)
    if not x.dtype.is_floating_point:
        return ties
    ties = ties.lt(0).where(ties + size, ties)
    return ties.ge(size).where(ties - size, ties)


def _too_many(node: Node, _: object) -> str | None:
    rows, size = _rows(node)
    k = bind(node)["k"]
    if rows * size * size <= _MOST_COMPARISONS or k <= _MOST_ITERATIONS:
        return None
    return f"{k} of {size} elements in {rows} row{'s' * (rows > 1)}"


REWRITES: Final = (
    Rewrite(
        aten.topk.default,
        _top,
        (
            operand_dtypes(
                (torch.float32, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64),
                "bools are not ordered.",
                "convert to int32",
            ),
            Constraint(
                "argument",
                "k is at most 16 if rows x size^2 exceeds 2^24: for larger k, all pairs are compared.",
                _too_many,
            ),
        ),
        note="sorted even if sorted is false; stable",
    ),
)
