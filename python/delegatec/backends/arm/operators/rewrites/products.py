# SPDX-License-Identifier: Apache-2.0
"""Products of matrices with a sum."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _sum(builder: Builder, node: Node) -> Node:
    """Computes beta self + alpha (mat1 mat2); ignores an operand whose factor is zero, as eager mode does."""
    bound, dtype = bind(node), dtype_of(node)
    first, second = (value_of(builder, bound[name]) for name in ("mat1", "mat2"))
    product = _scaled(first @ second, bound["alpha"])
    if bound["beta"] == 0:
        return product.node
    return (product + _scaled(value_of(builder, bound["self"], dtype), bound["beta"])).node


def _scaled(x: Value, factor: float) -> Value:
    return x if factor == 1 else x * factor


REWRITES: Final = (Rewrite(aten.addmm.default, _sum),)
