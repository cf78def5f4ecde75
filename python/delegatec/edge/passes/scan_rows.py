# SPDX-License-Identifier: Apache-2.0
"""Rows that the steps of an unrolled scan read and return.

Quantized rows are moved in float, between calls that dequantize and quantize, like those of any graph. A scan
of reversed rows reads them from the end, and its results are stacked in the order of their users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

aten = torch.ops.aten

Parameters = tuple[Any, ...]
"""The arguments of a quantization after its operand."""


@dataclass(frozen=True)
class Rows:
    """The operand of a scan of which each step gets a row.

    Attributes:
        source: the values in float. Rows with a static size follow each other in its first dimension, so that
            a step needs no view.
        count: how many rows.
        shape: of a row.
        parameters: those of quantized values; None for others.
        is_reversed: whether steps read the last row first.
    """

    source: Node
    count: int
    shape: tuple[Any, ...]
    parameters: Parameters | None
    is_reversed: bool

    @staticmethod
    def of(b: Builder, source: Node, row: Node) -> Rows:
        """Returns the rows of a tensor.

        Args:
            b: inserts calls.
            source: the operand.
            row: the input of the body that is a row of it.
        """
        count, *shape = source.meta["val"].shape
        forward = _unflipped(source)
        parameters = quantization_of(row)
        values = _in_float(b, source if forward is None else forward, parameters)
        if _is_joined(shape):
            values = b.call(aten.view.default, values, [count * shape[0], *shape[1:]])
        return Rows(values, count, tuple(shape), parameters, forward is not None)

    def at(self, b: Builder, index: int) -> Node:
        """Returns the row of a step."""
        index = self.count - 1 - index if self.is_reversed else index
        size = self.shape[0] if _is_joined(self.shape) else 1
        part = b.call(aten.slice.Tensor, self.source, 0, index * size, (index + 1) * size)
        if not _is_joined(self.shape):
            part = b.call(aten.view.default, part, [*self.shape])
        return _in_integers(b, part, self.parameters)


def replace_stacked(b: Builder, result: Node, values: Sequence[Node], parameters: Parameters | None) -> None:
    """Replaces the uses of a result of a scan.

    Args:
        b: inserts calls.
        result: the result.
        values: those of each step.
        parameters: those of quantized values; None for others.
    """
    for user in list(result.users):
        if _flips(user):
            _replace(user, _in_integers(b, _stacked(b, values[::-1], parameters), parameters))
        elif user.target is DEQUANTIZE and user.args[1:] == parameters:
            for each in filter(_flips, list(user.users)):
                _replace(each, _stacked(b, values[::-1], parameters))
    if result.users:
        result.replace_all_uses_with(_in_integers(b, _stacked(b, values, parameters), parameters))


def _replace(node: Node, replacement: Node) -> None:
    node.replace_all_uses_with(replacement)
    node.graph.erase_node(node)


def quantization_of(value: Any) -> Parameters | None:
    """Returns the one way in which a value of a body is quantized, or dequantized; None for other values."""
    if not isinstance(value, Node) or value.target is QUANTIZE:
        return tuple(value.args[1:]) if isinstance(value, Node) else None
    users = [each for each in value.users if each.op != "output"]
    found = {tuple(each.args[1:]) if each.target is DEQUANTIZE else None for each in users}
    return found.pop() if len(found) == 1 else None


def _stacked(b: Builder, values: Sequence[Node], parameters: Parameters | None) -> Node:
    """Returns the values of all steps, in float if they are quantized."""
    shape = values[0].meta["val"].shape
    floats = [_in_float(b, value, parameters) for value in values]
    if _is_joined(shape):
        return b.call(aten.view.default, b.call(aten.cat.default, floats, 0), [len(values), *shape])
    return b.call(aten.cat.default, [b.call(aten.view.default, each, [1, *shape]) for each in floats], 0)


def _is_joined(shape: Sequence[Any]) -> bool:
    """Whether rows of a shape can follow each other in their first dimension: its size is static."""
    return len(shape) > 0 and isinstance(shape[0], int)


def _unflipped(rows: Node) -> Node | None:
    """Returns rows of which others are the reversed ones; None for rows that are not reversed."""
    if _flips(rows):
        return rows.all_input_nodes[0]
    flip = rows.all_input_nodes[0] if rows.target is QUANTIZE else None
    source = flip.all_input_nodes[0] if flip is not None and _flips(flip) else None
    is_moved = source is not None and source.target is DEQUANTIZE and source.args[1:] == rows.args[1:]
    return source.all_input_nodes[0] if source is not None and is_moved else None


def _flips(node: Node) -> bool:
    """Whether a call reverses the order of rows."""
    return node.target is aten.flip.default and node.args[1] == [0]


def _in_float(b: Builder, value: Node, parameters: Parameters | None) -> Node:
    return value if parameters is None else b.call(DEQUANTIZE, value, *parameters)


def _in_integers(b: Builder, value: Node, parameters: Parameters | None) -> Node:
    return value if parameters is None else b.call(QUANTIZE, value, *parameters)
