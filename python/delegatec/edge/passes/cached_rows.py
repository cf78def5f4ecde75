# SPDX-License-Identifier: Apache-2.0
"""Caches of keys and values of a decoder, as attention reads them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import value_of
from delegatec.edge.passes.filled_rows import first_rows
from delegatec.edge.quantization.operators import DEQUANTIZE
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten

LEAST_ROWS: Final = 256
"""The shortest cache of which parts are read: the calls for a part cost more than the rows of a short one."""
MOST_HEADS: Final = 64
"""The most heads whose rows are read apart from each other."""


def cache_of(node: Node, buffers: Collection[Node]) -> Node | None:
    """Returns the buffer whose value a call has, maybe in another dtype; None for another value.

    Its elements may be multiplied by those of another buffer, such as the scales of quantized rows.
    """
    if node.target is aten.mul.Tensor:
        bound = bind(node)
        node, scale = bound["self"], bound["other"]
        if cache_of(scale, buffers) is None or not same_sizes(shape_of(scale)[:-1], shape_of(node)[:-1]):
            return None
    if node.target is aten._to_copy.default:
        node = bind(node)["self"]
    while node.target is aten.index_put.default and not bind(node)["accumulate"]:
        node = bind(node)["self"]
    is_static = all(isinstance(size, int) for size in shape_of(node))
    return node if node in buffers and len(shape_of(node)) == 4 and is_static else None


def rows_of(b: Builder, node: Node, head: int, end: Node) -> Node:
    """Returns the first rows of one head of a cache, [end, depth]."""
    if node.target is aten.mul.Tensor:
        elements, scales = (
            value_of(b, rows_of(b, bind(node)[name], head, end)) for name in ("self", "other")
        )
        return (elements * scales).node
    dtype = dtype_of(node)
    source = bind(node)["self"] if node.target is aten._to_copy.default else node
    _, _, length, depth = shape_of(source)
    all_heads = b.call(aten.view.default, source, [*shape_of(source)[1:]])
    one = b.call(aten.select.int, all_heads, 0, head, val=b.empty([length, depth], dtype_of(source)))
    part = value_of(b, first_rows(b, one, 0, end))
    if part.dtype == torch.int8:
        # as quantized values, they are an operand of a delegate
        floats = b.empty(shape_of(part.node), torch.float32)
        part = value_of(b, b.call(DEQUANTIZE, part.node, 1.0, 0, -128, 127, torch.int8, val=floats))
    return part.to(dtype).node
