# SPDX-License-Identifier: Apache-2.0
"""Comparisons in floating point: XNNPACK has neither bools nor comparisons, so a bool is zero or one.

A comparison multiplies a difference until it is at least one, and clamps it. Values that differ by less than
the smallest normal float, 2^-126 in float32, are equal: XNNPACK flushes such differences to zero. The results
for NaN differ from torch's, and between CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.rules import CONSTANT_SCALAR, FLOAT_OPERANDS, FLOATS_OR_BOOLS
from delegatec.edge.arguments import bind, dtype_of, promoted
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.rounding import sign_by_clamp
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _as_bool(x: Value) -> Value:
    """Returns zeros and ones as bools."""
    value = x.builder.empty(x.shape, torch.bool)
    return Value(x.builder, x.builder.call(XNNPACK.as_bool.default, x.node, val=value))


def _is_positive(x: Value) -> Value:
    """Whether a float is greater than zero."""
    return _as_bool(sign_by_clamp(x, 0.0))


def _difference(x: Any, y: Any) -> Value:
    """Returns the difference of two values, or of a value and a scalar."""
    difference: Value = x if y == 0 else -y if x == 0 else x - y
    return difference


def _is_greater(x: Any, y: Any) -> Value:
    return _is_positive(_difference(x, y))


def _is_different(x: Any, y: Any) -> Value:
    return _is_positive(_difference(x, y).abs())


_OF_FLOATS: Final[dict[str, Callable[[Any, Any], Value]]] = {
    "eq": lambda x, y: ~_is_different(x, y),
    "ne": _is_different,
    "gt": _is_greater,
    "lt": lambda x, y: _is_greater(y, x),
    "ge": lambda x, y: ~_is_greater(y, x),
    "le": lambda x, y: ~_is_greater(x, y),
}
_OF_BOOLS: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "eq": lambda x, y: ~(x ^ y),
    "ne": lambda x, y: x ^ y,
    "gt": lambda x, y: x & ~y,
    "lt": lambda x, y: ~x & y,
    "ge": lambda x, y: x | ~y,
    "le": lambda x, y: ~x | y,
}
_MIRRORED: Final = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}
_WITH_INFINITY: Final = {
    "eq": (True, False),
    "ne": (False, True),
    "gt": (False, False),
    "lt": (False, True),
    "ge": (True, False),
    "le": (True, True),
}
"""Comparison with infinity -> its result for infinity, and for other values."""


def _compared(name: str) -> Rule:
    def rule(builder: Builder, node: Node) -> Node:
        one, other = bind(node)["self"], bind(node)["other"]
        dtype = promoted([one, other])
        if dtype == torch.bool:
            return _OF_BOOLS[name](value_of(builder, one), value_of(builder, other, dtype)).node
        x = value_of(builder, one, dtype if dtype.is_floating_point else torch.float32)
        if not isinstance(other, Node):
            return _compared_with_scalar(name, x, float(other)).node
        y = value_of(builder, other, x.dtype)
        if not _is_finite(x) and not _is_finite(y):
            largest = torch.finfo(x.dtype).max
            x, y = x.clamp(-largest, largest), y.clamp(-largest, largest)
        return _OF_FLOATS[name](x, y).node

    return rule


def _is_finite(x: Value) -> bool:
    low, high, _ = x.builder.facts.of(x.node)
    return -math.inf < low and high < math.inf


def _compared_with_scalar(name: str, x: Value, scalar: float) -> Value:
    if math.isfinite(scalar):
        return _OF_FLOATS[name](x, scalar)
    at, elsewhere = _WITH_INFINITY[_MIRRORED.get(name, name) if scalar < 0 else name]
    if math.isnan(scalar):
        at = elsewhere = name == "ne"
    if at == elsewhere:
        return _as_bool(x.clamp(float(at), float(at)))
    return _is_infinite(x, scalar) if at else ~_is_infinite(x, scalar)


def _is_infinite(x: Value, infinity: float) -> Value:
    """Whether a float is the infinity of one sign: the difference from the largest float is infinite, too."""
    largest = math.copysign(torch.finfo(x.dtype).max, infinity)
    excess: Value = x - largest if infinity > 0 else largest - x
    return _as_bool(excess.clamp(0.0, 1.0))


def _to_bool(builder: Builder, node: Node) -> Node | None:
    return value_of(builder, bind(node)["self"]).ne(0.0).node if dtype_of(node) == torch.bool else None


def _isinf(builder: Builder, node: Node) -> Node:
    x = value_of(builder, bind(node)["self"])
    return _is_infinite(x.abs(), math.inf).node


_NOTE: Final = (
    "a product of the difference, clamped to 0 and 1; values that differ by less than the least normal one "
    "are equal, and results for NaN depend on the CPU"
)

_OPERANDS: Final = (CONSTANT_SCALAR, FLOATS_OR_BOOLS)

REWRITES: Final = (
    *(
        Rewrite(overload(f"{name}.{variant}"), _compared(name), _OPERANDS, note=_NOTE)
        for name in _OF_FLOATS
        for variant in ("Tensor", "Scalar")
    ),
    Rewrite(aten._to_copy.default, _to_bool, note="a comparison with zero"),
    Rewrite(aten.isinf.default, _isinf, (FLOAT_OPERANDS,), note="the difference from the largest float"),
)
