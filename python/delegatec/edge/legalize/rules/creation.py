# SPDX-License-Identifier: Apache-2.0
"""Tensors of one number, and conversions between integers, for targets that do both by way of float32."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import INTEGERS
from delegatec.edge.legalize.value import Value, full, table, value_of

aten = torch.ops.aten


def _filled(builder: Builder, node: Node) -> Node:
    """Returns the number in a complete shape; uninitialized memory is zero."""
    number = bind(node).get("fill_value", 0)
    return full(builder, shape_of(node), number, dtype_of(node)).node


def _expanded(builder: Builder, node: Node) -> Node:
    """Expands a constant of one element."""
    shape, dtype = shape_of(node), dtype_of(node)
    number = torch.tensor(bind(node)["fill_value"]).to(dtype)
    return table(builder, number.view((1,) * len(shape))).expand(*shape).node


def is_narrower(node: Node) -> bool:
    """Whether a conversion is to an integer dtype of fewer bits."""
    source, dtype = dtype_of(bind(node)["self"]), dtype_of(node)
    return {source, dtype} <= INTEGERS and dtype.itemsize < source.itemsize


def _wrapped(builder: Builder, node: Node) -> Node | None:
    """Takes integers modulo the range of a smaller dtype before the conversion."""
    if not is_narrower(node):
        return None
    dtype = dtype_of(node)
    x, sign = value_of(builder, bind(node)["self"]), 1 << dtype.itemsize * 8 - 1
    wrapped: Value = ((x & (2 * sign - 1)) ^ sign) - sign
    return wrapped.to(dtype).within(-sign, sign - 1).node


REWRITES: Final = (
    *(
        Rewrite(target, _filled, computes=False)
        for target in (aten.full_like.default, aten.empty.memory_format)
    ),
    Rewrite(aten.full.default, _expanded, note="a constant of one element, expanded", computes=False),
    Rewrite(
        aten._to_copy.default,
        _wrapped,
        note="integers wrap around before the conversion to fewer bits",
        computes=False,
    ),
)
