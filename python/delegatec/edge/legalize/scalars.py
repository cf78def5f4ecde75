# SPDX-License-Identifier: Apache-2.0
"""Conversion of scalars to the dtype of the computation.

A number, or a 0-d tensor, does not promote a tensor of the same category. Eager mode adds a 0-d float32 to a
float16 in float16. It converts 263 to 7 if the tensor is int8, also to compare with it. Kernels and backends
promote by dtypes alone, and rules calculate with a number as it is.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, promoted
from delegatec.edge.builder import Builder

aten = torch.ops.aten

_Names = dict[OpOverloadPacket[..., Any], tuple[str, ...]]

_INTEGERS: Final = (torch.uint8, torch.int8, torch.int16, torch.int32)
"""The dtypes that do not hold every integer of a graph."""

_BINARY: Final = (
    *(aten.add, aten.sub, aten.mul, aten.div, aten.floor_divide, aten.fmod, aten.remainder),
    *(aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge),
    *(aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor),
    *(aten.bitwise_left_shift, aten.bitwise_right_shift, aten.__lshift__, aten.__rshift__),
    aten.where,
)

_ISIN: Final = ("elements", "element", "test_elements", "test_element")

# The exponent of a power and the ends of a range do not wrap around: eager mode rejects the one, and counts
# to the others in int64.
_NUMBERS: Final[_Names] = {
    aten.isin: _ISIN,
    **dict.fromkeys(_BINARY, ("self", "other")),
    **dict.fromkeys((aten.__and__, aten.__or__, aten.__xor__), ("self", "other")),
    **dict.fromkeys((aten.add, aten.sub, aten.rsub), ("self", "other", "alpha")),
    **dict.fromkeys((aten.clamp, aten.clamp_min, aten.clamp_max), ("min", "max")),
    **dict.fromkeys((aten.full, aten.full_like, aten.new_full), ("fill_value",)),
    **dict.fromkeys((aten.fill, aten.masked_fill, aten.index_fill, aten.scatter), ("value",)),
    **dict.fromkeys((aten.addcmul, aten.constant_pad_nd), ("value",)),
    **dict.fromkeys((aten.addmm, aten.addmv, aten.addr, aten.addbmm, aten.baddbmm), ("beta", "alpha")),
    aten.pow: ("self",),
    aten.threshold: ("threshold", "value"),
}
_TENSORS: Final[_Names] = {
    aten.isin: _ISIN,
    **dict.fromkeys(_BINARY, ("self", "other")),
    **dict.fromkeys((aten.maximum, aten.minimum, aten.fmax, aten.fmin), ("self", "other")),
    **dict.fromkeys((aten.atan2, aten.copysign, aten.hypot, aten.nextafter), ("self", "other")),
    **dict.fromkeys((aten.logaddexp, aten.logaddexp2, aten.xlogy), ("self", "other")),
    **dict.fromkeys((aten.gcd, aten.lcm), ("self", "other")),
    aten.clamp: ("self", "min", "max"),
    aten.pow: ("self", "exponent"),
}


def wrapped(number: int, dtype: torch.dtype) -> int:
    """Returns an integer modulo the range of a dtype of integers."""
    info = torch.iinfo(dtype)
    return (number - info.min) % (info.max - info.min + 1) + info.min


def has_other_scalars(node: Node) -> bool:
    """Whether a scalar among the arguments of a call is not in the dtype of its computation."""
    return bool(_wrapped_scalars(node) or _tensors(node))


def convert_scalars(builder: Builder, node: Node) -> Node:
    """Repeats a call with scalars in the dtype of its computation."""
    assert isinstance(node.target, OpOverload)
    arguments, schema = {**bind(node), **_wrapped_scalars(node)}, node.target._schema.arguments
    for name, dtype in _tensors(node).items():
        arguments[name] = builder.call(aten._to_copy.default, arguments[name], dtype=dtype)
    args = [arguments[each.name] for each in schema if not each.kwarg_only]
    kwargs = {name: arguments[name] for name in node.kwargs}
    return builder.call(node.target, *args, val=node.meta["val"], **kwargs)


def _wrapped_scalars(node: Node) -> dict[str, int]:
    """Returns the integers that wrap around, by name, as what they become."""
    names = _named(node, _NUMBERS)
    if not names or not any(type(each) is int for each in (*node.args, *node.kwargs.values())):
        return {}
    bound = bind(node)
    operands = {name: bound[name] for name in names if name in bound}
    is_comparison = dtype_of(node) == torch.bool and len(operands) == 2
    dtype = promoted([*operands.values()]) if is_comparison else dtype_of(node)
    if dtype not in _INTEGERS:
        return {}
    scalars = {name: each for name, each in operands.items() if type(each) is int}
    converted = {name: wrapped(number, dtype) for name, number in scalars.items()}
    return {name: number for name, number in converted.items() if number != scalars[name]}


def _tensors(node: Node) -> dict[str, torch.dtype]:
    """Returns the dtypes of the 0-d tensors that dtypes alone would promote in another way, by name."""
    names = _named(node, _TENSORS)
    if not names or len(node.all_input_nodes) < 2:
        return {}
    bound = bind(node)
    operands = {name: bound[name].meta["val"] for name in names if isinstance(bound.get(name), Node)}
    tensors = {name: each for name, each in operands.items() if isinstance(each, torch.Tensor)}
    scalars = {name: each.dtype for name, each in tensors.items() if each.dim() == 0}
    others = [each.dtype for each in tensors.values() if each.dim()]
    if not scalars or not others:
        return {}
    scalar, other = reduce(torch.promote_types, scalars.values()), reduce(torch.promote_types, others)
    dtype = torch.result_type(torch.empty((), dtype=scalar), torch.empty(1, dtype=other))
    # eager mode converts integers to the fractions that it computes, without a detour
    is_fraction = dtype_of(node).is_floating_point and not dtype.is_floating_point
    if is_fraction or dtype == torch.promote_types(scalar, other):
        return {}
    return {name: dtype for name, each in scalars.items() if each != dtype}


def _named(node: Node, names: _Names) -> tuple[str, ...]:
    return names.get(node.target.overloadpacket, ()) if isinstance(node.target, OpOverload) else ()
