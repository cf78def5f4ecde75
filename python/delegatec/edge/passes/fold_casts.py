# SPDX-License-Identifier: Apache-2.0
"""A number that goes to another dtype and back unharmed need not go there.

Quantised activations do: rounded and clamped to the levels of an integer type, made such integers, and made
floating point again. Delegates may not have that type, or no conversions that round as ATen's.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_CAST: Final = aten._to_copy.default
_ROUNDING: Final = frozenset({aten.round.default, aten.floor.default, aten.ceil.default, aten.trunc.default})
_SUMS: Final = frozenset(
    {aten.add.Tensor, aten.sub.Tensor, aten.add.Scalar, aten.sub.Scalar, aten.rsub.Scalar}
)
_MOVES: Final = frozenset(
    {aten.view.default, aten.expand.default, aten.unsqueeze.default, aten.permute.default}
)
# How far from a conversion it is looked for what makes numbers whole.
_DEPTH: Final = 8
# Integers up to there are exact in float32.
_EXACT: Final = 2**24


def fold_casts(program: EdgeProgram) -> bool:
    """Replaces a conversion to a dtype and back by what was converted, where that gives the same."""
    changed = False
    for node in list(program.graph.nodes):
        if node.target is not _CAST or node.args[0].target is not _CAST:
            continue
        through = node.args[0]
        source = through.args[0]
        if dtype(source) == dtype(node) and _is_lossless(source, dtype(through)):
            node.replace_all_uses_with(source)
            program.graph.erase_node(node)
            changed = True
    return changed


def _is_lossless(source: Node, through: torch.dtype) -> bool:
    """Whether a conversion through a dtype gives the same numbers."""
    kind = dtype(source)
    if not kind.is_floating_point or through.is_complex or through == torch.bool:
        return False
    if through.is_floating_point:
        narrow, wide = torch.finfo(kind), torch.finfo(through)
        return wide.max >= narrow.max and wide.tiny <= narrow.tiny and wide.eps <= narrow.eps
    low, high = _bounds(source)
    limits = torch.iinfo(through)
    return limits.min <= low and high <= min(limits.max, _EXACT) and _is_whole(source)


def _bounds(node: Node) -> tuple[float, float]:
    """What the values of a node lie between, as far as the node itself or what it rounds clamps them."""
    while node.target in _ROUNDING | _MOVES:
        node = _first(node)
    bound: dict[str, Any] = bind(node) if node.target is aten.clamp.default else {}
    if bound.get("min") is None or bound.get("max") is None:
        return -float("inf"), float("inf")
    return bound["min"], bound["max"]


def _is_whole(operand: Any, depth: int = _DEPTH) -> bool:
    """Whether all values of a node or a number are whole; NaN aside, which no integer type has."""
    if not isinstance(operand, Node):
        return operand is None or float(operand).is_integer()
    if not dtype(operand).is_floating_point or operand.target in _ROUNDING:
        return True
    if depth == 0 or operand.op != "call_function":
        return False
    if operand.target is _CAST or operand.target in _MOVES:
        return _is_whole(operand.args[0], depth - 1)
    if operand.target is aten.clamp.default or operand.target in _SUMS:
        return all(_is_whole(argument, depth - 1) for argument in bind(operand).values())
    return False


def _first(node: Node) -> Node:
    first = node.args[0]
    assert isinstance(first, Node)
    return first
