# SPDX-License-Identifier: Apache-2.0
"""Stored values: the node that has their elements, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.layouts import (
    Axes,
    Fragment,
    Layout,
    Shape,
    layout_of,
    merged,
    own_axes,
    refined,
    row_major,
    sizes_of,
)

aten = torch.ops.aten


@dataclass(frozen=True)
class Stored:
    """A value in some order.

    Attributes:
        node: has its elements.
        axes: the fragments of the value in each dimension of the node.
    """

    node: Node
    axes: Axes

    @property
    def layout(self) -> Layout:
        """Order of the elements."""
        return layout_of(self.axes)


class Storage:
    """Rearranges stored values, each to the same order only once.

    Args:
        builder: of the program.
        constants: name of a placeholder -> its tensor, which is rearranged at compile time.
    """

    def __init__(self, builder: Builder, constants: dict[str, torch.Tensor]) -> None:
        self.builder = builder
        self._constants = constants
        # nodes that have the elements of another node: that node, the order of its dimensions, the shape
        self._known: dict[tuple[Node, Layout, Shape], Node] = {}
        # the first of these in each order
        self._copies: dict[tuple[Node, Layout], Node] = {}
        self.is_changed = False

    def is_free(self, node: Node) -> bool:
        """Whether a value costs nothing to rearrange: a constant, or one scalar everywhere."""
        return node.name in self._constants or node.target is aten.full.default

    def arranged(self, value: Stored, axes: Axes) -> Node:
        """Returns a node that has the elements of a value in some axes, before the builder's anchor."""
        if value.axes == axes:
            return value.node
        key = _key(value, axes)
        if key not in self._known:
            self.is_changed = True
            self._known[key] = self._arrange(value, axes, key[1])
        return self._known[key]

    def adopt(self, value: Stored, node: Node, axes: Axes) -> Node:
        """Records a node that has a value in some axes; returns the first such node."""
        if value.axes == axes:
            return value.node
        key = _key(value, axes)
        self._copies.setdefault(key[:2], node)
        return self._known.setdefault(key, node)

    def _arrange(self, value: Stored, axes: Axes, order: Layout) -> Node:
        if value.node.target is aten.full.default:
            return self._call(aten.full.default, sizes_of(axes), value.node.args[1], like=value.node)
        if value.node.name in self._constants:
            return self._constant(value, axes)
        if order == row_major(shape_of(value.node)):
            return self.view(value.node, axes)
        if (value.node, order) not in self._copies:
            copy = self._permuted(value, axes)
            self._copies[value.node, order] = copy.node
            if copy.axes == axes:
                return copy.node
        return self.view(self._copies[value.node, order], axes)

    def view(self, node: Node, axes: Axes) -> Node:
        """Returns a view of a node in other dimensions."""
        sizes = sizes_of(axes)
        if list(shape_of(node)) == sizes:
            return node
        if node.target is aten.view.default and len(node.users) == 0:
            node = node.args[0]  # type: ignore[assignment]
            if list(shape_of(node)) == sizes:
                return node
        return self._call(aten.view.default, node, sizes, like=node, sizes=sizes)

    def _constant(self, value: Stored, axes: Axes) -> Node:
        source, wanted = _common(value.axes, axes)
        order = {fragment: position for position, fragment in enumerate(itertools.chain(*source))}
        tensor = self._constants[value.node.name].detach()
        parts = tensor.reshape([size for _, _, size in order])
        parts = parts.permute([order[fragment] for fragment in itertools.chain(*wanted)])
        node = self.builder.derived(value.node, parts.reshape(sizes_of(axes)))
        self._constants[node.name] = self.builder.program.constants[node.name]
        return node

    def _permuted(self, value: Stored, axes: Axes) -> Stored:
        """Permutes the dimensions of a stored tensor, or of a view of it, to the order of some axes."""
        source, wanted = _common(value.axes, axes)
        direct = _matched(source, wanted)
        if direct is not None:
            return self._permute(value.node, direct, axes)
        # Dimensions that stay together: fragments that are consecutive in both orders.
        now = [*itertools.chain(*source)]
        position = {fragment: index for index, fragment in enumerate(now)}
        runs: list[list[Fragment]] = []
        for fragment in itertools.chain(*wanted):
            if runs and position[runs[-1][-1]] + 1 == position[fragment]:
                runs[-1].append(fragment)
            else:
                runs.append([fragment])
        groups: Axes = tuple(map(tuple, runs))
        ordered = tuple(sorted(groups, key=lambda run: position[run[0]]))
        node = self.view(value.node, ordered)
        return self._permute(node, [ordered.index(run) for run in groups], groups)

    def _permute(self, node: Node, order: Sequence[int], axes: Axes) -> Stored:
        sizes = [shape_of(node)[dim] for dim in order]
        return Stored(self._call(aten.permute.default, node, list(order), like=node, sizes=sizes), axes)

    def _call(self, target: object, *args: object, like: Node, sizes: Sequence[int] | None = None) -> Node:
        sizes = args[0] if sizes is None else sizes  # type: ignore[assignment]
        kwargs = dict(like.kwargs) if target is aten.full.default else {}
        return self.builder.call(target, *args, val=self.builder.empty(sizes, dtype_of(like)), **kwargs)  # type: ignore[arg-type]

    def own(self, node: Node) -> Stored:
        """Returns a value as its own node stores it."""
        return Stored(node, own_axes(shape_of(node)))


def _key(value: Stored, axes: Axes) -> tuple[Node, Layout, Shape]:
    """Returns how a value in some axes is stored, for any dimensions of the value.

    Returns:
        The value's node, the order of the fragments of that node's dimensions, and the shape.
    """
    shape = tuple(sizes_of(axes))
    if value.node.target is aten.full.default:  # its elements have no order, and need not be divisible
        return value.node, (), shape
    source, (wanted,) = _common(value.axes, (layout_of(axes),))
    own: dict[Fragment, Fragment] = {}
    for dim, axis in enumerate(source):
        inner = 1
        for fragment in reversed(axis):
            own[fragment] = (dim, inner, fragment[2])
            inner *= fragment[2]
    return value.node, merged(own[fragment] for fragment in wanted), shape


def _common(first: Axes, second: Axes) -> tuple[Axes, Axes]:
    """Returns both axes with the same fragments."""
    finer = refined(first, itertools.chain(*second))
    other = refined(second, itertools.chain(*first))
    assert finer is not None and other is not None, (first, second)
    return finer, other


def _matched(source: Axes, wanted: Axes) -> list[int] | None:
    """Returns the order of dimensions in which a permutation alone gives some axes."""
    if len(source) != len(wanted):
        return None
    positions: dict[Layout, list[int]] = {}
    for position, axis in enumerate(source):
        positions.setdefault(axis, []).append(position)
    if any(axis not in positions for axis in wanted):
        return None
    try:
        return [positions[axis].pop(0) for axis in wanted]
    except IndexError:
        return None
