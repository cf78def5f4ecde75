# SPDX-License-Identifier: Apache-2.0
"""The values of a program's nodes in a graph, constants included, and those that lowerings share."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange
from delegatec.backends.common.node_values import Number, SharedT, TypedValues
from delegatec.backends.mlx.building.constants import Constants
from delegatec.backends.mlx.building.draft import Constant, Draft
from delegatec.backends.mlx.building.packing import Packing
from delegatec.backends.mlx.building.values import Array, Operation
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.backends.mlx.dtypes import TO_FORMAT
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.program import EdgeProgram

Step = tuple[str, str, dict[str, Any]]
"""A node of the format, the name of its operand, and its other fields."""


class NodeValues(TypedValues[Array, Settings]):
    """Values of nodes, of the partition and of the bodies that are lowered.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        reshaped: value -> the value in another shape that it has the elements of.
        draft: the graph so far.
        view: the partition, or the body that is lowered.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        super().__init__(view, settings)
        self.reshaped: dict[Array, Array] = {}
        self.draft = Draft()
        self._constants = Constants(view, settings)
        self._values: ChainMap[Node, Array] = ChainMap()
        self._shared: ChainMap[Hashable, Any] = ChainMap()

    @property
    def program(self) -> EdgeProgram:
        """The private program of the partition, or the body that is lowered."""
        return self.view.program

    @property
    def facts(self) -> Facts:
        """Analysis results for that program."""
        return self.view.facts

    @contextmanager
    def inside(self, view: PartitionView) -> Iterator[None]:
        """Opens a scope for a body: its values are unknown after it, other than constants."""
        kept = self.view, self._values, self._shared
        self.view, self._values, self._shared = view, self._values.new_child(), self._shared.new_child()
        self._constants.view = view
        try:
            yield
        finally:
            self.view, self._values, self._shared = kept
            self._constants.view = self.view

    def _weight(self, node: Node, tensor: torch.Tensor, dtype: torch.dtype) -> Array:
        if dtype != node.meta["val"].dtype:
            return self.table(tensor)
        return self._added(*self._constants.of_node(node, self.current))

    def arranged(self, node: Node, form: Hashable, arrange: Arrange, shape: Sequence[int]) -> Array:
        """Returns a constant with its elements in another order.

        Args:
            node: its placeholder.
            form: names the order.
            arrange: see `Arrange`.
            shape: of the arranged elements.
        """

        def make() -> Array:
            array, constant = self._constants.of_node(node, self.current, arrange, shape)
            return self._added(array, constant)

        return self.shared(("arranged", node, form), make)

    def permuted_when_loaded(self, node: Node, perm: list[int]) -> Array:
        """Returns a constant with permuted dimensions: a view that is made when the delegate is loaded.

        The constant is stored as it is, and may be shared with other uses.
        """

        def make() -> Array:
            stored = self._added(*self._constants.of_node(node, self.current))
            shape = [stored.shape[dim] for dim in perm]
            return self._prepared(stored, shape, [("Transpose", "x", {"perm": perm})])

        tensor = self.view.constants[node]
        storage = (tensor.data_ptr(), node.meta["val"].dtype, tensor.shape, tensor.stride())
        return self.shared(("permuted", storage, tuple(perm)), make)

    def packed(self, node: Node, packing: Packing) -> Array:
        """Returns a constant matrix of integers, packed when it is written; once per node and packing."""

        def make() -> Array:
            return self._added(*self._constants.packed(node, packing))

        return self.shared(("packed", node, packing), make)

    def prepared(self, tensor: torch.Tensor, shape: Sequence[int], steps: Sequence[Step]) -> Array:
        """Returns what the runtime computes from a constant of the lowering when it loads the delegate.

        Args:
            tensor: the constant.
            shape: of the result.
            steps: its computation, in order.
        """
        return self._prepared(self.table(tensor), shape, steps)

    def _prepared(self, stored: Array, shape: Sequence[int], steps: Sequence[Step]) -> Array:
        result = self.temporary(shape, stored.dtype)
        self.draft.prepared[result] = (
            stored,
            [Operation(name, {operand: stored, "out": stored, **fields}) for name, operand, fields in steps],
        )
        return result

    def constant_value(self, node: Node) -> torch.Tensor | None:
        """See `NodeValues.constant_value`; buffers that the program writes to are not constants."""
        return None if node.name in self.program.mutated_inputs() else super().constant_value(node)

    def temporary(self, shape: Sequence[Any], dtype: torch.dtype) -> Array:
        """See `TypedValues.temporary`."""
        assert dtype in TO_FORMAT, dtype
        return Array(dtype, tuple(shape))

    def table(self, tensor: torch.Tensor) -> Array:
        """Adds a constant of the lowering."""
        return self._added(*self._constants.of_tensor(tensor))

    def scalar(self, number: Number, dtype: torch.dtype) -> Array:
        """See `TypedValues.scalar`."""
        key = ("scalar", dtype, type(number), repr(number))
        return self.shared(key, lambda: self._added(*self._constants.scalar(number, dtype, self.current)))

    def shared(self, key: Hashable, make: Callable[[], SharedT]) -> SharedT:
        """See `NodeValues.shared`. Those of a body are shared in it, and constants in the whole graph."""
        if key not in self._shared:
            found = super().shared(key, make)
            is_constant = isinstance(found, Array) and (
                found in self.draft.constants or found in self.draft.prepared
            )
            if is_constant:
                self._shared.maps[-1][key] = self._shared.maps[0].pop(key)
        return super().shared(key, make)

    def _added(self, array: Array, constant: Constant) -> Array:
        self.draft.constants[array] = constant
        return array
