# SPDX-License-Identifier: Apache-2.0
"""Logarithms of integers that are rounded to integers, such as the buckets of relative positions.

Of some integers the result is an integer in exact arithmetic: log(8) / log(2) is 3. There the last digit of
the logarithm, and of what is computed from it, decides the rounding.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.transparent import elements_of, overloads
from delegatec.edge.arguments import dtype_of, operand_nodes
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_LOGARITHMS: Final = frozenset(overloads("log log2 log10 log1p"))
_ROUNDINGS: Final = frozenset(
    overloads("floor ceil round round.decimals trunc floor_divide div.Tensor_mode div.Scalar_mode")
)


def rounded_logarithms(program: EdgeProgram) -> set[Node]:
    """Returns the logarithms of integers that are rounded, and all calls from these to the rounding.

    Args:
        program: a method, without its bodies.
    """
    of_integers = _Chains(_is_integer)
    logarithms = {
        node
        for node in program.graph.nodes
        if node.target in _LOGARITHMS and any(map(of_integers.reaches, operand_nodes(node)))
    }
    if not logarithms:
        return set()
    from_logarithm = _Chains(logarithms.__contains__)
    found: set[Node] = set()
    for node in program.graph.nodes:
        if _rounds(node):
            found |= from_logarithm.between(node)
    return found


class _Chains:
    """Chains of calls that compute element by element, from what a condition holds for.

    Args:
        starts: the condition.
    """

    def __init__(self, starts: Any) -> None:
        self._starts = starts
        self._reached: dict[Node, bool] = {}

    def reaches(self, node: Node) -> bool:
        """Whether a chain ends in a node."""
        pending = [node]
        while pending:
            each = pending[-1]
            if each in self._reached:
                pending.pop()
                continue
            sources = [] if self._starts(each) else _sources(each)
            if missing := [source for source in sources if source not in self._reached]:
                pending += missing
                continue
            self._reached[each] = self._starts(each) or any(self._reached[source] for source in sources)
            pending.pop()
        return self._reached[node]

    def between(self, node: Node) -> set[Node]:
        """Returns the nodes of all chains that end in a node, with both ends."""
        if not any(map(self.reaches, _sources(node))):
            return set()
        found, pending = {node}, [source for source in _sources(node) if self.reaches(source)]
        while pending:
            each = pending.pop()
            if each not in found:
                found.add(each)
                if not self._starts(each):
                    pending += [source for source in _sources(each) if self.reaches(source)]
        return found


def _sources(node: Node) -> list[Node]:
    """Returns the operands from whose elements a call computes those of its result."""
    elements = elements_of(node)
    if elements is not None:
        return [each for each in elements if isinstance(each, Node)]
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return operand_nodes(node) if is_pointwise or node.target is aten._to_copy.default else []


def _is_integer(node: Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and not (val.is_floating_point() or val.is_complex())


def _rounds(node: Node) -> bool:
    if node.target in _ROUNDINGS:
        return True
    is_conversion = node.target is aten._to_copy.default and _is_integer(node)
    return is_conversion and dtype_of(node.all_input_nodes[0]).is_floating_point
