# SPDX-License-Identifier: Apache-2.0
"""The largest or smallest elements in their order, and running sums.

The place of an element in the order is the number of elements before it: larger ones, and equal ones at an
earlier position, so that the order is stable. That takes the same few operations for any k, on the square of
the size; where that is too large, the elements are found one after the other.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.folding import folded, reversed_order, running_sum
from delegatec.backends.mps.building.graph_builder import GraphBuilder, Number
from delegatec.backends.mps.building.values import cat, full, operand, positions
from delegatec.backends.mps.dtypes import NUMBERS
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes
from delegatec.edge.nodes import dtype_of, positive, read_results, shape_of

_MOST_COMPARISONS: Final = 2**24
_MOST_ROUNDS: Final = 16


def _top(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = operand(b, bound["self"])
    rank, shape = len(x.shape), tuple(node.meta["val"][0].shape)
    dim = positive(bound["dim"], rank) if rank else 0
    last = [*(d for d in range(rank) if d != dim), dim][:rank]
    rows, size = _rows(node)
    x = x.permute(*last).view(rows, size)
    find = _by_comparison if rows * size * size <= _MOST_COMPARISONS else _by_rounds
    index = find(x, bound["k"], bound["largest"])
    in_rows = [shape[d] for d in last]
    back = [last.index(d) for d in range(rank)]
    if 1 in read_results(node):
        index.to(torch.int64).view(*in_rows).permute(*back).bind(node, 1)
    flat = (index + positions(b, rows, 0, 2) * size).view(rows * bound["k"])
    values = x.view(rows * size).index_select(0, flat)
    values.view(*in_rows).permute(*back).bind(node, 0)


def _rows(node: Node) -> tuple[int, int]:
    """How many rows are ordered, and the size of each."""
    bound = bind(node)
    shape = shape_of(bound["self"]) or (1,)
    size = shape[bound["dim"]]
    return math.prod(shape) // size, size


def _keys(x: Expression, largest: bool) -> tuple[Expression, Expression]:
    """What orders the elements of rows: numbers, and int32 for the order of equal ones, smaller ones first.

    NaN counts as greater than everything: as infinite, and before or after what is.
    """
    size = x.shape[1]
    position = positions(x.builder, size, 1, 2)
    if not x.dtype.is_floating_point:
        return x, position
    nan = x.unary(Operation.Isnan, torch.bool)
    beyond = position - size if largest else position + size
    return nan.where(full(x.builder, [1], math.inf, x.dtype), x), nan.where(beyond, position)


def _by_comparison(x: Expression, k: int, largest: bool) -> Expression:
    """Positions [rows, k], int32, of the first elements in order."""
    b, (rows, size) = x.builder, x.shape
    numbers, ties = _keys(x, largest)

    def each(of: Expression) -> tuple[Expression, Expression]:
        return of.view(of.shape[0], size, 1), of.view(of.shape[0], 1, size)

    own, other = each(numbers)
    own_tie, other_tie = each(ties)
    beats = other.compare(Operation.Gt if largest else Operation.Lt, own)
    earlier = other.compare(Operation.Eq, own) & other_tie.compare(Operation.Lt, own_tie)
    place = _whole((beats | earlier).to(torch.float32).mean([2]), size).view(rows, 1, size)
    found = place.compare(Operation.Eq, positions(b, k, 1, 3).to(torch.float32))
    position = positions(b, size, 2, 3).to(torch.float32)
    return _whole(found.where(position, full(b, [1], 0, torch.float32)).mean([2]), size).to(torch.int32)


def _whole(mean: Expression, count: int) -> Expression:
    """The sum that a mean is of, where that is a whole number: float32, rounded to it."""
    return (mean * count + 0.5).unary(Operation.Floor)


def _by_rounds(x: Expression, k: int, largest: bool) -> Expression:
    """Positions [rows, k], int32: those of the extremum, and then of what is left."""
    b, size = x.builder, x.shape[1]
    numbers, ties = _keys(x, largest)
    numbers = reversed_order(numbers) if largest else numbers
    last, no_tie = operand(b, _most(x.dtype), x.dtype), operand(b, 2 * size, torch.int32)
    rest, candidates, found = numbers, ties, []
    for _ in range(k):
        equal = rest.compare(Operation.Eq, folded(rest, [1], Expression.minimum, keepdim=True))
        first = folded(equal.where(candidates, no_tie), [1], Expression.minimum, keepdim=True)
        found.append(first)
        taken = ties.compare(Operation.Eq, first)
        rest, candidates = taken.where(last, rest), taken.where(no_tie, candidates)
    ties = cat(found, 1)
    if not x.dtype.is_floating_point:
        return ties
    ties = ties.compare(Operation.Lt, 0).where(ties + size, ties)
    return ties.compare(Operation.Ge, size).where(ties - size, ties)


def _most(dtype: torch.dtype) -> Number:
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


def _cumulative_sum(b: GraphBuilder, node: Node) -> None:
    bound, shape, dtype = bind(node), shape_of(node), dtype_of(node)
    x = operand(b, bound["self"], dtype)
    (running_sum(x, positive(bound["dim"], len(shape))) if shape else x).bind(node)


def _too_many(node: Node, _: object) -> str | None:
    rows, size = _rows(node)
    k = bind(node)["k"]
    if rows * size * size <= _MOST_COMPARISONS or k <= _MOST_ROUNDS:
        return None
    return f"{k} of {size} elements in {rows} row{'s' * (rows > 1)}"


ROWS: Final = (
    OperatorRow(
        overload("topk"),
        (
            *("Permute", "View", "Isnan", "Full", "Where", "Add", "Sub", "Gt", "Lt", "Eq", "BitwiseAnd"),
            *(
                "BitwiseOr",
                "Cast",
                "Mean",
                "Mul",
                "Floor",
                "IndexSelect",
                "Neg",
                "Slice",
                "Minimum",
                "Cat",
                "Ge",
            ),
        ),
        _top,
        (
            operand_dtypes(NUMBERS, "there is no order on bool.", "convert to int32"),
            Constraint(
                "argument",
                "No more than 16 elements where the rows times the square of their size are beyond 2^24: all "
                "others are compared with each other.",
                _too_many,
            ),
        ),
        note="in order also if sorted is false; the first of equal ones comes first",
    ),
    OperatorRow(
        overload("cumsum"),
        ("View", "Cast", "Slice", "Add", "ConstantPadND"),
        _cumulative_sum,
        (result_dtypes(NUMBERS, "MPSGraph does not add bools."),),
        note="in as many steps as the size has binary digits; floating point in float32",
    ),
)
