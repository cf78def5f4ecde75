# SPDX-License-Identifier: Apache-2.0
"""Arrangements: the elements that a chain of movements takes from its source, and their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sympy
import torch
from torch.fx import Node

from delegatec.edge.arguments import bind

aten = torch.ops.aten

Size = int | Any
"""A size, or its symbolic expression: equal expressions are equal sizes, and comparisons add no guards."""


@dataclass(eq=False)
class Atom:
    """A dimension, or a factor of one, that no movement of a chain splits; compared by identity.

    Attributes:
        size: not 1.
    """

    size: Size


Axis = tuple[Atom, ...]
"""The atoms of a dimension, from outermost to innermost; none if its size is 1."""


@dataclass(frozen=True)
class Cut:
    """A slice of a dimension, by the arguments of `slice`."""

    start: int
    end: Any
    step: int


@dataclass(frozen=True)
class Dim:
    """A dimension of the source: its size, and its atoms after the slice if there is one."""

    size: Size
    axis: Axis
    cut: Cut | None = None


@dataclass(frozen=True)
class Arrangement:
    """Elements of a tensor, the source, in some order.

    Attributes:
        dims: the dimensions of the source. Atoms of `axes` that they do not have repeat elements.
        axes: the dimensions of the result; None if its sizes split atoms unevenly.
        order: all atoms, from outermost to innermost.
        sizes: the sizes of the result.
    """

    dims: tuple[Dim, ...]
    axes: tuple[Axis, ...] | None
    order: Axis
    sizes: tuple[Size, ...]

    def with_axes(self, axes: Sequence[Axis], **changes: Any) -> Arrangement:
        """Returns the arrangement with other dimensions of the result."""
        order = tuple(atom for axis in axes for atom in axis)
        sizes = tuple(map(numel, axes))
        return replace(self, axes=tuple(axes), order=order, sizes=sizes, **changes)


def sizes_of(node: Node) -> tuple[Size, ...] | None:
    """Returns the sizes of a tensor; None for other values and for empty tensors."""
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor):
        return None
    sizes = tuple(map(as_size, val.shape))
    return None if 0 in sizes else sizes


def as_size(value: int | torch.SymInt) -> Size:
    """Returns a size of a shape."""
    if not isinstance(value, torch.SymInt):
        return value
    expression = value.node.expr
    return int(expression) if expression.is_Integer else expression


def numel(axis: Sequence[Atom]) -> Size:
    """Returns the product of the sizes of atoms."""
    return math.prod(atom.size for atom in axis)


def identity(sizes: tuple[Size, ...]) -> Arrangement:
    """Returns all elements of a tensor in their order."""
    axes = tuple(() if size == 1 else (Atom(size),) for size in sizes)
    order = tuple(atom for axis in axes for atom in axis)
    return Arrangement(tuple(map(Dim, sizes, axes)), axes, order, sizes)


def moved(arrangement: Arrangement, node: Node, sizes: tuple[Size, ...]) -> Arrangement | None:
    """Returns the arrangement after one more movement, to some sizes; None if there is no form for that."""
    if node.target is aten.view.default:
        return _view(arrangement, sizes)
    return None if arrangement.axes is None else _MOVES[node.target](arrangement, node, sizes)


def is_movement(node: Node) -> bool:
    """Whether a node moves elements in a way that arrangements have a form for."""
    return node.target is aten.view.default or node.target in _MOVES


def _view(before: Arrangement, sizes: tuple[Size, ...]) -> Arrangement:
    divided = _divide(before.order, sizes)
    if divided is None:
        return replace(before, axes=None, sizes=sizes)
    axes, factors = divided
    dims = tuple(replace(dim, axis=tuple(_factors(dim.axis, factors))) for dim in before.dims)
    return before.with_axes(axes, dims=dims)


def _divide(order: Axis, sizes: Sequence[Size]) -> tuple[list[Axis], dict[Atom, Axis]] | None:
    """Splits atoms among dimensions of some sizes; returns these, and the factors of split atoms."""
    atoms = list(reversed(order))
    factors: dict[Atom, Axis] = {}
    axes = []
    for size in sizes:
        axis: list[Atom] = []
        total: Size = 1
        while total != size:
            if not atoms:
                return None
            atom = atoms.pop()
            total, rest = total * atom.size, total
            outer = _needed(size, rest)
            if isinstance(atom.size, int) and outer is not None and 1 < outer < atom.size:
                if atom.size % outer:
                    return None
                factors[atom] = (Atom(outer), Atom(atom.size // outer))
                atom, inner = factors[atom]
                atoms.append(inner)
                total = size
            axis.append(atom)
        axes.append(tuple(axis))
    return None if atoms else (axes, factors)


def _needed(size: Size, found: Size) -> int | None:
    """Returns the factor by which a product must be multiplied to be a size; None if there is none."""
    if isinstance(size, int) and isinstance(found, int):
        return size // found if size % found == 0 else None
    ratio = sympy.cancel(sympy.sympify(size) / found)
    return int(ratio) if ratio.is_Integer else None


def _factors(axis: Axis, factors: Mapping[Atom, Axis]) -> Iterator[Atom]:
    for atom in axis:
        yield from _factors(factors[atom], factors) if atom in factors else (atom,)


def _permute(before: Arrangement, node: Node, sizes: tuple[Size, ...]) -> Arrangement | None:
    assert before.axes is not None
    return before.with_axes([before.axes[dim] for dim in bind(node)["dims"]])


def _expand(before: Arrangement, node: Node, sizes: tuple[Size, ...]) -> Arrangement | None:
    assert before.axes is not None
    axes = [()] * (len(sizes) - len(before.axes)) + list(before.axes)
    for dim, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        if numel(axis) != size:
            if axis:
                return None
            axes[dim] = (Atom(size),)
    return before.with_axes(axes)


def _slice(before: Arrangement, node: Node, sizes: tuple[Size, ...]) -> Arrangement | None:
    bound = bind(node)
    dim, step = bound["dim"] % len(sizes), bound["step"]
    start = 0 if bound["start"] is None else bound["start"]
    if before.sizes[dim] == sizes[dim] and step == 1:
        return before
    return _cut(before, dim, Cut(start, bound["end"], step), sizes[dim])


def _select(before: Arrangement, node: Node, sizes: tuple[Size, ...]) -> Arrangement | None:
    bound = bind(node)
    dim, index = bound["dim"] % len(before.sizes), bound["index"]
    after = before if before.sizes[dim] == 1 else _cut(before, dim, Cut(index, None, 1), 1)
    if after is None or after.axes is None:
        return None
    return after.with_axes([axis for each, axis in enumerate(after.axes) if each != dim])


def _cut(before: Arrangement, dim: int, cut: Cut, size: Size) -> Arrangement | None:
    """Slices a dimension of the result, if it is a dimension of the source or repeats elements."""
    assert before.axes is not None
    axis, full_size = before.axes[dim], before.sizes[dim]
    start = cut.start
    if not isinstance(start, int) or len(axis) != 1:
        return None
    if start < 0:
        if not isinstance(full_size, int):
            return None
        start = max(start + full_size, 0)
    new: Axis = () if size == 1 else (Atom(size),)
    axes = [new if each == dim else other for each, other in enumerate(before.axes)]
    position = next((position for position, each in enumerate(before.dims) if axis[0] in each.axis), None)
    if position is None:
        return before.with_axes(axes)
    if before.dims[position].axis != axis:
        return None
    outer = before.dims[position].cut or Cut(0, None, 1)
    start, step = outer.start + start * outer.step, outer.step * cut.step
    end: Any = cut.end
    if isinstance(size, int):
        end = start + (size - 1) * step + 1
    elif before.dims[position].cut is not None:
        return None
    dims = list(before.dims)
    dims[position] = replace(dims[position], axis=new, cut=Cut(start, end, step))
    return before.with_axes(axes, dims=tuple(dims))


def _squeeze(before: Arrangement, node: Node, sizes: tuple[Size, ...]) -> Arrangement | None:
    assert before.axes is not None
    rank = len(before.axes)
    dims = {dim % rank for dim in bind(node)["dim"]} if rank else set()
    axes = [axis for dim, axis in enumerate(before.axes) if axis or dim not in dims]
    return before.with_axes(axes) if len(axes) == len(sizes) else None


def _unsqueeze(before: Arrangement, node: Node, sizes: tuple[Size, ...]) -> Arrangement | None:
    assert before.axes is not None
    dim = bind(node)["dim"] % len(sizes)
    return before.with_axes([*before.axes[:dim], (), *before.axes[dim:]])


_MOVES: Final[Mapping[Any, Callable[[Arrangement, Node, tuple[Size, ...]], Arrangement | None]]] = {
    aten.expand.default: _expand,
    aten.permute.default: _permute,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.squeeze.dims: _squeeze,
    aten.unsqueeze.default: _unsqueeze,
}
