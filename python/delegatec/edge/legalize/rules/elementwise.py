# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators as operators that the runtime has kernels for."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rule, RuleTable

aten = torch.ops.aten


def _renamed(target: OpOverload) -> Rule:
    """Returns a rule that replaces an operator by its core name."""

    def rule(b: Builder, node: Node) -> Node:
        return b.call(target, *node.args, val=node.meta["val"], **node.kwargs)

    return rule


def _to(b: Builder, node: Node) -> Node:
    """Replaces the overloads of `to`, which can only change the dtype here."""
    return b.call(aten._to_copy.default, node.args[0], dtype=dtype_of(node), val=node.meta["val"])


def _scalar_overload(scalar: OpOverload) -> Rule:
    """Returns a rule for a number instead of a tensor: the overload for numbers."""

    def rule(b: Builder, node: Node) -> Node | None:
        other = node.args[1]
        if isinstance(other, Node) and isinstance(other.meta["val"], torch.Tensor):
            return None
        x, *others = node.args
        assert isinstance(x, Node)
        if dtype_of(x) != dtype_of(node):
            # the runtime's kernels do not promote an integer next to a fraction
            x = b.call(aten._to_copy.default, x, dtype=dtype_of(node))
        return b.call(scalar, x, *others, val=node.meta["val"], **node.kwargs)

    return rule


def _item(b: Builder, node: Node) -> Node:
    """Reads the number of a tensor; traced, it would be another symbol."""
    return b.call(aten._local_scalar_dense.default, node.args[0], val=node.meta["val"])


def _relu6(b: Builder, node: Node) -> Node:
    return b.call(aten.hardtanh.default, node.args[0], 0, 6, val=node.meta["val"])


def _silu(b: Builder, node: Node) -> Node:
    x = node.args[0]
    return b.call(aten.mul.Tensor, x, b.call(aten.sigmoid.default, x), val=node.meta["val"])


def _hard_gate(b: Builder, node: Node) -> Node:
    """Computes hardsigmoid(x) = relu6(x + 3) / 6, and hardswish(x) = x * hardsigmoid(x)."""
    x = node.args[0]
    gate = b.call(aten.hardtanh.default, b.call(aten.add.Scalar, x, 3), 0, 6)
    if node.target is aten.hardswish.default:
        gate = b.call(aten.mul.Tensor, x, gate)
    return b.call(aten.div.Scalar, gate, 6, val=node.meta["val"])


def _integer_addcmul(b: Builder, node: Node) -> Node | None:
    """Truncates the factor of integers, as eager mode does; torch's decomposition rejects a fraction."""
    a = bind(node)
    if dtype_of(node).is_floating_point or dtype_of(node).is_complex or isinstance(a["value"], int):
        return None
    operands = a["self"], a["tensor1"], a["tensor2"]
    return b.call(aten.addcmul.default, *operands, value=int(a["value"]), val=node.meta["val"])


def _lerp(b: Builder, node: Node) -> Node | None:
    """Interpolates from the end that is nearer, as eager mode does."""
    a = bind(node)
    if dtype_of(node) not in (torch.float32, torch.float64):
        return None
    start, end, weight = a["self"], a["end"], a["weight"]
    difference = b.call(aten.sub.Tensor, end, start)
    if not isinstance(weight, Node):
        rounded = torch.tensor(weight, dtype=dtype_of(node))
        is_far = bool(rounded.abs() >= 0.5)
        product = b.call(aten.mul.Scalar, difference, (rounded - 1 if is_far else rounded).item())
        return b.call(aten.add.Tensor, product, end if is_far else start, val=node.meta["val"])
    far = b.call(aten.ge.Scalar, b.call(aten.abs.default, weight), 0.5)
    weight = b.call(aten.where.self, far, b.call(aten.sub.Scalar, weight, 1), weight)
    near = b.call(aten.where.self, far, end, start)
    product = b.call(aten.mul.Tensor, weight, difference)
    return b.call(aten.add.Tensor, product, near, val=node.meta["val"])


def _rrelu(b: Builder, node: Node) -> Node | None:
    """Replaces the random slope by its mean, as torch does outside of training."""
    a = bind(node)
    if a["training"]:
        return None
    return b.call(aten.leaky_relu.default, a["self"], (a["lower"] + a["upper"]) / 2, val=node.meta["val"])


def _rsub(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    if a["alpha"] != 1:
        return None
    return b.call(aten.sub.Tensor, a["other"], a["self"], val=node.meta["val"])


def _integer_remainder(b: Builder, node: Node) -> Node | None:
    """Computes the remainder with the sign of the divisor; the runtime's kernel returns that of C."""
    if dtype_of(node).is_floating_point or dtype_of(node) is torch.uint8:
        return None
    a = bind(node)
    quotient = b.call(aten.div.Tensor_mode, a["self"], a["other"], rounding_mode="floor")
    return b.call(aten.sub.Tensor, a["self"], b.call(aten.mul.Tensor, quotient, a["other"]))


def _clamp(b: Builder, node: Node) -> Node:
    a: dict[str, Any] = bind(node)
    return b.call(aten.clamp.default, a["self"], a.get("min"), a.get("max"), val=node.meta["val"])


def _arange(b: Builder, node: Node) -> Node:
    a = bind(node)
    start, step = a.get("start") or 0, a.get("step") or 1
    return b.call(aten.arange.start_step, start, a["end"], step, dtype=dtype_of(node), val=node.meta["val"])


def _threshold(b: Builder, node: Node) -> Node | None:
    """Truncates the threshold of integers, as eager mode does."""
    x, threshold, value = bind(node).values()
    if dtype_of(x).is_floating_point or isinstance(threshold, int) or not math.isfinite(threshold):
        return None
    return b.call(aten.threshold.default, x, int(threshold), value, val=node.meta["val"])


def _linspace(b: Builder, node: Node) -> Node | None:
    """Converts bools, which torch's decomposition subtracts."""
    start, end, *rest = node.args
    if not isinstance(start, bool) and not isinstance(end, bool):
        return None
    ends = [int(each) if isinstance(each, bool) else each for each in (start, end)]
    return b.call(aten.linspace.default, *ends, *rest, val=node.meta["val"], **node.kwargs)


RULES: RuleTable = {
    aten.__and__.Tensor: _renamed(aten.bitwise_and.Tensor),
    aten.__or__.Tensor: _renamed(aten.bitwise_or.Tensor),
    aten.__xor__.Tensor: _renamed(aten.bitwise_xor.Tensor),
    aten.__lshift__.Scalar: _renamed(aten.bitwise_left_shift.Tensor_Scalar),
    aten.__lshift__.Tensor: _renamed(aten.bitwise_left_shift.Tensor),
    aten.__rshift__.Scalar: _renamed(aten.bitwise_right_shift.Tensor_Scalar),
    aten.__rshift__.Tensor: _renamed(aten.bitwise_right_shift.Tensor),
    **dict.fromkeys(
        (aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.to.other, aten.type_as.default), _to
    ),
    aten.add.Tensor: _scalar_overload(aten.add.Scalar),
    aten.sub.Tensor: _scalar_overload(aten.sub.Scalar),
    aten.mul.Tensor: _scalar_overload(aten.mul.Scalar),
    aten.div.Tensor: _scalar_overload(aten.div.Scalar),
    aten.div.Tensor_mode: _scalar_overload(aten.div.Scalar_mode),
    aten.addcmul.default: _integer_addcmul,
    aten.arange.default: _arange,
    aten.arange.start: _arange,
    aten.linspace.default: _linspace,
    aten.threshold.default: _threshold,
    aten.clamp_min.default: _clamp,
    aten.clamp_max.default: _clamp,
    aten.hardsigmoid.default: _hard_gate,
    aten.hardswish.default: _hard_gate,
    aten.item.default: _item,
    **dict.fromkeys((aten.lerp.Scalar, aten.lerp.Tensor), _lerp),
    aten.relu6.default: _relu6,
    aten.remainder.Scalar: _integer_remainder,
    aten.remainder.Tensor: _integer_remainder,
    aten.rrelu.default: _rrelu,
    aten.rsub.Tensor: _rsub,
    aten.silu.default: _silu,
}
