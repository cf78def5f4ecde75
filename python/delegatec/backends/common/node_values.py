# SPDX-License-Identifier: Apache-2.0
"""The values of a program's nodes in a graph under construction, of any format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch.fx import Node

from delegatec.delegation.protocol.view import PartitionView

ValueT = TypeVar("ValueT")
SettingsT = TypeVar("SettingsT")
SharedT = TypeVar("SharedT")
Number = bool | int | float
Operand = Node | Number


class NodeValues(ABC, Generic[ValueT, SettingsT]):
    """The values of nodes, and those that lowerings share.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        current: the node being lowered, the origin of new operations, if any.
        settings: as given.
        view: as given.
    """

    def __init__(self, view: PartitionView, settings: SettingsT) -> None:
        self.current: Node | None = None
        self.settings = settings
        self.view = view
        self._values: MutableMapping[Node, ValueT] = {}
        self._shared: MutableMapping[Hashable, Any] = {}

    @abstractmethod
    def _stored(self, node: Node, tensor: torch.Tensor) -> ValueT:
        """Adds a constant of the program.

        Args:
            node: its placeholder.
            tensor: its value, float32 if it is float32 in the model.
        """

    def of(self, node: Node) -> ValueT:
        """Returns the value of a node; the first use of a constant adds it."""
        if node not in self._values:
            self._values[node] = self._stored(node, self.view.constants[node])
        return self._values[node]

    def constant_value(self, node: Node) -> torch.Tensor | None:
        """Returns the tensor of a node if it is a constant; do not write to it.

        It is float32 if it is float32 in the model, although the node is float16 here.
        """
        return self.view.constants.get(node)

    def alias(self, node: Node, value: ValueT, index: int | None = None) -> None:
        """Maps a node to a value.

        Args:
            node: the node.
            value: the value.
            index: of the result, if the node has several; the `getitem` nodes of that result get the value.
        """
        nodes = [node] if index is None else [user for user in node.users if user.args[1] == index]
        self._values.update(dict.fromkeys(nodes, value))

    def shared(self, key: Hashable, make: Callable[[], SharedT]) -> SharedT:
        """Returns what lowerings share, such as a table of indices; the first call makes it."""
        if key not in self._shared:
            self._shared[key] = make()
        found: SharedT = self._shared[key]
        return found


class TypedValues(NodeValues[ValueT, SettingsT]):
    """Values of dtypes between which operations convert. Constants with the same elements are stored once."""

    def __init__(self, view: PartitionView, settings: SettingsT) -> None:
        super().__init__(view, settings)
        self._widened: dict[ValueT, ValueT] = {}  # a cast to a wider dtype of the same kind -> its operand

    @abstractmethod
    def temporary(self, shape: Sequence[Any], dtype: torch.dtype) -> ValueT:
        """Adds a value without a node."""

    @abstractmethod
    def scalar(self, number: Number, dtype: torch.dtype) -> ValueT:
        """Returns a deduplicated constant of rank 0. Integers wrap around, as in ATen."""

    @abstractmethod
    def dtype_of(self, value: ValueT) -> torch.dtype:
        """Returns the dtype of a value."""

    @abstractmethod
    def _weight(self, node: Node, tensor: torch.Tensor, dtype: torch.dtype) -> ValueT:
        """Adds a constant of the program, as in `_stored`, in a dtype."""

    @abstractmethod
    def _cast(self, value: ValueT, dtype: torch.dtype) -> ValueT:
        """Emits the conversion of a value to another dtype."""

    @abstractmethod
    def _widens(self, narrow: torch.dtype, wide: torch.dtype) -> bool:
        """Whether a conversion from a dtype to another one loses nothing, so that it has an inverse."""

    def _stored(self, node: Node, tensor: torch.Tensor) -> ValueT:
        dtype = node.meta["val"].dtype
        storage = ("weight", tensor.data_ptr(), dtype, tensor.shape, tensor.stride())
        return self.shared(storage, lambda: self._weight(node, tensor, dtype))

    def result(self, node: Node, index: int | None = None) -> ValueT:
        """Adds the value that a node computes.

        Args:
            node: the node.
            index: the index of its result, if it has several, see `alias`.
        """
        of_node = node.meta["val"] if index is None else node.meta["val"][index]
        value = self.temporary(tuple(of_node.shape), of_node.dtype)
        self.alias(node, value, index)
        return value

    def operand(self, operand: Operand, dtype: torch.dtype) -> ValueT:
        """Returns an operand in a dtype: a number becomes a constant, a tensor is converted."""
        if not isinstance(operand, Node):
            return self.scalar(operand, dtype)
        return self.converted(self.of(operand), dtype)

    def in_float32(self, node: Node) -> ValueT:
        """Returns a floating-point operand in float32; weights keep their precision."""
        tensor = self.view.constants.get(node)
        if tensor is None or node in self._values or tensor.dtype == node.meta["val"].dtype:
            return self.converted(self.of(node), torch.float32)
        return self.shared(("float32", node), lambda: self._weight(node, tensor, torch.float32))

    def converted(self, value: ValueT, dtype: torch.dtype) -> ValueT:
        """Returns a value in a dtype: itself, or one shared conversion; to bool by comparison with zero."""
        own = self.dtype_of(value)
        if own == dtype:
            return value
        # The operand of a widening conversion.
        if value in self._widened and self.dtype_of(self._widened[value]) == dtype:
            return self._widened[value]

        def make() -> ValueT:
            out = self._cast(value, dtype)
            if self._widens(own, dtype):
                self._widened[out] = value
            return out

        return self.shared(("cast", value, dtype), make)
