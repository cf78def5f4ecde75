# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices, or batches of them, that have one scale each."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.arm.dialect import INT48, TOSA
from delegatec.backends.arm.integer.accumulators import finished
from delegatec.backends.arm.integer.conversion import Conversion
from delegatec.backends.arm.integer.values import Fixed, Quantized, UnsupportedError
from delegatec.edge.arguments import shape_of
from delegatec.edge.legalize.value import Value, cat
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

_MOST: Final = (1 << 31) - 1
_MOST_PRODUCTS: Final = 1 << 18
"""Products of elements that are stored at once: one MiB."""
_MOST_PARTS: Final = 256
"""Groups of rows, each with a multiplication and a sum."""


def matrices(conversion: Conversion, x: Node, y: Node, node: Node, is_final: bool = True) -> Quantized:
    """Returns the product of two matrices, or of two batches of them.

    Args:
        conversion: the state.
        x: the first.
        y: the second.
        node: the product.
        is_final: whether it is the value of the node, rather than a part of it.

    Raises:
        UnsupportedError: one of them is not quantized, or the target cannot multiply them.
    """
    found = []
    for operand in (x, y):
        value = conversion.of(operand)
        if isinstance(value, Fixed):
            if value.parameters is None or value.parameters.axis is not None:
                raise UnsupportedError(f"the matrix {operand.name} is not quantized with one scale")
            found.append(conversion.quantized(value, value.parameters))
        else:
            found.append(conversion.narrow(value, operand))
    first, second = found
    if first.dtype != second.dtype:
        first, second = (_as_int16(conversion, each) for each in found)
    result = finished(conversion, product(conversion, first, second), node if is_final else None)
    builder = conversion.arithmetic.builder
    return replace(result, node=Value(builder, result.node).view(*shape_of(node)).node)


def product(conversion: Conversion, first: Quantized, second: Quantized) -> Quantized:
    """Returns accumulators for the products of two batches of matrices of one dtype, [N, H, C] and [N, C, W].

    Raises:
        UnsupportedError: the target cannot multiply them.
    """
    if first.dtype == torch.int16 and not conversion.arithmetic.wide_products:
        return _elementwise(conversion, first, second)
    return _multiplied(conversion, first, second)


def _batches(conversion: Conversion, *quantized: Quantized) -> list[Value]:
    """Returns batches of matrices; one matrix is a batch."""
    values = [Value(conversion.arithmetic.builder, each.node) for each in quantized]
    return [each.view(1, *each.shape) if each.rank == 2 else each for each in values]


def _multiplied(conversion: Conversion, first: Quantized, second: Quantized) -> Quantized:
    one, two = _batches(conversion, first, second)
    dtype = torch.int32 if first.dtype == torch.int8 else INT48
    size = (*one.shape[:2], two.shape[2])
    product = conversion.arithmetic.call(
        TOSA.matmul.default, one.node, two.node, first.zero, second.zero, dtype=dtype, shape=size
    )
    limit = min(first.limit * second.limit * one.shape[2], _MOST if dtype == torch.int32 else 1 << 47)
    return Quantized(product, (first.scale[0] * second.scale[0],), 0, limit)


def _elementwise(conversion: Conversion, first: Quantized, second: Quantized) -> Quantized:
    """Multiplies every row with every column, and adds the products of each pair.

    Products have 30 bits, and lose as many of the last ones as the sum needs.
    """
    arithmetic = conversion.arithmetic
    wide = [arithmetic.wide(each, 16) for each in (first, second)]
    if wide[0].limit * wide[1].limit > _MOST:
        wide = [arithmetic.wide(each, 15) for each in wide]
    one, two = _batches(conversion, *wide)
    batch, rows, count = one.shape
    columns = two.shape[2]
    size = batch * columns * count
    most = max(1, _MOST_PRODUCTS // size)
    if -(-rows // most) > _MOST_PARTS:
        raise UnsupportedError(f"a product of int16 matrices with {rows * size} products of elements")
    two = two.permute(0, 2, 1).view(batch, 1, columns, count)
    limit = wide[0].limit * wide[1].limit
    scale = wide[0].scale[0] * wide[1].scale[0]
    sums = []
    for start in range(0, rows, most):
        part = one.slice(1, start, min(start + most, rows))
        part = part.view(batch, part.shape[1], 1, count)
        products = Quantized((part * two).node, (scale,), 0, limit)
        terms = arithmetic.wide(products, 30 - (count - 1).bit_length())
        sums.append(Value(one.builder, terms.node).sum([3]))
    return Quantized(cat(sums, 1).node, terms.scale, 0, terms.limit * count)


def _as_int16(conversion: Conversion, quantized: Quantized) -> Quantized:
    if quantized.dtype == torch.int16:
        return quantized
    return conversion.quantized(quantized, Quantization.full_range(torch.int16, *quantized.scale))
