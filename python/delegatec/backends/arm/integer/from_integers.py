# SPDX-License-Identifier: Apache-2.0
"""Integers and bools that are converted to floating point: quantized values with the scale 1."""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.backends.arm.integer.conversion import Conversion
from delegatec.backends.arm.integer.quantized_regions import is_float
from delegatec.backends.arm.integer.values import Quantized
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.quantization.constant import INTEGERS
from delegatec.edge.quantization.operators import QUANTIZING

aten = torch.ops.aten


def is_quantized_integer(conversion: Conversion, node: Node) -> bool:
    """Whether a call converts integers only to quantize them."""
    if node.target is not aten._to_copy.default or not all(user.target in QUANTIZING for user in node.users):
        return False
    (source,) = node.all_input_nodes
    return dtype_of(source) in INTEGERS and is_float(node) and conversion.constant(source) is None


def integer(conversion: Conversion, node: Node) -> Quantized:
    """Returns the result of a call in `is_quantized_integer`."""
    return integer_values(conversion, node.all_input_nodes[0])


def integer_values(conversion: Conversion, node: Node) -> Quantized:
    """Returns integers as quantized values; int64 as int32, its dtype in a graph."""
    found = conversion.node(node)
    if dtype_of(found) == torch.int64:
        val = conversion.arithmetic.builder.empty(shape_of(found), torch.int32)
        found = conversion.arithmetic.builder.call(aten._to_copy.default, found, dtype=torch.int32, val=val)
    source = conversion.arithmetic.signed(found)
    zero = -128 if dtype_of(node) == torch.uint8 else 0
    limits = torch.iinfo(dtype_of(source))
    return Quantized(source, (1.0,), zero, max(limits.max - zero, zero - limits.min))


def is_mask(node: Node) -> bool:
    """Whether a call converts bools."""
    is_copy = node.target is aten._to_copy.default
    return is_copy and dtype_of(node.all_input_nodes[0]) == torch.bool and is_float(node)


def mask(conversion: Conversion, node: Node) -> Quantized:
    """Returns the result of a call in `is_mask`."""
    builder = conversion.arithmetic.builder
    source, val = conversion.node(node.args[0]), builder.empty(shape_of(node), torch.int8)
    return Quantized(builder.call(aten._to_copy.default, source, dtype=torch.int8, val=val), (1.0,), 0, 1)
