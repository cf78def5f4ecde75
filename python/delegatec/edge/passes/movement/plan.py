# SPDX-License-Identifier: Apache-2.0
"""The shortest sequences of movements for an arrangement: slices, one permutation, and one expansion.

Views come before, between and after these where shapes require them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import torch

from delegatec.edge.passes.movement.arrangement import Arrangement, Atom, Axis, Dim, Size, numel

aten = torch.ops.aten

_VIEWS: Final = frozenset({aten.squeeze.dims, aten.unsqueeze.default, aten.view.default})


class Cost(NamedTuple):
    """The cost of movements.

    Attributes:
        calls: their number.
        operations: the number of operations of a backend that has no expansion to a higher rank.
        copies: the number of calls that copy.
        elements: the number of elements that these copy, of static shapes.
    """

    calls: int = 0
    operations: int = 0
    copies: int = 0
    elements: int = 0

    def plus(self, other: Cost) -> Cost:
        """Returns the sum of two costs."""
        return Cost(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])

    def is_less(self, other: Cost) -> bool:
        """Whether something is less and nothing is more."""
        return self != other and all(mine <= others for mine, others in zip(self, other, strict=True))


FREE: Final = Cost()


def cost_of(target: Any, before: Sequence[Size], after: Sequence[Size]) -> Cost:
    """Returns the cost of a movement between two shapes; views of static shapes copy nothing."""
    elements = math.prod(after)
    is_static = isinstance(elements, int)
    is_copy = target not in _VIEWS or not is_static
    operations = 2 if target is aten.expand.default and len(before) < len(after) else 1
    return Cost(1, operations, int(is_copy), elements if is_copy and is_static else 0)


@dataclass(frozen=True)
class Move:
    """A movement: the operator, its arguments after the first, and the sizes of its result."""

    target: Any
    args: tuple[Any, ...]
    sizes: tuple[Size, ...]


@dataclass(frozen=True)
class Plan:
    """Moves from a source, and the shape that they lead to.

    Attributes:
        sizes: the sizes of the last result.
        axes: its dimensions.
        moves: the calls.
        cost: their cost.
    """

    sizes: tuple[Size, ...]
    axes: tuple[Axis, ...]
    moves: tuple[Move, ...] = ()
    cost: Cost = FREE

    def then(self, axes: Sequence[Axis], sizes: Sequence[Size], target: Any, *args: Any) -> Plan:
        """Returns the plan with one more move."""
        cost = self.cost.plus(cost_of(target, self.sizes, sizes))
        return Plan(tuple(sizes), tuple(axes), (*self.moves, Move(target, args, tuple(sizes))), cost)

    def view(self, axes: Sequence[Axis], sizes: Sequence[Size]) -> Plan:
        """Returns the plan with a view if the shape differs; in dynamic shapes without sizes if possible."""
        after = tuple(sizes)
        if after == self.sizes:
            return replace(self, axes=tuple(axes))
        if not all(isinstance(size, int) for size in after):
            for dim in range(len(after)):
                if after[dim] == 1 and (*after[:dim], *after[dim + 1 :]) == self.sizes:
                    return self.then(axes, after, aten.unsqueeze.default, dim)
            if tuple(size for size in self.sizes if size != 1) == after:
                dropped = [dim for dim, size in enumerate(self.sizes) if size == 1]
                return self.then(axes, after, aten.squeeze.dims, dropped)
        return self.then(axes, after, aten.view.default, list(after))


def shortest_plan(arrangement: Arrangement) -> Plan:
    """Returns the cheapest known steps from the source of an arrangement to its result."""
    held = {atom for dim in arrangement.dims for atom in dim.axis}
    order = [atom for atom in arrangement.order if atom in held]
    axes = (arrangement.order,) if arrangement.axes is None else arrangement.axes
    wide = [piece for axis in axes for piece in _pieces(axis, held)]
    narrow = [piece if held.issuperset(piece) else () for piece in wide]
    ends = []
    for start in _sliced(arrangement):
        for each in _permuted(start, order, narrow):
            end = each if len(order) == len(arrangement.order) else _expanded(each, narrow, wide)
            ends.append(end.view(end.axes, arrangement.sizes))
    return min(ends, key=lambda plan: plan.cost)


def _pieces(axis: Axis, held: set[Atom]) -> Iterator[Axis]:
    """Splits a dimension into runs of atoms that the source has, and of those that it repeats."""
    if not axis:
        yield ()
    for _, run in itertools.groupby(axis, held.__contains__):
        yield tuple(run)


def _sliced(arrangement: Arrangement) -> Iterator[Plan]:
    """Slices the source; a single element of a dimension also by `select`, which drops the dimension.

    Slices of dynamic sizes come last: then they may be views, such as the filled rows of a selected head.
    """
    dims = arrangement.dims
    singles = {index for index, dim in enumerate(dims) if dim.cut is not None and not dim.axis}
    for selected in {frozenset[int](): None, frozenset(singles): None}:
        plan = Plan(tuple(dim.size for dim in dims), ())
        for index, dim in sorted(enumerate(dims), key=lambda each: (_varies(each[1]), -each[0])):
            if dim.cut is None:
                continue
            at = index - sum(other < index for other in selected) if _varies(dim) else index
            before, after = plan.sizes[:at], plan.sizes[at + 1 :]
            if index in selected:
                plan = plan.then((), (*before, *after), aten.select.int, at, dim.cut.start)
            else:
                step = () if dim.cut.step == 1 else (dim.cut.step,)
                arguments = (dim.cut.start, dim.cut.end, *step)
                plan = plan.then((), (*before, numel(dim.axis), *after), aten.slice.Tensor, at, *arguments)
        yield replace(plan, axes=tuple(dim.axis for index, dim in enumerate(dims) if index not in selected))


def _varies(dim: Dim) -> bool:
    return not isinstance(numel(dim.axis), int)


def _permuted(plan: Plan, order: Sequence[Atom], axes: Sequence[Axis]) -> Iterator[Plan]:
    """Brings atoms into an order; the dimensions of the result are `axes` if possible without more views."""
    now = {atom: index for index, atom in enumerate(itertools.chain(*plan.axes))}
    if list(now) == list(order):
        yield plan
        return
    later = {atom: index for index, atom in enumerate(order)}
    moved = sorted(filter(None, plan.axes), key=lambda axis: later[axis[0]])
    if list(itertools.chain(*moved)) == list(order):
        yield _permute(plan, _with_ones(moved, plan.axes, axes))
    starts = [
        index for index, atom in enumerate(order) if not index or now[order[index - 1]] + 1 != now[atom]
    ]
    ends = [*starts[1:], len(order)]
    groups = [tuple(order[start:end]) for start, end in zip(starts, ends, strict=True)]
    for result in (axes, groups):
        viewed = sorted(filter(None, result), key=lambda axis: now[axis[0]])
        if list(itertools.chain(*viewed)) == list(now):
            # dimensions of 1 stay in place
            remaining = iter(viewed)
            source = [next(remaining) if axis else () for axis in result]
            yield _permute(plan.view(source, [*map(numel, source)]), result)


def _with_ones(moved: Sequence[Axis], source: Sequence[Axis], wanted: Sequence[Axis]) -> list[Axis]:
    """Moves dimensions of size 1 to their positions in the result, or else to the end."""
    wanted = wanted[max(0, len(wanted) - len(source)) :]
    if len(wanted) == len(source) and [*filter(None, wanted)] == [*moved]:
        return list(wanted)
    return [*moved, *itertools.repeat((), len(source) - len(moved))]


def _permute(plan: Plan, result: Sequence[Axis]) -> Plan:
    """Permutes dimensions; those of 1 keep their order."""
    indices: dict[Axis, list[int]] = {}
    for index, axis in enumerate(plan.axes):
        indices.setdefault(axis, []).append(index)
    order = [indices[axis].pop(0) for axis in result]
    return plan.then(result, [*map(numel, result)], aten.permute.default, order)


def _expanded(plan: Plan, narrow: Sequence[Axis], wide: Sequence[Axis]) -> Plan:
    """Repeats elements; dimensions in front of all others need no view."""
    leading = max(0, len(narrow) - len(plan.axes))
    if any(narrow[:leading]) or plan.sizes != tuple(map(numel, narrow[leading:])):
        plan = plan.view(narrow, [*map(numel, narrow)])
    sizes = [*map(numel, wide)]
    return plan.then(wide, sizes, aten.expand.default, sizes)
