# SPDX-License-Identifier: Apache-2.0
"""Operands that are numbers computed from sizes: the runtime has operators on tensors for them only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sympy
import torch
from torch.fx import Node
from torch.utils._sympy import functions as symbolic

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, arange, table, value_of
from delegatec.edge.symbols import UnknownSizeError, is_number

aten = torch.ops.aten

_QUOTIENTS: Final = (symbolic.IntTrueDiv, symbolic.FloatTrueDiv)


def _tensor(builder: Builder, number: Any, expression: Any, dtype: torch.dtype) -> Value:
    """Returns a number as a tensor of one element.

    Raises:
        UnknownSizeError: if the runtime cannot compute it.
    """
    if expression.is_number:
        return table(builder, torch.tensor([float(expression)]).to(dtype))
    if expression.func is symbolic.ToFloat:
        return _tensor(builder, number, expression.args[0], dtype)
    if expression.func in _QUOTIENTS:
        first, second = (_tensor(builder, number, each, dtype) for each in expression.args)
        return first / second
    if expression.is_integer:
        # the last of as many numbers
        size = number.node.shape_env.create_symintnode(expression, hint=None)
        return arange(builder, size + 1, dtype).slice(0, size, size + 1)
    if expression.func is sympy.Mul:
        first, *others = (_tensor(builder, number, each, dtype) for each in expression.args)
        for other in others:
            first = first * other
        return first
    raise UnknownSizeError(str(expression))


def _with_number(compute: Callable[[Value, Value], Value]) -> Callable[[Builder, Node], Node | None]:
    """Returns a rule for a function of a tensor and a number."""

    def rule(builder: Builder, node: Node) -> Node | None:
        x, number = list(bind(node).values())[:2]
        if not isinstance(number, Node) or not is_number(number) or bind(node).get("alpha", 1) != 1:
            return None
        value = number.meta["val"]
        dtype = x.meta["val"].dtype
        if not dtype.is_floating_point and isinstance(value, torch.SymFloat):
            dtype = torch.float32
        first, second = value_of(builder, x, dtype), _tensor(builder, value, value.node.expr, dtype)
        return compute(first, second if first.rank else second.view()).node

    return rule


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
}

WITH_NUMBERS: Final = frozenset(getattr(aten, name).Scalar for name in _FUNCTIONS)
REWRITES: Final = tuple(
    Rewrite(getattr(aten, name).Scalar, _with_number(function), note="with a tensor for a size")
    for name, function in _FUNCTIONS.items()
)
