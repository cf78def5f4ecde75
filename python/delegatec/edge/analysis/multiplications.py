# SPDX-License-Identifier: Apache-2.0
"""The multiplications of layers and products: most of the work of most models."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

aten = torch.ops.aten

# Operator -> the position of the operand whose last dimension is summed over.
_PRODUCTS: Final = {
    **dict.fromkeys((aten.linear.default, aten.matmul.default, aten.mm.default, aten.bmm.default), 0),
    **dict.fromkeys((aten.addmm.default, aten.baddbmm.default), 1),
}
_TRANSPOSED: Final = frozenset(
    {aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input}
)
_CONVOLUTIONS: Final = _TRANSPOSED | {
    *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.convolution.default),
    *(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding),
}
# The position of `transposed` in the arguments of aten.convolution.
_IS_TRANSPOSED: Final = 6


def multiplications_of(node: Node) -> int:
    """Returns the number of multiplications of a layer or product; 0 for every other node.

    Args:
        node: a call with metadata; operands have theirs. Of dynamic sizes, those of the example count.
    """
    target: Any = node.target
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor):
        return 0
    count = elements_of(value)
    if target in _PRODUCTS:
        return count * _size(_operand(node, _PRODUCTS[target]).shape[-1])
    if target is aten.scaled_dot_product_attention.default:
        query, key = _operand(node, 0), _operand(node, 1)
        return _size(key.shape[-2]) * (elements_of(query) + count)
    if target not in _CONVOLUTIONS:
        return 0
    x, weight = _operand(node, 0), _operand(node, 1)
    is_transposed = target in _TRANSPOSED or (
        target is aten.convolution.default and bool(node.args[_IS_TRANSPOSED])
    )
    return (elements_of(x) if is_transposed else count) * math.prod(map(_size, weight.shape[1:]))


def elements_of(value: torch.Tensor) -> int:
    """Returns the number of elements of a tensor; of dynamic sizes, those of the example count."""
    return math.prod(map(_size, value.shape))


def _operand(node: Node, position: int) -> torch.Tensor:
    operand = node.args[position]
    assert isinstance(operand, Node)
    value = operand.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value


def _size(size: Any) -> int:
    """Returns a size; of a dynamic one, that of the example."""
    return size if isinstance(size, int) else int(size.node.hint or 1)
