# SPDX-License-Identifier: Apache-2.0
"""Keeps integer products in float32 in a program of half precision, until they have been scaled.

Layers with int8 activations multiply int8 values: a sum of int8 products is an integer up to 2^14 times the
number of its terms, out of float16's range from a few terms on, and with more digits than bfloat16 has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_PRODUCTS: Final = (aten.mm.default, aten.bmm.default)
_QUANTIZED: Final = (torch.int8, torch.uint8)
_LEAST: Final = torch.iinfo(torch.int8).min
_LARGEST: Final = torch.iinfo(torch.uint8).max
_MOVES: Final = (aten.slice.Tensor, aten.view.default, aten.permute.default)
_FOLLOWING: Final = (aten._to_copy.default, aten.view.default, aten.mul.Tensor, aten.mul.Scalar)


def multiply_in_float32(builder: Builder, nodes: Iterable[Node], half: torch.dtype) -> None:
    """Computes integer products in float32, and their conversions, views and products with scales.

    Args:
        builder: of the program.
        nodes: calls of it, in order; values that are float32 in the model are already of half precision.
        half: its dtype.
    """
    wide: dict[Node, Value] = {}  # a rounded value -> its float32 value; integers -> themselves
    for node in nodes:
        value = _in_float32(builder.at(node), node, wide, half)
        if value is None:
            continue
        if dtype_of(node) == half:
            rounded = value.to(half).node
            replace(node, rounded)
            wide[rounded] = value
        else:
            wide[node] = value


def _in_float32(builder: Builder, node: Node, wide: dict[Node, Value], half: torch.dtype) -> Value | None:
    bound = bind(node)
    if node.target in _PRODUCTS and dtype_of(node) == half:
        operands = [bound["self"], bound["mat2"]]
        if not all(_is_quantized(builder, each) for each in operands):
            return None
        first, second = (value_of(builder, each, torch.float32) for each in operands)
        return first @ second
    if isinstance(node.meta["val"], torch.Tensor) and not dtype_of(node).is_floating_point:
        found = [each for each in node.all_input_nodes if each in wide]
        for each in found:
            node.replace_input_with(each, wide[each].node)
        return Value(builder, node) if found else None
    source = wide.get(bound["self"]) if node.target in _FOLLOWING else None
    if source is None:
        return None
    if node.target is aten._to_copy.default:
        return source.to(torch.float32)
    if node.target is aten.view.default:
        return source.view(*node.meta["val"].shape)
    other = bound["other"]
    if isinstance(other, Node):
        other = wide.get(other) or value_of(builder, other, torch.float32)
    scaled: Value = source * other
    return scaled


def _is_quantized(builder: Builder, node: Node) -> bool:
    """Whether a value consists of integers of 8 bits, which half precision represents exactly.

    Activations are rounded and clamped to these: their conversion to int8 and back is not in the program.
    """
    while node.target in _MOVES:
        node = node.all_input_nodes[0]
    if node.target is aten._to_copy.default and dtype_of(node.all_input_nodes[0]) in _QUANTIZED:
        return True
    known = builder.facts.of(node)
    return known.is_integral and known.low >= _LEAST and known.high <= _LARGEST
