# SPDX-License-Identifier: Apache-2.0
"""Calls whose dimensions have labels, as in `einsum`: products of matrices, convolutions, pools.

The labels have an order, but the elements within one may have any, if all operands agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.channels_last.dimensions import StoredDims, same_call
from delegatec.edge.channels_last.layouts import (
    Axes,
    Layout,
    Shape,
    layout_of,
    merged,
    renamed,
    row_major,
    sizes_of,
)
from delegatec.edge.channels_last.operation import MOST_AXES, Config, Operation, keep
from delegatec.edge.channels_last.storage import Storage, Stored


@dataclass(frozen=True)
class Axis:
    """A dimension of a stored operand.

    Attributes:
        label: the same in all operands.
        dims: the dimensions of the operand.
    """

    label: str
    dims: tuple[int, ...]


class LabeledOp(Operation):
    """A call whose dimensions have labels. A configuration is an order of fragments for each label.

    Args:
        node: the call.
        operands: its operands.
        axes: of each operand, and then of the result.
        free: the labels with elements in any order.
    """

    def __init__(
        self, node: Node, operands: Sequence[Node], axes: Sequence[Sequence[Axis]], free: str
    ) -> None:
        super().__init__(node, operands)
        self._labeled = axes
        self._shapes: list[Shape] = [*map(shape_of, operands), shape_of(node)]
        sizes: dict[str, Shape] = {}
        for shape, each in zip(self._shapes, axes, strict=True):
            for axis in each:
                sizes.setdefault(axis.label, tuple(shape[dim] for dim in axis.dims))
        self._labels = list(sizes)
        self._start = tuple(row_major(sizes[label]) for label in self._labels)
        self._free = [label in free for label in self._labels]

    def start(self) -> Config:
        """See `Operation.start`."""
        return self._start

    def operand(self, index: int, config: Any) -> Layout:
        """See `Operation.operand`."""
        return layout_of(self._axes(index, config))

    def result(self, config: Any) -> Layout:
        """See `Operation.result`."""
        return layout_of(self._axes(len(self.operands), config))

    def for_operand(self, index: int, layout: Layout) -> Config | None:
        """See `Operation.for_operand`."""
        return self._config(index, layout)

    def for_result(self, layout: Layout) -> Config | None:
        """See `Operation.for_result`."""
        return self._config(len(self.operands), layout)

    def emit(self, storage: Storage, values: Mapping[Node, Stored], config: Any) -> Stored:
        """See `Operation.emit`."""
        if config == self._start:
            return keep(self, storage, values)
        stored = {
            operand: storage.arranged(values[operand], self._axes(index, config))
            for index, operand in enumerate(self.operands)
        }
        axes = self._axes(len(self.operands), config)
        return Stored(same_call(storage, self.node, stored, StoredDims(axes, sizes_of(axes))), axes)

    def _axes(self, index: int, config: Any) -> Axes:
        orders = dict(zip(self._labels, config, strict=True))
        return tuple(renamed(orders[axis.label], axis.dims) for axis in self._labeled[index])

    def _config(self, index: int, layout: Layout) -> Config | None:
        """Splits a layout among the labels of an operand."""
        config = dict(zip(self._labels, self._start, strict=True))
        remaining = list(reversed(layout))
        for axis in self._labeled[index]:
            found: list[tuple[int, int, int]] = []
            while remaining and remaining[-1][0] in axis.dims:
                dim, inner, size = remaining.pop()
                found.append((axis.dims.index(dim), inner, size))
            order = merged(found)
            if order != config[axis.label] and not self._free[self._labels.index(axis.label)]:
                return None
            config[axis.label] = order
        if remaining or len(layout) > MOST_AXES:
            return None
        return tuple(config.values()) if self._has_all_elements(config) else None

    def _has_all_elements(self, config: Mapping[str, Layout]) -> bool:
        """Whether each label has as many elements as at the start."""
        counts = (sizes_of([order])[0] for order in config.values())
        return all(count == sizes_of([order])[0] for count, order in zip(counts, self._start, strict=True))
