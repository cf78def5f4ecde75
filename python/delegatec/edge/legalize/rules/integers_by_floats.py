# SPDX-License-Identifier: Apache-2.0
"""Integers in floating point, for targets that only convert, add, multiply and divide integers.

float32 represents integers up to 2^24 exactly. Others are split into a quotient and a remainder, of 2^16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import STATED
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.integer_moves import is_exact
from delegatec.edge.legalize.rules.pointwise import pointwise
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_RADIX: Final = 1 << 16
_EXACT: Final = 1 << 24
_INTEGERS: Final = (torch.int8, torch.int16, torch.int32, torch.int64)
_SHORT: Final = (torch.int8, torch.int16)

_MOVES: Final[dict[Any, tuple[str, ...]]] = {
    **dict.fromkeys(
        (
            *(aten.view.default, aten.permute.default, aten.expand.default),
            *(aten.unsqueeze.default, aten.squeeze.dims, aten.index.Tensor),
            *(aten.slice.Tensor, aten.select.int, aten.repeat.default, aten.flip.default),
            *(aten.constant_pad_nd.default, aten.index_select.default, aten.gather.default),
        ),
        ("self",),
    ),
    aten.embedding.default: ("weight",),
    aten.index_put.default: ("self", "values"),
    aten.scatter.src: ("self", "src"),
    aten.where.self: ("self", "other"),
    aten.cat.default: ("tensors",),
}
"""Operator -> the operands that it moves."""


def _parts(value: Value, is_single: bool) -> list[Value]:
    """Returns an integer as float32, or its quotient and remainder."""
    if is_single:
        return [value.to(torch.float32)]
    quotient = value.truncated_quotient(_RADIX)
    rest = value - quotient * _RADIX
    return [quotient.to(torch.float32), rest.to(torch.float32)]


def _scalar_parts(scalar: int, is_single: bool) -> list[float]:
    if is_single:
        return [float(scalar)]
    quotient = int(scalar / _RADIX)
    return [float(quotient), float(scalar - quotient * _RADIX)]


def _joined(parts: Sequence[Value], dtype: torch.dtype) -> Value:
    first, *rest = (part.to(dtype) for part in parts)
    return first * _RADIX + rest[0] if rest else first


def _is_exact(value: Value) -> bool:
    return value.dtype in _SHORT or is_exact(value.builder.facts, value.node)


def _moved(names: Sequence[str]) -> Rule:
    def rule(builder: Builder, node: Node) -> Node | None:
        bound, target, dtype = bind(node), node.target, dtype_of(node)
        if dtype not in _INTEGERS:
            return None
        given = {name: _values(builder, bound[name], dtype) for name in names}
        scalar = bound.get("value", 0) if target is aten.constant_pad_nd.default else 0
        exact = abs(scalar or 0) <= _EXACT and all(
            _is_exact(each) for group in given.values() for each in group
        )
        parts = {name: [_parts(each, exact) for each in group] for name, group in given.items()}
        fills = _scalar_parts(int(scalar or 0), exact)
        results = []
        for digit in range(1 if exact else 2):
            arguments = dict(bound)
            for name, group in parts.items():
                nodes = [each[digit].node for each in group]
                arguments[name] = nodes if name == "tensors" else nodes[0]
            if "value" in arguments:
                arguments["value"] = fills[digit]
            val = builder.empty(shape_of(node), torch.float32)
            results.append(Value(builder, builder.call(target, *_trimmed(arguments), val=val)))
        return _joined(results, dtype).node

    return rule


def _trimmed(arguments: dict[str, Any]) -> list[Any]:
    """Returns positional arguments without absent ones at the end, such as a memory format."""
    values = list(arguments.values())
    while values[-1] is None:
        values.pop()
    return values


def _values(builder: Builder, operand: Any, dtype: torch.dtype) -> list[Value]:
    nodes = operand if isinstance(operand, (list, tuple)) else [operand]
    return [value_of(builder, each, dtype) for each in nodes]


def _operands(builder: Builder, node: Node) -> tuple[Value, Value | int] | None:
    first, second, *_ = bind(node).values()
    dtypes = [dtype_of(each) for each in (first, second) if isinstance(each, Node)]
    if not all(dtype in _INTEGERS for dtype in dtypes) or type(second) is float:
        return None
    common = max(dtypes, key=lambda dtype: dtype.itemsize)
    return value_of(builder, first, common), value_of(builder, second, common) if isinstance(
        second, Node
    ) else second


def _compared(name: str) -> Rule:
    """Compares the quotients, and if they are equal the remainders."""
    own: Callable[..., Value] = getattr(Value, name)
    strict: Callable[..., Value] = getattr(Value, {"le": "lt", "ge": "gt"}.get(name, name))

    def rule(builder: Builder, node: Node) -> Node | None:
        operands = _operands(builder, node)
        if operands is None:
            return None
        x, y = operands
        known = _is_exact(y) if isinstance(y, Value) else abs(y) <= _EXACT
        exact = _is_exact(x) and known
        (high, *low), (other, *other_low) = _parts(x, exact), _split(y, exact)
        if exact:
            return own(high, other).node
        if name == "eq":
            return (high.eq(other) & low[0].eq(other_low[0])).node
        if name == "ne":
            return (high.ne(other) | low[0].ne(other_low[0])).node
        return (strict(high, other) | (high.eq(other) & own(low[0], other_low[0]))).node

    return rule


def _split(operand: Value | int, is_single: bool) -> list[Any]:
    return _parts(operand, is_single) if isinstance(operand, Value) else _scalar_parts(operand, is_single)


def _with_equal_ranks(builder: Builder, node: Node) -> Node | None:
    """Adds dimensions, which the lowering cannot. Types are promoted before, as ranks affect promotion."""
    bound, rank, dtype = bind(node), len(shape_of(node)), dtype_of(node)
    operands = {name: bound[name] for name in ("self", "other") if isinstance(bound[name], Node)}
    if dtype not in _INTEGERS or all(len(shape_of(each)) == rank for each in operands.values()):
        return None
    values = {name: value_of(builder, each, dtype) for name, each in operands.items()}
    views = {
        name: value.view(*(1,) * (rank - value.rank), *value.shape).node for name, value in values.items()
    }
    repeated: Node = again(builder, node, **views)
    return repeated


def _of_integers(compute: Callable[..., Value], operands: int = 1) -> Rule:
    rule = pointwise(compute, operands)
    return lambda builder, node: rule(builder, node) if dtype_of(node) in _INTEGERS else None


def _reduced(adds: bool) -> Rule:
    def rule(builder: Builder, node: Node) -> Node | None:
        bound = bind(node)
        x, dtype = value_of(builder, bound["self"]), dtype_of(node)
        if dtype not in _INTEGERS or x.dtype not in (*_INTEGERS, torch.bool):
            return None
        known = builder.facts.of(x.node)
        most = max(abs(known.low), abs(known.high)) if x.dtype != torch.bool else 1
        count = x.numel // max(math.prod(shape_of(node)), 1)
        if most * (count if adds else 1) > _EXACT:
            return None
        names = [name for name in ("dim", "keepdim") if name in bound]
        val = builder.empty(shape_of(node), torch.float32)
        arguments = (x.to(torch.float32).node, *(bound[name] for name in names))
        return Value(builder, builder.call(node.target, *arguments, val=val)).to(dtype).node

    return rule


def _floored(builder: Builder, node: Node) -> Node | None:
    """Divides integers, rounding down, or returns the remainder; without operators on bits."""
    bound, dtype = bind(node), dtype_of(node)
    if dtype not in _INTEGERS:
        return None
    first, second, *_ = bound.values()
    is_quotient = "rounding_mode" in bound or node.target is aten.floor_divide.default
    mode = bound.get("rounding_mode", "floor")
    if dtype in _SHORT:
        operands = [value_of(builder, each, torch.float32).node for each in (first, second)]
        target: Any = aten.div.Tensor_mode if is_quotient else aten.remainder.Tensor
        kwargs = {"rounding_mode": mode} if is_quotient else {}
        return Value(builder, builder.call(target, *operands, **kwargs)).to(dtype).node
    if mode != "floor":
        return None
    x, y = (value_of(builder, each, dtype) for each in (first, second))
    quotient = x.truncated_quotient(y)
    rest = x - quotient * y
    is_beyond = ((rest.lt(0) ^ y.lt(0)) & rest.ne(0)).to(dtype)
    return (quotient - is_beyond if is_quotient else rest + is_beyond * y).node


def _rewrite(target: Any, rule: Rule, computes: bool = True) -> Rewrite:
    def ranged(builder: Builder, node: Node) -> Node | None:
        """Passes a stated range on."""
        result: Node | None = rule(builder, node)
        if result is not None and STATED in node.meta:
            result.meta[STATED] = node.meta[STATED]
        return result

    return Rewrite(target, ranged, computes=computes, note="integers by float32")


REWRITES: Final = (
    *(_rewrite(target, _moved(names), computes=False) for target, names in _MOVES.items()),
    *(
        _rewrite(getattr(getattr(aten, name), kind), _compared(name))
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for kind in ("Tensor", "Scalar")
    ),
    *(
        _rewrite(target, _with_equal_ranks)
        for target in (
            *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor_mode),
            *(aten.bitwise_left_shift.Tensor, aten.bitwise_right_shift.Tensor),
        )
    ),
    *(
        _rewrite(target, _floored)
        for target in (
            *(aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default),
            *(aten.remainder.Tensor, aten.remainder.Scalar),
        )
    ),
    *(
        _rewrite(target, _of_integers(lambda x, y: x.ge(y).where(x, y), 2))
        for target in (aten.maximum.default, aten.fmax.default)
    ),
    *(
        _rewrite(target, _of_integers(lambda x, y: x.le(y).where(x, y), 2))
        for target in (aten.minimum.default, aten.fmin.default)
    ),
    _rewrite(aten.abs.default, _of_integers(lambda x: x.lt(0).where(x * -1, x))),
    _rewrite(aten.neg.default, _of_integers(lambda x: x * -1)),
    *(_rewrite(target, _reduced(adds=True)) for target in (aten.sum.dim_IntList, aten.sum.default)),
    *(_rewrite(target, _reduced(adds=False)) for target in (aten.amax.default, aten.amin.default)),
)
