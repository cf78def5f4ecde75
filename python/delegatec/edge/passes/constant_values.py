# SPDX-License-Identifier: Apache-2.0
"""Computation of calls on constants, with few intermediate results in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.program import EdgeProgram

# Maximum length of a name: each call extends the names of its operands.
_LONGEST: Final = 256


class ConstantValues:
    """Values of calls on constants, computed when they are taken.

    An intermediate result is freed once all calls that read it are computed: the graph may compute all
    weights at its start.

    Args:
        program: with the constants; not modified.
        calls: the calls; each operand is one of them, or a constant.

    Attributes:
        calls: in the order of the program.
        results: those that other nodes read, in the same order.
    """

    def __init__(self, program: EdgeProgram, calls: Collection[Node]) -> None:
        self._constants = program.constants
        self.calls = [node for node in program.graph.nodes if node in calls]
        self._order = {node: index for index, node in enumerate(self.calls)}
        self.results = [node for node in self.calls if any(user not in self._order for user in node.users)]
        self._values: dict[Node, Any] = {}
        self._readers = {node: sum(user in self._order for user in node.users) for node in self.calls}
        for node in self.results:
            self._readers[node] += 1

    def take(self, node: Node) -> torch.Tensor:
        """Returns the value of one of the results, row-major; call it once for each."""
        for each in sorted(self._missing(node), key=self._order.__getitem__):
            args, kwargs = map_arg((each.args, each.kwargs), self._value)
            with torch.no_grad():
                value = each.target(*args, **kwargs)  # type: ignore[operator]
            self._values[each] = value.contiguous() if isinstance(value, torch.Tensor) else value
            for operand in each.all_input_nodes:
                self._release(operand)
        value = self._values[node]
        self._release(node)
        assert isinstance(value, torch.Tensor)
        return value

    def origin(self, names: Mapping[str, str], node: Node) -> str:
        """Returns a name for a call: the names of its constants in the model, truncated, and its operators.

        Args:
            names: name of a constant -> its name in the model.
            node: the call.
        """
        found: dict[Node, str] = {}
        for each in sorted(self._ancestors(node, frozenset()), key=self._order.__getitem__):
            operands = [found.get(operand, names.get(operand.name, "")) for operand in each.all_input_nodes]
            sources = "+".join(dict.fromkeys(operands))
            if isinstance(each.target, OpOverload):
                name = each.target._opname
                sources = f"{sources[:_LONGEST]}.{name}" if sources else name
            found[each] = sources
        return found[node]

    def _value(self, operand: Node) -> Any:
        return self._values[operand] if operand in self._order else self._constants[operand.name]

    def _missing(self, node: Node) -> set[Node]:
        return self._ancestors(node, self._values)

    def _ancestors(self, node: Node, known: Collection[Node]) -> set[Node]:
        """Returns the calls that a value needs, itself included, up to known ones."""
        found: set[Node] = set()
        stack = [node]
        while stack:
            each = stack.pop()
            if each in self._order and each not in known and each not in found:
                found.add(each)
                stack += each.all_input_nodes
        return found

    def _release(self, node: Node) -> None:
        if node in self._readers:
            self._readers[node] -= 1
            if not self._readers[node]:
                del self._values[node]
