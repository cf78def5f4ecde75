# SPDX-License-Identifier: Apache-2.0
"""Activation functions, and functions near zero; half precision in float32."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.elementary import expm1, log1p
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT
from delegatec.edge.legalize.rules.trigonometry import in_float32
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _gelu(builder: Builder, node: Node) -> Node | None:
    """Computes 0.5 x (1 + erf(x / sqrt(2))), half precision in float32."""
    bound = bind(node)
    if bound["approximate"] != "none":
        return None
    x = value_of(builder, bound["self"], dtype_of(node)).widened()
    return (x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1.0)).to(dtype_of(node)).node


def _leaky_relu(builder: Builder, node: Node) -> Node | None:
    """Computes max(x, slope x) for slopes up to one."""
    bound = bind(node)
    slope = bound["negative_slope"]
    if not 0 < slope <= 1:
        return None
    x = value_of(builder, bound["self"])
    return x.maximum(x * slope).node


def _elu(builder: Builder, node: Node) -> Node:
    """Computes scale x above zero, alpha scale (exp(input_scale x) - 1) below."""
    bound, dtype = bind(node), dtype_of(node)
    x = value_of(builder, bound["self"]).widened()
    below = expm1(x * bound["input_scale"]) * (bound["alpha"] * bound["scale"])
    return x.lt(0.0).where(below, x * bound["scale"]).to(dtype).node


REWRITES: Final = (
    Rewrite(aten.elu.default, _elu),
    Rewrite(aten.expm1.default, in_float32(expm1), (FLOAT_RESULT,)),
    Rewrite(aten.log1p.default, in_float32(log1p), (FLOAT_RESULT,)),
    Rewrite(aten.gelu.default, _gelu, note="by erf"),
    Rewrite(aten.leaky_relu.default, _leaky_relu, note="by maximum"),
)
