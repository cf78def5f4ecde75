# SPDX-License-Identifier: Apache-2.0
"""Calls whose dimensions have roles: products of matrices, convolutions, pools.

The roles have an order, but the elements within one may have any, if all operands agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.channels_last.dimensions import Places, same_call
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
class Role:
    """A dimension of a stored operand.

    Attributes:
        name: the role, the same in all operands.
        dims: the dimensions of the operand.
    """

    name: str
    dims: tuple[int, ...]


class Grouped(Operation):
    """A call whose dimensions have roles. A configuration is an order of fragments for each role.

    Args:
        node: the call.
        operands: its operands.
        roles: of each operand, and then of the result.
        free: names of the roles with elements in any order.
    """

    def __init__(
        self, node: Node, operands: Sequence[Node], roles: Sequence[Sequence[Role]], free: str
    ) -> None:
        super().__init__(node, operands)
        self._roles = roles
        self._shapes: list[Shape] = [*map(shape_of, operands), shape_of(node)]
        sizes: dict[str, Shape] = {}
        for shape, each in zip(self._shapes, roles, strict=True):
            for role in each:
                sizes.setdefault(role.name, tuple(shape[dim] for dim in role.dims))
        self._names = list(sizes)
        self._start = tuple(row_major(sizes[name]) for name in self._names)
        self._free = [name in free for name in self._names]

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
        return Stored(same_call(storage, self.node, stored, Places(axes, sizes_of(axes))), axes)

    def _axes(self, index: int, config: Any) -> Axes:
        orders = dict(zip(self._names, config, strict=True))
        return tuple(renamed(orders[role.name], role.dims) for role in self._roles[index])

    def _config(self, index: int, layout: Layout) -> Config | None:
        """Divides a layout among the roles of an operand."""
        config = dict(zip(self._names, self._start, strict=True))
        remaining = list(reversed(layout))
        for role in self._roles[index]:
            found: list[tuple[int, int, int]] = []
            while remaining and remaining[-1][0] in role.dims:
                dim, inner, size = remaining.pop()
                found.append((role.dims.index(dim), inner, size))
            order = merged(found)
            if order != config[role.name] and not self._free[self._names.index(role.name)]:
                return None
            config[role.name] = order
        if remaining or len(layout) > MOST_AXES:
            return None
        return tuple(config.values()) if self._is_whole(config) else None

    def _is_whole(self, config: Mapping[str, Layout]) -> bool:
        """Whether each role has as many elements as at the start."""
        counts = (sizes_of([order])[0] for order in config.values())
        return all(count == sizes_of([order])[0] for count, order in zip(counts, self._start, strict=True))
