# SPDX-License-Identifier: Apache-2.0
"""Moves quantization from between a matrix product and the views around it to the other side of the views.

Quantizers observe the operands and the result of a product, which a model computes on flattened rows or
batches. `unflatten_linear` and `unflatten_bmm` find views next to products only.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

aten = torch.ops.aten

_PRODUCTS: Final = (aten.linear.default, aten.mm.default, aten.addmm.default, aten.bmm.default)


def quantize_outside_views(program: EdgeProgram) -> bool:
    """Quantizes before views that merge several dynamic sizes, and after those that separate them.

    Values of one scale are the same on both sides of a view.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    before = rewrite(program, {DEQUANTIZE: _before})
    return rewrite(program, {aten.view.default: _after}) or before


def _before(b: Builder, node: Node) -> Node | None:
    view = _quantized(node)
    if view is None or view.target is not aten.view.default:
        return None
    if not any(user.target in _PRODUCTS for user in node.users) or not _merges(_source(view), view):
        return None
    return b.call(aten.view.default, _again(b, node, _source(view)), view.args[1])


def _after(b: Builder, node: Node) -> Node | None:
    source = _source(node)
    product = _quantized(source)
    if product is None or product.target not in _PRODUCTS or len(product.users) != 1:
        return None
    if not _merges(node, product):
        return None
    return _again(b, source, b.call(aten.view.default, product, node.args[1]))


def _quantized(node: Node) -> Node | None:
    """Returns the value that a call dequantizes, before it was quantized with the same parameters."""
    if node.target is not DEQUANTIZE:
        return None
    source: Node = bind(node)["input"]
    is_pair = source.target is QUANTIZE and [*bind(source).values()][1:] == [*bind(node).values()][1:6]
    return bind(source)["input"] if is_pair else None


def _again(b: Builder, node: Node, x: Node) -> Node:
    """Quantizes and dequantizes another value as a call does, and the one of which it reads the result."""
    source: Node = bind(node)["input"]
    return b.call(DEQUANTIZE, b.call(QUANTIZE, x, *source.args[1:]), *node.args[1:], **node.kwargs)


def _source(view: Node) -> Node:
    source: Node = bind(view)["self"]
    return source


def _merges(first: Node, second: Node) -> bool:
    """Whether several sizes of a value are dynamic, and a value with its elements has fewer dimensions."""
    sizes = shape_of(first)
    return len(sizes) > len(shape_of(second)) and sum(not isinstance(each, int) for each in sizes) > 1
