# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of squares, norms and variances, and of what is computed from them.

Intervals of floating-point sums and roots are unknown: a bound of each operand says little about most models,
but that a variance plus an epsilon is positive says that its root is a number.
"""

from __future__ import annotations

import math
from typing import Any, Final

from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.transparent import elements_of, overloads
from delegatec.edge.arguments import bind

_DEPTH: Final = 12
"""Operators that are followed: enough for a norm that is written out."""

_NEVER_NEGATIVE: Final = frozenset(
    overloads("abs exp sigmoid _softmax softmax.int var.correction var.dim std.correction linalg_vector_norm")
)
_POWER: Final = frozenset(overloads("pow.Tensor_Scalar"))
_PRODUCTS: Final = frozenset(overloads("mul.Tensor mul.Scalar"))
_QUOTIENTS: Final = frozenset(overloads("div.Tensor div.Scalar"))
_SUMS: Final = frozenset(overloads("add.Tensor add.Scalar"))
_ROOT: Final = frozenset(overloads("sqrt"))
_TOTALS: Final = frozenset(overloads("sum sum.dim_IntList"))
_MEANS: Final = frozenset(overloads("mean mean.dim _to_copy"))


class LeastValues:
    """Lower bounds of a program's values, computed on demand and memoized.

    Args:
        facts: intervals of the program's values.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[Node, float] = {}

    def of(self, value: Any, depth: int = _DEPTH) -> float:
        """Returns a lower bound of the elements of a node that are not NaN, or a scalar."""
        if not isinstance(value, Node):
            return float(value) if isinstance(value, (int, float)) else -math.inf
        if value not in self._known:
            found = self._computed(value, depth - 1) if depth else -math.inf
            self._known[value] = max(self._facts.of(value).low, found)
        return self._known[value]

    def _computed(self, node: Node, depth: int) -> float:
        if node.target in _NEVER_NEGATIVE:
            return 0.0
        elements = elements_of(node)
        if elements is not None:
            return min((self.of(each, depth) for each in elements), default=-math.inf)
        if node.target in _POWER and node.args[1] in (2, 4):
            return 0.0
        if node.target in _PRODUCTS | _QUOTIENTS | _SUMS:
            first, second = list(bind(node).values())[:2]
            if node.target in _PRODUCTS and first is second:
                return 0.0
            return self._of_two(node, self.of(first, depth), self.of(second, depth))
        if node.target in _ROOT | _TOTALS | _MEANS:
            low = self.of(node.args[0], depth)
            if low < 0:
                return -math.inf
            return math.sqrt(low) if node.target in _ROOT else 0.0 if node.target in _TOTALS else low
        return -math.inf

    def _of_two(self, node: Node, first: float, second: float) -> float:
        if node.target in _SUMS:
            return first + second if bind(node).get("alpha", 1) == 1 else -math.inf
        if first < 0 or second < 0:
            return -math.inf
        return first * second if node.target in _PRODUCTS and math.isfinite(first * second) else 0.0
