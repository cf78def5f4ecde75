# SPDX-License-Identifier: Apache-2.0
"""Conversions of 8-bit inputs, such as the pixels of a camera: quantized values with a scale of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dtypes import FLOATS
from delegatec.backends.xnnpack.quantized.scales import FULL_RANGE, int8, scale_of
from delegatec.backends.xnnpack.quantized.value_sets import MOVES
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import value_of
from delegatec.edge.quantization.constant import SHIFT
from delegatec.edge.quantization.operators import DEQUANTIZE
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten


def is_of_bytes(node: Node) -> bool:
    """Whether a call converts an input of a delegate that `REWRITES` dequantize, or a constant."""
    if node.target is not aten._to_copy.default or dtype_of(node) not in FLOATS:
        return False
    x = bind(node)["self"]
    # XNNPACK has no index_put: a cache with new rows is an input, too
    return (x.op == "placeholder" or x.target is aten.index_put.default) and dtype_of(x) in FULL_RANGE


def reads_one_scale(node: Node) -> bool:
    """Whether all calls that dequantize the operand of such a call have a scale of one, too."""
    x = bind(node)["self"]
    return set(_scales(x)) <= {int8(1.0, 0 if dtype_of(x) == torch.int8 else -SHIFT)}


def _scales(quantized: Node) -> Iterator[Quantization | None]:
    """Yields the scales of calls that dequantize quantized values, possibly after moves."""
    for user in quantized.users:
        if user.target is DEQUANTIZE:
            yield scale_of(user)
        elif user.target in MOVES:
            yield from _scales(user)


def _dequantized(builder: Builder, node: Node) -> Node | None:
    x, dtype = bind(node)["self"], dtype_of(node)
    if not is_of_bytes(node) or builder.facts.constant(x) is not None:
        return None
    value = node.meta["val"].to(torch.float32)
    floats = builder.call(DEQUANTIZE, x, 1.0, 0, *FULL_RANGE[dtype_of(x)], dtype_of(x), val=value)
    return value_of(builder, floats, dtype).node


REWRITES: Final = (
    Rewrite(
        aten._to_copy.default,
        _dequantized,
        note="inputs of int8 and uint8 are quantized values with a scale of 1",
    ),
)
