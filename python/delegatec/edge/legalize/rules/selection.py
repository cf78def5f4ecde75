# SPDX-License-Identifier: Apache-2.0
"""Clamp and masked_fill, for targets that lack some forms of them."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import NUMBER_RESULT
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _clamp(builder: Builder, node: Node) -> Node:
    """Clamps; like ATen, returns the upper bound if the bounds are out of order."""
    bound, dtype = bind(node), dtype_of(node)
    x = value_of(builder, bound["self"], dtype)
    if any(isinstance(bound[name], float) and math.isnan(bound[name]) for name in ("min", "max")):
        return (x * math.nan).node
    for name, choose in (("min", Value.maximum), ("max", Value.minimum)):
        if bound[name] is not None:
            x = choose(x, value_of(builder, bound[name], dtype))
    return x.node


def _hardtanh(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    return value_of(builder, bound["self"]).clamp(bound["min_val"], bound["max_val"]).node


def _masked_fill(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"], dtype_of(node))
    return value_of(builder, bound["mask"], torch.bool).where(bound["value"], x).node


REWRITES: Final = (
    *(
        Rewrite(target, _clamp, (NUMBER_RESULT,), note="the maximum with one bound, then the minimum")
        for target in (aten.clamp.default, aten.clamp.Tensor)
    ),
    Rewrite(aten.hardtanh.default, _hardtanh),
    Rewrite(aten.masked_fill.Scalar, _masked_fill),
)
