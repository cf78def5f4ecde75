# SPDX-License-Identifier: Apache-2.0
"""Activation functions, for targets that lack them or some of their parameters."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.elementary import expm1
from delegatec.edge.legalize.rules.pointwise import FLOATS, INTEGER_RESULT, pointwise
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _gelu(builder: Builder, node: Node) -> Node | None:
    """Computes 0.5 x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2)))."""
    bound = bind(node)
    if bound["approximate"] != "tanh":
        return None
    x = value_of(builder, bound["self"])
    bend = x * x * 0.044715 + 1.0
    gate = (x * math.sqrt(2 / math.pi) * bend).tanh()
    return (x * ((gate + 1.0) * 0.5)).node


def _glu(builder: Builder, node: Node) -> Node:
    """Multiplies the first half by the sigmoid of the second."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dim = positive(bound["dim"], x.rank)
    first, second = x.split([x.shape[dim] // 2] * 2, dim)
    return (first * second.sigmoid()).node


def _leaky_relu(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    return x.lt(0.0).where(x * bound["negative_slope"], x).node


def _elu(builder: Builder, node: Node) -> Node:
    """Computes scale x above zero, alpha scale (exp(input_scale x) - 1) below."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    below = expm1(x * bound["input_scale"]) * (bound["alpha"] * bound["scale"])
    return x.lt(0.0).where(below, x * bound["scale"]).node


_FLOAT: Final = (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),)

REWRITES: Final = (
    Rewrite(
        aten.relu.default,
        pointwise(lambda x: x.clamp(0)),
        (INTEGER_RESULT,),
        note="a clamp for integers",
    ),
    Rewrite(aten.gelu.default, _gelu, _FLOAT, note="the tanh approximation"),
    Rewrite(aten.glu.default, _glu, _FLOAT),
    Rewrite(aten.leaky_relu.default, _leaky_relu, _FLOAT, note="by where"),
    Rewrite(
        aten.elu.default,
        _elu,
        _FLOAT,
        note="with a series near zero, where exp(x) - 1 loses the digits of x",
    ),
)
