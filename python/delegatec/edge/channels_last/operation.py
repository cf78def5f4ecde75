# SPDX-License-Identifier: Apache-2.0
"""A call as the optimizer sees it: the layouts in which it can be computed, and how.

A configuration determines the layout of each operand and of the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.channels_last.layouts import Layout, row_major
from delegatec.edge.channels_last.storage import Storage, Stored

Config = Hashable

MOST_AXES = 6
"""Dimensions of a stored tensor, unless the value has more."""


class Operation(ABC):
    """A call.

    Attributes:
        node: the call.
        operands: its operands that are tensors, each once.
    """

    def __init__(self, node: Node, operands: Sequence[Node]) -> None:
        self.node = node
        self.operands = tuple(operands)

    @abstractmethod
    def start(self) -> Config:
        """Returns the configuration in which all values are row-major."""

    @abstractmethod
    def operand(self, index: int, config: Any) -> Layout:
        """Returns the layout of an operand."""

    @abstractmethod
    def result(self, config: Any) -> Layout:
        """Returns the layout of the result."""

    def for_operand(self, index: int, layout: Layout) -> Config | None:
        """Returns a configuration in which an operand has a layout, if there is one."""
        return None

    def for_result(self, layout: Layout) -> Config | None:
        """Returns a configuration in which the result has a layout, if there is one."""
        return None

    @abstractmethod
    def emit(self, storage: Storage, values: Mapping[Node, Stored], config: Any) -> Stored:
        """Emits the call in a configuration, before the builder's anchor, which is the call."""


OperationRule = Callable[[Node], Operation | None]
"""Returns how a call can be computed; None if all its values have to be row-major."""


class Fixed(Operation):
    """A call whose operands and results are row-major."""

    def start(self) -> Config:
        """See `Operation.start`."""
        return ()

    def operand(self, index: int, config: Any) -> Layout:
        """See `Operation.operand`."""
        return row_major(shape_of(self.operands[index]))

    def result(self, config: Any) -> Layout:
        """See `Operation.result`."""
        is_tensor = isinstance(self.node.meta.get("val"), torch.Tensor)
        return row_major(shape_of(self.node)) if is_tensor else ()

    def emit(self, storage: Storage, values: Mapping[Node, Stored], config: Any) -> Stored:
        """See `Operation.emit`."""
        return keep(self, storage, values)


def keep(operation: Operation, storage: Storage, values: Mapping[Node, Stored]) -> Stored:
    """Keeps a call, with row-major operands."""
    node = operation.node
    for operand in operation.operands:
        other = storage.arranged(values[operand], storage.own(operand).axes)
        if other is not operand:
            node.replace_input_with(operand, other)
    return storage.own(node) if isinstance(node.meta.get("val"), torch.Tensor) else Stored(node, ())


def is_own(operation: Operation, storage: Storage, values: Mapping[Node, Stored]) -> bool:
    """Whether all operands are stored in their own shapes."""
    return all(values[each].axes == storage.own(each).axes for each in operation.operands)
