# SPDX-License-Identifier: Apache-2.0
"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.rules.exponentials import expm1
from delegatec.edge.legalize.rules.pointwise import FLOATS, INTEGER_RESULT, in_float32, pointwise
from delegatec.edge.legalize.rules.special import erf
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

# ---- normal form -----------------------------------------------------------------------------------------


def _relu6(b: Builder, node: Node) -> Node:
    return b.call(aten.hardtanh.default, node.args[0], 0, 6, val=node.meta["val"])


def _clamped_integers(b: Builder, node: Node) -> Node | None:
    """Truncates the bounds of integers, as eager mode does; the runtime's kernel rejects others."""
    x, *bounds = bind(node).values()
    if dtype_of(x).is_floating_point or not all(
        isinstance(each, Node) or math.isfinite(each) for each in bounds
    ):
        return None
    whole = (each if isinstance(each, Node) else int(each) for each in bounds)
    return b.call(aten.clamp.default, x, *whole, val=node.meta["val"])


def _silu(b: Builder, node: Node) -> Node:
    """Computes x * sigmoid(x); in float32 for float16, in which the sigmoid is 0 below -17."""
    x = value_of(b, bind(node)["self"])
    if x.dtype == torch.float16:
        wide = x.to(torch.float32)
        return (wide * wide.sigmoid()).to(torch.float16).node
    return (x * x.sigmoid()).node


def _hard_gate(b: Builder, node: Node) -> Node:
    """Computes hardsigmoid(x) = relu6(x + 3) / 6, and hardswish(x) = x * relu6(x + 3) / 6."""
    x = node.args[0]
    gate = b.call(aten.hardtanh.default, b.call(aten.add.Scalar, x, 3), 0, 6)
    if node.target is aten.hardsigmoid.default:
        return b.call(aten.div.Scalar, gate, 6, val=node.meta["val"])
    if dtype_of(node) == torch.float16:  # x * 6 may exceed its range
        return b.call(aten.mul.Tensor, x, b.call(aten.div.Scalar, gate, 6), val=node.meta["val"])
    return b.call(aten.div.Scalar, b.call(aten.mul.Tensor, x, gate), 6, val=node.meta["val"])


def _rrelu(b: Builder, node: Node) -> Node | None:
    """Replaces the random slope by its mean, as torch does outside of training."""
    a = bind(node)
    if a["training"]:
        return None
    return b.call(aten.leaky_relu.default, a["self"], (a["lower"] + a["upper"]) / 2, val=node.meta["val"])


def _threshold(b: Builder, node: Node) -> Node | None:
    """Truncates the threshold and the value of integers, as eager mode does; floats would promote them."""
    x, *bounds = bind(node).values()
    is_done = all(isinstance(each, int) for each in bounds)
    if dtype_of(x).is_floating_point or is_done or not all(map(math.isfinite, bounds)):
        return None
    return b.call(aten.threshold.default, x, *map(int, bounds), val=node.meta["val"])


# ---- for targets that lack them, or some of their parameters ---------------------------------------------


def _gelu_by_tanh(x: Value, approximate: str) -> Value | None:
    """Computes 0.5 x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2)))."""
    if approximate != "tanh":
        return None
    bend = x * x * 0.044715 + 1.0
    gate = (x * math.sqrt(2 / math.pi) * bend).tanh()
    return x * ((gate + 1.0) * 0.5)


def _gelu_by(erf: Callable[[Value], Value]) -> Callable[[Value, str], Value | None]:
    """Returns a function that computes 0.5 x (1 + erf(x / sqrt(2)))."""

    def gelu(x: Value, approximate: str) -> Value | None:
        return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0) if approximate == "none" else None

    return gelu


def _glu(x: Value, dim: int) -> Value:
    """Multiplies the first half by the sigmoid of the second."""
    dim = positive(dim, x.rank)
    first, second = x.split([x.shape[dim] // 2] * 2, dim)
    return first * second.sigmoid()


def _leaky_relu_by_maximum(x: Value, slope: float) -> Value | None:
    """Computes max(x, slope x) for slopes up to one."""
    return x.maximum(x * slope) if 0 < slope <= 1 else None


def _leaky_relu(x: Value, slope: float) -> Value:
    return x.gt(0.0).where(x, x * slope)


def _elu(x: Value, alpha: float, scale: float, input_scale: float) -> Value:
    """Computes scale x above zero, alpha scale (exp(input_scale x) - 1) below."""
    below = expm1(x * input_scale) * (alpha * scale)
    return x.lt(0.0).where(below, x * scale)


_FLOAT: Final = (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),)
LEAKY_RELU: Final = Rewrite(aten.leaky_relu.default, pointwise(_leaky_relu), _FLOAT, note="by where")

RULES: RuleTable = {
    aten.hardsigmoid.default: _hard_gate,
    aten.hardswish.default: _hard_gate,
    aten.hardtanh.default: _clamped_integers,
    aten.relu6.default: _relu6,
    aten.rrelu.default: _rrelu,
    aten.silu.default: _silu,
    aten.threshold.default: _threshold,
}

REWRITES: Final = (
    Rewrite(
        aten.relu.default,
        pointwise(lambda x: x.clamp(0)),
        (INTEGER_RESULT,),
        note="a clamp for integers",
    ),
    Rewrite(aten.gelu.default, pointwise(_gelu_by_tanh), _FLOAT, note="the tanh approximation"),
    Rewrite(aten.glu.default, pointwise(_glu), _FLOAT),
    LEAKY_RELU,
    Rewrite(
        aten.elu.default,
        pointwise(_elu),
        _FLOAT,
        note="with a series near zero, where exp(x) - 1 loses the digits of x",
    ),
    Rewrite(aten.hardtanh.default, pointwise(lambda x, low, high: x.clamp(low, high))),
)

ELU_IN_FLOAT32: Final = Rewrite(aten.elu.default, in_float32(_elu))
GELU_BY_ERF: Final = Rewrite(aten.gelu.default, in_float32(_gelu_by(Value.erf)), note="by erf")
GELU_BY_EXP: Final = Rewrite(aten.gelu.default, pointwise(_gelu_by(erf)), _FLOAT, note="with erf to 1.5e-7")
LEAKY_RELU_BY_MAXIMUM: Final = Rewrite(
    aten.leaky_relu.default, pointwise(_leaky_relu_by_maximum), note="by maximum"
)
