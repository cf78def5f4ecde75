# SPDX-License-Identifier: Apache-2.0
"""Calls that can be computed in any order of dimensions, which they treat alike or address by index."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.channels_last.layouts import Axes, Fragment, Layout, Shape, merged, row_major, sizes_of
from delegatec.edge.channels_last.operation import MOST_AXES, Config, Operation, is_own, keep
from delegatec.edge.channels_last.storage import Storage, Stored

_UNSPLIT: Final = 0
"""Size of a fragment of a joint dimension that is not split: operands may have different sizes."""


@dataclass(frozen=True)
class Part:
    """An operand or the result of a call.

    Attributes:
        shape: its shape.
        dims: for each joint dimension of the call, its own dimension, or None.
    """

    shape: Shape
    dims: tuple[int | None, ...]

    def size(self, joint: int) -> int:
        """Returns the size of a joint dimension; 1 if it lacks the dimension."""
        dim = self.dims[joint]
        return 1 if dim is None else self.shape[dim]


@dataclass(frozen=True)
class StoredDims:
    """Where dimensions are in a stored result.

    Attributes:
        axes: joint fragments in each dimension.
        size: sizes of the result.
    """

    axes: Axes
    sizes: list[int] = field(default_factory=list)

    def of(self, joint: int) -> int:
        """Returns the dimension that is a joint dimension which is not split."""
        return self.all_of(joint)[0]

    def all_of(self, *joints: int) -> list[int]:
        """Returns all dimensions with fragments of joint dimensions."""
        return [index for index, axis in enumerate(self.axes) if any(each[0] in joints for each in axis)]


Emit = Callable[[Storage, dict[Node, Node], StoredDims], Node]


class Dimensions(Operation):
    """A call with dimensions that operands and result share, the joint ones.

    A configuration is an order of joint fragments.

    Args:
        node: the call.
        operands: the operands, which have a layout.
        parts: for each of them.
        result: for the result.
        unsplit: joint dimensions that are not split.
        emit: emits the call on stored operands.
        copies: whether an operand without a joint dimension that another part has may determine the
            configuration.
        fixed: other operands, which are row-major.
    """

    def __init__(
        self,
        node: Node,
        operands: Sequence[Node],
        parts: Sequence[Part],
        result: Part,
        unsplit: Collection[int],
        emit: Emit,
        copies: bool = True,
        fixed: Sequence[Node] = (),
    ) -> None:
        super().__init__(node, [*operands, *fixed])
        self._parts, self._result, self._unsplit = tuple(parts), result, frozenset(unsplit)
        self._all = (*self._parts, result)
        self._emit, self._copies = emit, copies
        self._sizes = [max(part.size(joint) for part in self._all) for joint in range(len(result.dims))]
        self._start = tuple(self._entire(joint) for joint, size in enumerate(self._sizes) if size != 1)
        self._names = [
            {dim: joint for joint, dim in enumerate(part.dims) if dim is not None} for part in self._all
        ]

    def start(self) -> Config:
        """See `Operation.start`."""
        return self._start

    def operand(self, index: int, config: Any) -> Layout:
        """See `Operation.operand`."""
        if index >= len(self._parts):
            return row_major(shape_of(self.operands[index]))
        return self._layout(self._parts[index], config)

    def result(self, config: Any) -> Layout:
        """See `Operation.result`."""
        return self._layout(self._result, config)

    def for_operand(self, index: int, layout: Layout) -> Config | None:
        """See `Operation.for_operand`."""
        return self._config(index, layout) if index < len(self._parts) else None

    def for_result(self, layout: Layout) -> Config | None:
        """See `Operation.for_result`."""
        return self._config(len(self._parts), layout)

    def emit(self, storage: Storage, values: Mapping[Node, Stored], config: Any) -> Stored:
        """See `Operation.emit`."""
        if config == self._start and is_own(self, storage, values):
            return keep(self, storage, values)
        axes = self._axes(storage, values, config)
        stored = {
            operand: storage.arranged(values[operand], self._own(part, axes))
            for operand, part in zip(self.operands, self._parts, strict=False)
        }
        for operand in self.operands[len(self._parts) :]:
            stored[operand] = storage.arranged(values[operand], storage.own(operand).axes)
        result = self._own(self._result, axes)
        return Stored(self._emit(storage, stored, StoredDims(axes, sizes_of(result))), result)

    def _entire(self, joint: int) -> Fragment:
        return (joint, 1, _UNSPLIT if joint in self._unsplit else self._sizes[joint])

    def _layout(self, part: Part, fragments: Layout) -> Layout:
        found: list[Fragment] = []
        for joint, inner, size in fragments:
            dim = part.dims[joint]
            if dim is not None and part.shape[dim] != 1:
                found.append((dim, inner, part.shape[dim] if size == _UNSPLIT else size))
        return merged(found)

    def _own(self, part: Part, axes: Axes) -> Axes:
        return tuple(self._layout(part, axis) for axis in axes)

    def _joint(self, index: int, layout: Layout) -> Layout | None:
        """Returns the fragments of joint dimensions that those of a part are."""
        names, shape = self._names[index], self._all[index].shape
        found: list[Fragment] = []
        for dim, inner, size in layout:
            joint = names[dim]
            if joint in self._unsplit:
                if size != shape[dim]:
                    return None
                inner, size = 1, _UNSPLIT
            found.append((joint, inner, size))
        return tuple(found)

    def _config(self, index: int, layout: Layout) -> Config | None:
        joint = self._joint(index, layout)
        if joint is None:
            return None
        part = self._all[index]
        config = list(joint)
        for each, size in enumerate(self._sizes):
            if size == 1 or part.size(each) != 1:
                continue
            if not self._copies:
                return None
            # after the dimensions before it
            position = max((at + 1 for at, found in enumerate(config) if found[0] < each), default=0)
            config.insert(position, self._entire(each))
        most = max(MOST_AXES, len(self._sizes))
        return tuple(config) if len(config) <= most else None

    # ---- the shape of stored values ----------------------------------------------------------------------

    def _axes(self, storage: Storage, values: Mapping[Node, Stored], config: Layout) -> Axes:
        """Groups the fragments of a configuration as one of the operands is stored."""
        chosen, count = None, -1
        for index, operand in enumerate(self.operands[: len(self._parts)]):
            value = values[operand]
            size = math.prod(shape_of(operand))
            if storage.is_free(value.node) or size <= count or value.layout != self.operand(index, config):
                continue
            chosen, count = index, size
        if chosen is None:
            axes = self._default(config)
        else:
            axes = self._like(values[self.operands[chosen]].axes, chosen, config)
        return tuple(part for axis in axes for part in self._alike(axis))

    def _default(self, config: Layout) -> list[Layout]:
        """Returns a dimension per fragment; those of size 1 stay where they are."""
        ones = [joint for joint, size in enumerate(self._sizes) if size == 1]
        axes: list[Layout] = [(fragment,) for fragment in config]
        if len(ones) + len(axes) <= MOST_AXES:
            for joint in ones:
                axes.insert(joint, ())
        return axes

    def _like(self, stored: Axes, index: int, config: Layout) -> list[Layout]:
        names, part = self._names[index], self._all[index]
        pending: list[tuple[int, Fragment | None]] = []
        for position, axis in enumerate(stored):
            pending += [(position, (names[dim], inner, size)) for dim, inner, size in axis] or [
                (position, None)
            ]
        pending.reverse()
        axes: list[Layout] = []
        last = -1  # the stored dimension that the last fragment was in
        for joint, inner, size in config:
            if part.size(joint) == 1:
                if pending and pending[-1][1] is None:
                    pending.pop()
                axes.append(((joint, inner, size),))
                last = -1
                continue
            remaining = part.size(joint) if size == _UNSPLIT else size
            while remaining != 1:
                if not pending:  # the operand is broadcast here, and has no fragments to follow
                    return self._default(config)
                position, fragment = pending.pop()
                if fragment is None:
                    axes.append(())
                    last = -1
                    continue
                remaining //= fragment[2]
                if size == _UNSPLIT:
                    continue
                if position == last:
                    axes[-1] = (*axes[-1], fragment)
                else:
                    axes.append((fragment,))
                last = position
            if size == _UNSPLIT:
                axes.append(((joint, 1, _UNSPLIT),))
                last = -1
        axes += [() for _, fragment in pending if fragment is None]
        return axes

    def _alike(self, axis: Layout) -> list[Layout]:
        """Splits a dimension so that each part of the call has all of it or nothing."""
        found: list[Layout] = []
        before = None
        for fragment in axis:
            which = tuple(part.size(fragment[0]) != 1 for part in self._all)
            if which == before:
                found[-1] = (*found[-1], fragment)
            else:
                found.append((fragment,))
            before = which
        return found or [()]


def call(
    storage: Storage,
    node: Node,
    target: Any,
    result_dims: StoredDims,
    *args: Any,
    dtype: Any = None,
    **kwargs: Any,
) -> Node:
    """Emits a call with the result of another one, stored in other dimensions."""
    builder = storage.builder
    return builder.call(
        target, *args, val=builder.empty(result_dims.sizes, dtype or dtype_of(node)), **kwargs
    )


def same_call(storage: Storage, node: Node, stored: Mapping[Node, Node], result_dims: StoredDims) -> Node:
    """Emits the same call on stored operands."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: stored.get(each, each))
    return call(storage, node, node.target, result_dims, *args, **kwargs)
