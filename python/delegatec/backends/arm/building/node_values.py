# SPDX-License-Identifier: Apache-2.0
"""Values of the nodes of a private program in a TOSA graph, and its constants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from torch.fx import Node

from delegatec.backends.arm.building.constants import constant_part
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.building.shared_constants import Constants
from delegatec.backends.arm.dtypes import TO_TOSA
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import shape_of

Arrange = Callable[[torch.Tensor], torch.Tensor]
"""Moves the elements of a constant, or repeats them."""


class NodeValues(Constants):
    """The values of nodes.

    Args:
        view: the partition; None to try single nodes, whose operands are values without a definition.
        outer: the values of the graph that runs this one, if it is the body of control flow.
        facts: on the operands of a node that is tried.

    Attributes:
        names: name of each constant of the model -> name of its placeholder.
        view: as given.
    """

    def __init__(self, view: PartitionView | None, outer: NodeValues | None, facts: Facts | None) -> None:
        super().__init__({} if outer is None else outer._taken)
        self.names: dict[str, str] = {} if outer is None else outer.names
        self.view = view
        self._facts = facts
        self._values: dict[Node, Value] = {}
        self._problems: list[Diagnostic] = [] if outer is None else outer._problems

    def of(self, node: Node) -> Value:
        """Returns the value of a node."""
        if node not in self._values:
            self._values[node] = self._operand(node)
        return self._values[node]

    def _operand(self, node: Node) -> Value:
        if self.view is None and node.op != "placeholder":
            value = node.meta["val"]
            return Value(self._name(node.name), TO_TOSA[value.dtype], tuple(value.shape))
        return self._constant(node, TO_TOSA[node.meta["val"].dtype])

    def _constant(
        self, node: Node, dtype: int, arrange: Arrange | None = None, shape: tuple[int, ...] | None = None
    ) -> Value:
        """Returns a constant of the model in a type, in another arrangement, or packed, in a shape."""
        name, shape = self._name(node.name), shape_of(node) if shape is None else shape
        if arrange is not None:
            shape = tuple(arrange(torch.empty(shape, device="meta")).shape)
        if self.view is None:
            return Value(name, dtype, shape, is_constant=True)
        part, problem = constant_part(self.view, node, dtype, arrange)
        if problem is not None:
            self._problems.append(problem)
        self.names[name] = node.name
        return Value(name, dtype, shape, part, is_constant=True)

    def is_constant(self, node: Node) -> bool:
        """Whether a node is a constant."""
        return node.op == "placeholder" if self.view is None else node in self.view.constants

    def is_known(self, node: Node) -> bool:
        """Whether a node is certainly a constant; one that is tried has placeholders that may be inputs."""
        if self.view is None:
            return self._facts is not None and self._facts.constant(node) is not None
        return node in self.view.constants

    def arranged(self, node: Node, arrange: Arrange, *key: Hashable, dtype: int | None = None) -> Value:
        """Returns a constant of the model that is stored in another arrangement.

        Args:
            node: the constant.
            arrange: computes the arrangement.
            *key: equal for equal arrangements.
            dtype: type in TOSA, by default that of the constant.
        """
        dtype = TO_TOSA[node.meta["val"].dtype] if dtype is None else dtype
        shared_key = ("arranged", node, dtype, *key)
        if shared_key not in self._shared:
            self._shared[shared_key] = self._constant(node, dtype, arrange)
        return self._shared[shared_key]

    def constant_bytes(self, node: Node, dtype: int, shape: Sequence[int]) -> Value:
        """Returns a constant of the model that is stored as bytes.

        Args:
            node: the constant.
            dtype: type of its elements in TOSA.
            shape: of these.
        """
        key = ("bytes", node, dtype)
        if key not in self._shared:
            self._shared[key] = self._constant(node, dtype, shape=tuple(shape))
        return self._shared[key]

    def alias(self, node: Node, value: Value) -> None:
        """Maps a node to a value."""
        self._values[node] = value

    def check(self) -> None:
        """Raises DC406 for each constant that TOSA cannot represent."""
        if self._problems:
            raise DelegatecError(self._problems)
