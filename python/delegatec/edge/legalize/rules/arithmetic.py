# SPDX-License-Identifier: Apache-2.0
"""Sums, differences, products and interpolations."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import FunctionTable, Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules.pointwise import INTEGER_RESULT
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def scalar_overload(scalar: OpOverload) -> Rule:
    """Returns a rule for a scalar instead of a tensor: the overload for scalars."""

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


def _sub(b: Builder, node: Node) -> Node | None:
    """Subtracts from or by a scalar; the first operand is a number where torch decomposes an operator."""
    bound = bind(node)
    if isinstance(bound["self"], Node) or bound["alpha"] != 1:
        found: Node | None = _sub_scalar(b, node)
        return found
    return b.call(aten.rsub.Scalar, bound["other"], bound["self"], val=node.meta["val"])


_sub_scalar: Final = scalar_overload(aten.sub.Scalar)


def _rsub(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    if a["alpha"] != 1:
        return None
    return b.call(aten.sub.Tensor, a["other"], a["self"], val=node.meta["val"])


def promoted(x: Tensor, y: Any) -> tuple[Tensor, Tensor]:
    """Converts two operands to the dtype of their result."""
    dtype = torch.result_type(x, y)
    other = y if isinstance(y, Tensor) else torch.full([], y, dtype=dtype)
    return x.to(dtype), other.to(dtype)


def _addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = torch.bmm(batch1, batch2).sum(0, dtype=x.dtype)
    if not x.is_floating_point() and not x.is_complex():
        alpha, beta = int(alpha), int(beta)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (x if beta == 1 else x * beta) + scaled


def _trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    """Sums the product of three unsqueezed tensors; keeps the dtype of small integers."""
    for dim in expand1:
        a = a.unsqueeze(dim)
    for dim in expand2:
        b = b.unsqueeze(dim)
    for dim in expand3:
        c = c.unsqueeze(dim)
    product = a * b * c
    return product.sum(sumdim, dtype=product.dtype)


def _sum(builder: Builder, node: Node) -> Node | None:
    """Multiplies by alpha before the sum or difference."""
    bound, dtype = bind(node), dtype_of(node)
    first, second, alpha = bound.values()
    if alpha == 1:
        return None
    if node.target is aten.rsub.Scalar:
        first, second = second, first
    scaled = value_of(builder, second, dtype) * alpha
    added = value_of(builder, first, dtype)
    is_sum = node.target in (aten.add.Scalar, aten.add.Tensor)
    result: Value = added + scaled if is_sum else added - scaled
    return result.node


RULES: RuleTable = {
    aten.add.Tensor: scalar_overload(aten.add.Scalar),
    aten.sub.Tensor: _sub,
    aten.mul.Tensor: scalar_overload(aten.mul.Scalar),
    aten.div.Tensor: scalar_overload(aten.div.Scalar),
    aten.addcmul.default: _integer_addcmul,
    **dict.fromkeys((aten.lerp.Scalar, aten.lerp.Tensor), _lerp),
    aten.rsub.Tensor: _rsub,
}

FUNCTIONS: FunctionTable = {
    aten._trilinear.default: _trilinear,
    aten.addbmm.default: _addbmm,
}

REWRITES: Final = tuple(
    Rewrite(target, _sum, (INTEGER_RESULT,), note="the product with alpha first")
    for target in (aten.add.Scalar, aten.add.Tensor, aten.sub.Scalar, aten.sub.Tensor, aten.rsub.Scalar)
)
