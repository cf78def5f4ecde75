# SPDX-License-Identifier: Apache-2.0
"""The values of a program's nodes in a graph, constants included, and those that lowerings share."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange
from delegatec.backends.mlx.building.constants import Constants, Number
from delegatec.backends.mlx.building.draft import Constant, Draft
from delegatec.backends.mlx.building.packing import Packing
from delegatec.backends.mlx.building.values import Array, Operation
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.backends.mlx.dtypes import TO_FORMAT
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.program import EdgeProgram

Shared = TypeVar("Shared")
Step = tuple[str, str, dict[str, Any]]
"""A node of the format, the name of its operand, and its other fields."""


class NodeValues:
    """Values of nodes, of the partition and of the bodies that are lowered.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        current: the node being lowered, the origin of new operations, if any.
        reshaped: value -> the value in another shape that it has the elements of.
        settings: as given.
        draft: the graph so far.
        view: the partition, or the body that is lowered.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        self.current: Node | None = None
        self.reshaped: dict[Array, Array] = {}
        self.settings = settings
        self.draft = Draft()
        self.view = view
        self._constants = Constants(view, settings)
        self._arrays: ChainMap[Node, Array] = ChainMap()
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
        kept = self.view, self._arrays, self._shared
        self.view, self._arrays, self._shared = view, self._arrays.new_child(), self._shared.new_child()
        self._constants.view = view
        try:
            yield
        finally:
            self.view, self._arrays, self._shared = kept
            self._constants.view = self.view

    def of(self, node: Node) -> Array:
        """Returns the value of a node; the first use of a constant adds it."""
        if node not in self._arrays:
            tensor = self.view.constants[node]
            storage = ("weight", tensor.data_ptr(), node.meta["val"].dtype, tensor.shape, tensor.stride())
            make = self._constants.of_node
            self._arrays[node] = self.shared(storage, lambda: self._added(*make(node, self.current)))
        return self._arrays[node]

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
        """Returns the tensor of a node if it is a constant; do not write to it.

        It is float32 if it is float32 in the model, although the node is float16 here.
        """
        return None if node.name in self.view.program.mutated_inputs() else self.view.constants.get(node)

    def result(self, node: Node, index: int | None = None) -> Array:
        """Adds the value that a node computes.

        Args:
            node: the node.
            index: the index of its result, if it has several; the `getitem` nodes of that result get it, too.
        """
        value = node.meta["val"] if index is None else node.meta["val"][index]
        array = self.temporary(value.shape, value.dtype)
        self.alias(node, array, index)
        return array

    def alias(self, node: Node, array: Array, index: int | None = None) -> None:
        """Maps a node to an existing value; `index` selects one of its results, if it has several."""
        nodes = [node] if index is None else [user for user in node.users if user.args[1] == index]
        self._arrays.update(dict.fromkeys(nodes, array))

    def temporary(self, shape: Sequence[Any], dtype: torch.dtype) -> Array:
        """Adds a value without a node."""
        assert dtype in TO_FORMAT, dtype
        return Array(dtype, tuple(shape))

    def table(self, tensor: torch.Tensor) -> Array:
        """Adds a constant of the lowering."""
        return self._added(*self._constants.of_tensor(tensor))

    def scalar(self, number: Number, dtype: torch.dtype) -> Array:
        """Returns a deduplicated constant of rank 0. Integers wrap around, as in ATen."""
        key = ("scalar", dtype, type(number), repr(number))
        return self.shared(key, lambda: self._added(*self._constants.scalar(number, dtype, self.current)))

    def shared(self, key: Hashable, make: Callable[[], Shared]) -> Shared:
        """Returns values shared by lowerings, such as a table of indices; the first call makes it.

        Those of a body are shared in it, and constants in the whole graph.
        """
        if key not in self._shared:
            found = make()
            is_constant = isinstance(found, Array) and (
                found in self.draft.constants or found in self.draft.prepared
            )
            self._shared.maps[-1 if is_constant else 0][key] = found
        shared: Shared = self._shared[key]
        return shared

    def _added(self, array: Array, constant: Constant) -> Array:
        self.draft.constants[array] = constant
        return array
