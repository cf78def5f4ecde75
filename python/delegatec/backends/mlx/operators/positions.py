# SPDX-License-Identifier: Apache-2.0
"""Consecutive positions, such as those of the tokens of a call: integers of the graph that select slices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.values import Float, Int, Scalar
from delegatec.backends.mlx.dtypes import TO_FORMAT
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.passes.filled_rows import RESHAPES
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

_INDICES: Final = (torch.int32, torch.int64)


@dataclass(frozen=True)
class Span:
    """Consecutive positions.

    Attributes:
        first: computes the first one, a tensor of one element.
        count: their number.
    """

    first: Node
    count: Any

    @property
    def key(self) -> tuple[Any, ...]:
        """A comparable form."""
        return self.first, *sizes_key([self.count])


def span_of(node: Node, constant: Callable[[Node], Tensor | None]) -> Span | None:
    """Returns the positions that a tensor has in ascending order; None if they may not be consecutive.

    Args:
        node: computes them, of any shape.
        constant: returns the value of a constant node, and None for other nodes.
    """
    while node.target in RESHAPES:
        node = bind(node)["self"]
    if dtype_of(node) not in _INDICES:
        return None
    if _is_single(node):
        return Span(node, 1)
    if node.target is not aten.add.Tensor or bind(node)["alpha"] != 1:
        return None
    operands = [bind(node)[name] for name in ("self", "other")]
    for first, counted in (operands, reversed(operands)):
        is_pair = isinstance(first, Node) and isinstance(counted, Node) and _is_single(first)
        if is_pair and dtype_of(first) in _INDICES and _counts(counted, constant):
            return Span(first, shape_of(counted)[-1])
    return None


def _is_single(node: Node) -> bool:
    return {*sizes_key(shape_of(node))} <= {1}


def _counts(node: Node, constant: Callable[[Node], Tensor | None]) -> bool:
    """Whether a value has the integers from 0 on, along its last dimension."""
    while node.target in RESHAPES:
        node = bind(node)["self"]
    if len(shape_of(node)) != 1:
        return False
    known = constant(node)
    if known is not None:
        return torch.equal(known.long(), torch.arange(len(known)))
    is_range = node.target is aten.arange.start_step
    return is_range and (bind(node)["start"], bind(node)["step"]) == (0, 1)


def bounds_of(b: GraphBuilder, span: Span) -> tuple[Int, Int]:
    """Returns the first position, and the one after the last."""

    def make() -> tuple[Int, Int]:
        first = Scalar()
        b.emit("Item", x=b.of(span.first), out=first)
        return Int(first), _computed(b, "AddInt", Int(first), b.integer(span.count))

    return b.shared(("bounds", *span.key), make)


def checked_bounds_of(b: GraphBuilder, span: Span, length: int) -> tuple[Int, Int]:
    """Returns these bounds of a span in a dimension of a length.

    A run fails if the dimension does not have all of the positions: it makes tensors whose sizes are positive
    only if it has. Nothing computes these tensors.
    """

    def check() -> tuple[Int, Int]:
        first, end = bounds_of(b, span)
        before = _computed(b, "AddInt", first, Int(1))
        after = _computed(b, "SubtractInt", Int(length + 1), end)
        for size in (before, after):
            made = b.temporary((-1,), torch.uint8)
            b.emit("Full", out=made, shape=[size], value=Float(0.0), dtype=TO_FORMAT[torch.uint8])
            b.draft.observed.append(made)
        return first, end

    return b.shared(("checked bounds", *span.key, length), check)


def _computed(b: GraphBuilder, name: str, first: Int, second: Int) -> Int:
    result = Scalar()
    b.emit(name, a=first, b=second, out=result)
    return Int(result)
