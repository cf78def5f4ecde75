# SPDX-License-Identifier: Apache-2.0
"""Calls that only reshape or permute elements: every configuration is free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.channels_last.layouts import Axes, Layout, layout_of, renamed, row_major, viewed
from delegatec.edge.channels_last.operation import MOST_AXES, Config, Operation, is_own, keep
from delegatec.edge.channels_last.storage import Storage, Stored

aten = torch.ops.aten


class Move(Operation):
    """A movement; a configuration is the layout of the result."""

    def __init__(self, node: Node) -> None:
        super().__init__(node, node.all_input_nodes[:1])
        self.before, self.after = shape_of(self.operands[0]), shape_of(node)

    def start(self) -> Config:
        """See `Operation.start`."""
        return row_major(self.after)

    def operand(self, index: int, config: Any) -> Layout:
        """See `Operation.operand`."""
        layout = self.backward(config)
        assert layout is not None
        return layout

    def result(self, config: Any) -> Layout:
        """See `Operation.result`."""
        result: Layout = config
        return result

    def for_operand(self, index: int, layout: Layout) -> Config | None:
        """See `Operation.for_operand`."""
        result = self.forward(layout)
        return result if result is not None and self.backward(result) == layout else None

    def for_result(self, layout: Layout) -> Config | None:
        """See `Operation.for_result`."""
        operand = self.backward(layout)
        return layout if operand is not None and self.forward(operand) == layout else None

    def emit(self, storage: Storage, values: Mapping[Node, Stored], config: Any) -> Stored:
        """See `Operation.emit`."""
        value = values[self.operands[0]]
        if storage.is_free(value.node):
            # its users decide the order
            config = self.for_operand(0, value.layout) or config
        elif config == self.start() and is_own(self, storage, values) and not self._moves_nothing():
            axes = self._mapped(storage.own(self.node).axes, self.backward)
            if axes is None:
                return keep(self, storage, values)
            keep(self, storage, values)
            return storage.own(storage.adopt(value, self.node, axes))
        wanted = self.operand(0, config)
        if value.layout != wanted:
            own = storage.own(self.node).axes
            found = self._mapped(own, self.backward) if layout_of(own) == config else None
            axes = found or tuple((fragment,) for fragment in wanted)
            value = Stored(storage.arranged(value, axes), axes)
        found = self._mapped(value.axes, self.forward)
        if found is None:
            found = tuple((fragment,) for fragment in config)
            return Stored(storage.view(value.node, found), found)
        return Stored(value.node, found)

    def _moves_nothing(self) -> bool:
        """Whether it is a permutation that only moves dimensions of size 1."""
        is_view = self.node.target is not aten.permute.default
        return not is_view and self.backward(row_major(self.after)) == row_major(self.before)

    def _mapped(self, axes: Axes, function: Any) -> Axes | None:
        mapped = tuple(function(axis) for axis in axes)
        return None if any(axis is None for axis in mapped) else mapped

    def forward(self, layout: Layout) -> Layout | None:
        """Returns the layout of the result, from that of the operand."""
        raise NotImplementedError

    def backward(self, layout: Layout) -> Layout | None:
        """Returns the layout of the operand, from that of the result."""
        raise NotImplementedError


class Permute(Move):
    """A permutation."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        rank = len(self.after)
        self._dims = [dim % rank for dim in bind(node)["dims"]]
        self._inverse = [self._dims.index(dim) for dim in range(rank)]

    def forward(self, layout: Layout) -> Layout | None:
        """See `Move.forward`."""
        return renamed(layout, self._inverse)

    def backward(self, layout: Layout) -> Layout | None:
        """See `Move.backward`."""
        return renamed(layout, self._dims)


class View(Move):
    """Another shape."""

    def forward(self, layout: Layout) -> Layout | None:
        """See `Move.forward`."""
        return self._limited(viewed(layout, self.before, self.after))

    def backward(self, layout: Layout) -> Layout | None:
        """See `Move.backward`."""
        return self._limited(viewed(layout, self.after, self.before))

    def _limited(self, layout: Layout | None) -> Layout | None:
        most = max(MOST_AXES, len(self.before), len(self.after))
        return layout if layout is None or len(layout) <= most else None
