# SPDX-License-Identifier: Apache-2.0
"""Operands that are scalars computed from sizes, as tensors, for targets whose scalars are constants."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Final

import sympy
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._sympy import functions as symbolic

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.value import Value, arange, full, table, value_of
from delegatec.edge.symbols import UnknownSizeError, is_scalar

aten = torch.ops.aten

_QUOTIENTS: Final = (symbolic.IntTrueDiv, symbolic.FloatTrueDiv)
_FOLDED: Final[dict[Any, Callable[[Value, Value], Value]]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
}


def _tensor(builder: Builder, scalar: Any, expression: Any, dtype: torch.dtype) -> Value:
    """Returns a scalar as a tensor of one element.

    Raises:
        UnknownSizeError: if the runtime cannot compute it.
    """
    if expression.is_number:
        return table(builder, torch.tensor([float(expression)]).to(dtype))
    if expression.func is symbolic.ToFloat:
        return _tensor(builder, scalar, expression.args[0], dtype)
    if expression.func in _QUOTIENTS:
        first, second = (_tensor(builder, scalar, each, dtype) for each in expression.args)
        return first / second
    if expression.is_integer:
        # the last element of an arange of that length
        size = scalar.node.shape_env.create_symintnode(expression, hint=None)
        return arange(builder, size + 1, dtype).slice(0, size, size + 1)
    if expression.func in _FOLDED:
        operands = (_tensor(builder, scalar, each, dtype) for each in expression.args)
        return functools.reduce(_FOLDED[expression.func], operands)
    raise UnknownSizeError(str(expression))


def _with_scalar(compute: Callable[[Value, Value], Value]) -> Callable[[Builder, Node], Node | None]:
    """Returns a rule for a function of a tensor and a scalar."""

    def rule(builder: Builder, node: Node) -> Node | None:
        x, scalar = list(bind(node).values())[:2]
        if not isinstance(scalar, Node) or not is_scalar(scalar) or bind(node).get("alpha", 1) != 1:
            return None
        value = scalar.meta["val"]
        dtype = x.meta["val"].dtype
        if not dtype.is_floating_point and isinstance(value, torch.SymFloat):
            dtype = torch.float32
        first, second = value_of(builder, x, dtype), _tensor(builder, value, value.node.expr, dtype)
        return compute(first, second if first.rank else second.view()).node

    return rule


def _scalar_of(builder: Builder, node: Node, dtype: torch.dtype) -> Value:
    """Returns the scalar that a node computes as a 0-d tensor."""
    value = node.meta["val"]
    exact = torch.float32 if isinstance(value, torch.SymFloat) else dtype
    return _tensor(builder, value, value.node.expr, exact).view().to(dtype)


def _clamp(builder: Builder, node: Node) -> Node | None:
    bound, dtype = bind(node), dtype_of(node)
    if not any(isinstance(bound[name], Node) for name in ("min", "max")):
        return None
    x = value_of(builder, bound["self"], dtype)
    for name, choose in (("min", Value.maximum), ("max", Value.minimum)):
        limit = bound[name]
        if limit is not None:
            scalar = isinstance(limit, Node)
            other = _scalar_of(builder, limit, dtype) if scalar else value_of(builder, limit, dtype)
            x = choose(x, other)
    return x.node


def _full(builder: Builder, node: Node) -> Node | None:
    scalar = bind(node)["fill_value"]
    if not isinstance(scalar, Node):
        return None
    shape = node.meta["val"].shape
    return _scalar_of(builder, scalar, dtype_of(node)).view(*[1] * len(shape)).expand(*shape).node


def _scalar_tensor(builder: Builder, node: Node) -> Node:
    return full(builder, (), bind(node)["s"], dtype_of(node)).node


_FUNCTIONS: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "lt": lambda x, y: x.lt(y),
    "le": lambda x, y: x.le(y),
    "gt": lambda x, y: x.gt(y),
    "ge": lambda x, y: x.ge(y),
    "eq": lambda x, y: x.eq(y),
    "ne": lambda x, y: x.ne(y),
}
_RULES: Final[dict[OpOverload, Rule]] = {
    **{getattr(aten, name).Scalar: _with_scalar(function) for name, function in _FUNCTIONS.items()},
    aten.clamp.default: _clamp,
    aten.full.default: _full,
}

_OTHERS: Final = (aten.scalar_tensor.default, aten.masked_fill.Scalar, aten.hardtanh.default)
"""Operators whose rewrites make these of them."""

WITH_NUMBERS: Final = frozenset({*_RULES, *_OTHERS})
REWRITES: Final = (
    *(Rewrite(target, rule, note="with the size as a tensor") for target, rule in _RULES.items()),
    Rewrite(aten.scalar_tensor.default, _scalar_tensor),
)
