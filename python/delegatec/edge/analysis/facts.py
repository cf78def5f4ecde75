# SPDX-License-Identifier: Apache-2.0
"""Analysis results for the values of a program."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch.fx import Node

from delegatec.edge.analysis.interval import UNKNOWN, Interval, converted, of_constant, of_dtype, of_scalar
from delegatec.edge.analysis.rules import Rule, operands_and_rule

STATED: Final = "interval"
"""Key of a node's metadata: an interval that is stated by its creator instead of computed."""


class Facts:
    """Intervals of the values of a program's nodes, computed on demand and memoized.

    They stay valid while edits of the program keep the value of each node, as passes do; a new analysis of
    the edited program may find more.

    Args:
        constants: name of a placeholder -> its tensor, see `EdgeProgram.fixed_constants`.
        outer: the interval of a placeholder that is not a constant, or None. For a program extracted from
            another one: the interval there of the node that the placeholder represents.
    """

    def __init__(
        self,
        constants: Mapping[str, torch.Tensor],
        outer: Callable[[Node], Interval | None] = lambda _: None,
    ) -> None:
        # passes may add to either
        self._added: dict[str, torch.Tensor] = {}
        self._constants = ChainMap[str, torch.Tensor](self._added, cast(Any, constants))
        self._outer = outer
        self._known: dict[Node, Interval] = {}

    def of(self, value: Any) -> Interval:
        """Returns the interval of a node's values, or of a scalar."""
        if not isinstance(value, Node):
            return of_scalar(value)
        # Chains of operators are longer than Python's recursion limit.
        pending: list[Node] = [value]
        opened: dict[Node, tuple[list[Any], Rule | None]] = {}
        while pending:
            node = pending[-1]
            if node in self._known or node in opened:
                pending.pop()
                if node not in self._known:
                    self._known[node] = self._interval(node, *opened.pop(node))
            else:
                opened[node] = operands, _ = operands_and_rule(node)
                pending += [each for each in operands if isinstance(each, Node) and each not in self._known]
        return self._known[value]

    def constant(self, node: Node) -> torch.Tensor | None:
        """Returns the tensor of a placeholder if it is a constant; do not write to it."""
        return self._constants.get(node.name)

    def add_constant(self, node: Node, value: torch.Tensor) -> None:
        """Records the tensor of a new constant."""
        self._added[node.name] = value

    def _interval(self, node: Node, operands: Sequence[Any], rule: Rule | None) -> Interval:
        """Returns the interval of a node whose operands are known."""
        val = node.meta.get("val")
        if not isinstance(val, torch.Tensor):
            return UNKNOWN
        if STATED in node.meta:
            return cast(Interval, node.meta[STATED])
        if rule is not None:
            return converted(rule(node, *(self._operand(each, val.dtype) for each in operands)), val.dtype)
        if node.op != "placeholder":
            return of_dtype(val.dtype)
        constant = self._constants.get(node.name)
        return of_constant(constant) if constant is not None else self._outer(node) or of_dtype(val.dtype)

    def _operand(self, operand: Any, dtype: torch.dtype) -> Interval | None:
        """Returns the interval of an operand; a scalar is rounded to the dtype of the result."""
        if operand is None:
            return None
        if isinstance(operand, Node):
            return self._known[operand]
        return converted(of_scalar(operand), dtype) if dtype.is_floating_point else of_scalar(operand)
