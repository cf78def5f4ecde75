# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that a kernel rejects or computes wrongly to calls that the runtime's kernels support.

A rule applies to a call of an operator that has a kernel. Calls of the same operator that it emits are not
rewritten again. The docstring of a rule is the fault that it works around.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rule, RuleTable, merge
from delegatec.edge.legalize.rules import RULES
from delegatec.edge.legalize.rules.padding import without_negative
from delegatec.edge.legalize.rules.powers import power_by_scalar
from delegatec.edge.legalize.scalars import wrapped
from delegatec.program.kernels import empty, norms, pools, products, shifts, special_values

aten = torch.ops.aten


def _to(b: Builder, x: Any, target: torch.dtype) -> Any:
    """Converts `x` to another dtype."""
    return x if dtype_of(x) == target else b.call(aten._to_copy.default, x, dtype=target)


# --- dtypes


def _conjugate(_: Builder, node: Node) -> Node | None:
    """The kernel supports complex dtypes only."""
    x = node.args[0]
    assert isinstance(x, Node)
    return None if dtype_of(x).is_complex else x


def _promoted_first(b: Builder, node: Node) -> Node | None:
    """The kernel rejects a first operand whose dtype is not that of the result."""
    x, *rest = node.args
    assert isinstance(x, Node) and isinstance(node.target, OpOverload)
    if dtype_of(x) == dtype_of(node):
        return None
    return b.call(node.target, _to(b, x, dtype_of(node)), *rest, val=node.meta["val"], **node.kwargs)


def _cat(b: Builder, node: Node) -> Node | None:
    """The kernel copies the bytes of operands whose elements are as wide as those of the result.

    And see `empty.loses_size`.
    """
    a = bind(node)
    loses_size = empty.loses_size(node)
    if not loses_size and all(dtype_of(x) == dtype_of(node) for x in a["tensors"]):
        return None
    converted = [_to(b, x, dtype_of(node)) for x in a["tensors"]]
    joined = b.call(aten.cat.default, converted, a["dim"], val=node.meta["val"])
    # there are no elements, so that any view has them
    sizes = list(shape_of(node))
    return b.call(aten.view.default, joined, sizes, val=node.meta["val"]) if loses_size else joined


def _wrapped_scalars(*names: str) -> Rule:
    """Eager mode converts scalars to the dtype; kernels reject integers beyond it, and do not round."""

    def rule(b: Builder, node: Node) -> Node | None:
        if dtype_of(node) in (torch.bool, torch.float32, torch.float64):
            return None
        a = bind(node)
        converted = {name: _wrap(a[name], dtype_of(node)) for name in names}
        if all(converted[name] == a[name] or a[name] != a[name] for name in names):
            return None
        changed = {**a, **converted}
        assert isinstance(node.target, OpOverload)
        arguments = node.target._schema.arguments
        args = [changed[x.name] for x in arguments if not x.kwarg_only]
        kwargs = {x.name: changed[x.name] for x in arguments if x.kwarg_only and changed[x.name] is not None}
        return b.call(node.target, *args, val=node.meta["val"], **kwargs)

    return rule


def _wrap(scalar: Any, to: torch.dtype) -> Any:
    if to.is_floating_point:
        return float(torch.tensor(scalar, dtype=to)) if isinstance(scalar, float) else scalar
    if to is torch.bool or type(scalar) not in (int, float) or not math.isfinite(scalar):
        return scalar
    info = torch.iinfo(to)
    return scalar if info.min <= scalar <= info.max else wrapped(int(scalar), to)


# A difference of bytes is a sum with -1.
_wrapped_alpha = _wrapped_scalars("alpha")


def _sum(b: Builder, node: Node) -> Node | None:
    """The kernel sums int64 and float64 in float32; it aborts at a dimension that does not exist."""
    a = bind(node)
    x, dims, to = a["self"], a["dim"], a["dtype"]
    if dtype_of(x) is dtype_of(node) is torch.int64:
        total = b.call(
            aten.sum.dim_IntList, x, dims if shape_of(x) else [], a["keepdim"], dtype=torch.float64
        )
        return b.call(aten._to_copy.default, total, dtype=torch.int64, val=node.meta["val"])
    if dtype_of(x) is dtype_of(node) is torch.float64 and (count := _terms(x, node)):
        mean = b.call(aten.mean.dim, x, dims, a["keepdim"])
        return b.call(aten.mul.Scalar, mean, count, val=node.meta["val"])
    if dims and not shape_of(x):
        return b.call(aten.sum.dim_IntList, x, [], a["keepdim"], dtype=to, val=node.meta["val"])
    return None


def _terms(x: Node, total: Node) -> int:
    """Returns the number of terms per sum; 0 if it is dynamic."""
    sizes = [*shape_of(x), *shape_of(total)]
    if not all(isinstance(size, int) for size in sizes) or 0 in sizes:
        return 0
    return math.prod(shape_of(x)) // math.prod(shape_of(total))


def _remainder(b: Builder, node: Node) -> Any:
    """The kernel returns integer remainders with the sign of C, and computes float64 in float32."""
    assert isinstance(node.target, OpOverload)
    x, y = node.args
    if dtype_of(node) in (torch.float16, torch.bfloat16) and not isinstance(y, Node):
        # eager mode converts the scalar first
        divisor = b.call(aten.full.default, [1] * len(shape_of(node)), y, dtype=dtype_of(node))
        return b.call(aten.remainder.Tensor, x, divisor, val=node.meta["val"])
    if dtype_of(node) is not torch.float64:
        return RULES[node.target](b, node)
    if isinstance(y, Node):
        rest = b.call(aten.fmod.Tensor, x, y)
        turned = b.call(aten.add.Tensor, rest, y)
        is_other_side = b.call(aten.ne.Tensor, b.call(aten.lt.Scalar, rest, 0), b.call(aten.lt.Scalar, y, 0))
    else:
        scalar: Any = y
        rest = b.call(aten.fmod.Scalar, x, scalar)
        turned = b.call(aten.add.Scalar, rest, scalar)
        is_other_side = b.call(aten.lt.Scalar if scalar > 0 else aten.gt.Scalar, rest, 0)
    mask = b.call(aten.logical_and.default, b.call(aten.ne.Scalar, rest, 0), is_other_side)
    return b.call(aten.where.self, mask, turned, rest, val=node.meta["val"])


def _resized_bytes(b: Builder, node: Node) -> Node | None:
    """The kernel truncates bytes; eager mode rounds."""
    x, *rest = node.args
    assert isinstance(x, Node) and isinstance(node.target, OpOverload)
    if dtype_of(x) is not torch.uint8:
        return None
    fractions = b.call(node.target, _to(b, x, torch.float32), *rest, **node.kwargs)
    rounded = b.call(aten.clamp.default, b.call(aten.round.default, fractions), 0, 255)
    return b.call(aten._to_copy.default, rounded, dtype=torch.uint8, val=node.meta["val"])


# --- values


def _sign(b: Builder, node: Node) -> Node | None:
    """The sign of NaN is 0 in eager mode; the kernel propagates NaN."""
    x = node.args[0]
    assert isinstance(x, Node)
    if not dtype_of(x).is_floating_point or any(_masks_nan(user, x) for user in node.users):
        return None
    sign = b.call(aten.sign.default, x, val=node.meta["val"])
    return b.call(aten.masked_fill.Scalar, sign, b.call(aten.isnan.default, x), 0, val=node.meta["val"])


def _masks_nan(node: Node, x: Node) -> bool:
    mask = node.args[1] if node.target is aten.masked_fill.Scalar else None
    return isinstance(mask, Node) and mask.target is aten.isnan.default and mask.args[0] is x


def _scaled_sum(b: Builder, node: Node) -> Node | None:
    """If the first operand has one element and the second has more, the kernel scales the wrong one."""
    a = bind(node)
    x, y, alpha = a["self"], a["other"], a["alpha"]
    is_one = all(isinstance(size, int) and size == 1 for size in shape_of(x))
    if alpha == 1 or not is_one or not isinstance(y, Node):
        converted: Node | None = _wrapped_alpha(b, node)
        return converted
    if dtype_of(node) is torch.bool:
        return b.call(aten.add.Tensor, x, y, val=node.meta["val"]) if alpha else None
    scaled = b.call(aten.mul.Scalar, _to(b, y, dtype_of(node)), alpha)
    return b.call(aten.add.Tensor, x, scaled, val=node.meta["val"])


def _power(b: Builder, node: Node) -> Node | None:
    """The kernel takes 3 to 10 times as long as the products of eager mode; it rounds integers in float64."""
    a = bind(node)
    exponent = a["exponent"]
    if isinstance(exponent, Node) or dtype_of(a["self"]) != dtype_of(node):
        return None
    if not dtype_of(node).is_floating_point:
        return power_by_scalar(b, node)
    # eager mode rounds the powers of 16 bits once
    as_products = (2,) if dtype_of(node).itemsize == 2 else (-1, -0.5, 0.5, 2, 3)
    return power_by_scalar(b, node) if exponent in as_products else None


# --- shapes


def _linear(b: Builder, node: Node) -> Any:
    """The kernel rejects vectors, and does not write sums without terms."""
    a = bind(node)
    x = a["input"]
    if shape_of(a["weight"])[-1] == 0:
        return RULES[aten.linear.default](b, node)
    if len(shape_of(x)) != 1:
        return None
    row = b.call(aten.unsqueeze.default, x, 0)
    result = b.call(aten.linear.default, row, a["weight"], a["bias"])
    return b.call(aten.squeeze.dims, result, [0], val=node.meta["val"])


def _pad(b: Builder, node: Node) -> Node | None:
    """The kernel rejects negative amounts, which crop, and integers that the dtype does not hold."""
    a = bind(node)
    value = _wrap(a["value"], dtype_of(node))
    is_held = value == a["value"] or a["value"] != a["value"]
    if is_held and not any(isinstance(amount, int) and amount < 0 for amount in a["pad"]):
        return None
    x, pairs = without_negative(b, node)
    return x.pad([amount for pair in pairs for amount in pair], value).node


def _roll(b: Builder, node: Node) -> Node | None:
    """The kernel requires dimensions; without them, eager mode rolls the flattened tensor."""
    a = bind(node)
    sizes = list(shape_of(node))
    if a["dims"]:
        return None
    flat = b.call(aten.view.default, a["self"], [math.prod(sizes)])
    rolled = b.call(aten.roll.default, flat, a["shifts"], [0])
    return b.call(aten.view.default, rolled, sizes, val=node.meta["val"])


REWRITES: RuleTable = merge(
    norms.RULES,
    pools.RULES,
    products.RULES,
    shifts.RULES,
    special_values.RULES,
    empty.RULES,
    dict.fromkeys((aten.remainder.Scalar, aten.remainder.Tensor), _remainder),
    dict.fromkeys((aten._upsample_bilinear2d_aa.default, aten.upsample_bilinear2d.vec), _resized_bytes),
    {
        aten._conj_physical.default: _conjugate,
        aten.add.Scalar: _promoted_first,
        aten.add.Tensor: _scaled_sum,
        aten.cat.default: _cat,
        aten.clamp.default: _wrapped_scalars("min", "max"),
        aten.constant_pad_nd.default: _pad,
        aten.fmod.Scalar: _wrapped_scalars("other"),
        aten.full.default: _wrapped_scalars("fill_value"),
        aten.linear.default: _linear,
        # the kernel aborts at negative positions
        aten.narrow_copy.default: RULES[aten.narrow_copy.default],
        aten.pow.Tensor_Scalar: _power,
        aten.roll.default: _roll,
        aten.sign.default: _sign,
        aten.sub.Tensor: _wrapped_alpha,
        aten.sum.dim_IntList: _sum,
    },
)
