# SPDX-License-Identifier: Apache-2.0
"""Rules for elementwise operators on complex numbers, and for matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.complex.pair import (
    Pair,
    Part,
    absolute,
    add,
    cast,
    div,
    divide,
    filled,
    mul,
    multiply,
    neg,
    real_dtype,
    sub,
)
from delegatec.edge.complex.values import Values

aten = torch.ops.aten

# Computes a node from the parts of its operands: returns a pair, or a part for a real result, whose dtype and
# sizes may be smaller than those of the result. None if it does not apply.
Rule = Callable[[Values, Builder, Node], "Pair | Part | None"]

# Exponents up to which powers are expanded to products.
_LARGEST_POWER: Final = 8


def _kind(node: Node) -> torch.dtype:
    return real_dtype(dtype_of(node))


def _self(values: Values, node: Node) -> Pair:
    return values.pair(node.args[0])


def _add(values: Values, b: Builder, node: Node) -> Pair:
    x, y = _self(values, node), _scaled(values, b, node)
    return Pair(add(b, x.real, y.real), add(b, x.imag, y.imag))


def _sub(values: Values, b: Builder, node: Node) -> Pair:
    x, y = _self(values, node), _scaled(values, b, node)
    return Pair(sub(b, x.real, y.real), sub(b, x.imag, y.imag))


def _rsub(values: Values, b: Builder, node: Node) -> Pair:
    bound = bind(node)
    x = multiply(b, _self(values, node), values.pair(bound["alpha"]))
    y = values.pair(bound["other"])
    return Pair(sub(b, y.real, x.real), sub(b, y.imag, x.imag))


def _scaled(values: Values, b: Builder, node: Node) -> Pair:
    """Returns `other` times `alpha`, with the dtype of the result, in which `alpha` is not an integer."""
    bound = bind(node)
    return multiply(b, values.pair(bound["other"]), values.pair(bound["alpha"]))


def _mul(values: Values, b: Builder, node: Node) -> Pair:
    return multiply(b, _self(values, node), values.pair(node.args[1]))


def _div(values: Values, b: Builder, node: Node) -> Pair:
    return divide(b, _self(values, node), values.pair(node.args[1]))


def _reciprocal(values: Values, b: Builder, node: Node) -> Pair:
    return divide(b, Pair(1.0, 0.0), _self(values, node))


def _product(values: Values, b: Builder, node: Node) -> Pair:
    """Applies an operator that is linear in each of its two operands."""
    target, kind = node.target, _kind(node)
    x, y = node.args

    def part(left: Part, right: Part) -> Part:
        if (not isinstance(left, Node) and left == 0) or (not isinstance(right, Node) and right == 0):
            return 0.0
        operands = filled(b, left, shape_of(x), kind), filled(b, right, shape_of(y), kind)  # type: ignore[arg-type]
        return b.call(target, *operands)

    a, c = values.pair(x), values.pair(y)
    return Pair(
        sub(b, part(a.real, c.real), part(a.imag, c.imag)),
        add(b, part(a.real, c.imag), part(a.imag, c.real)),
    )


def _conj(values: Values, b: Builder, node: Node) -> Pair:
    real, imag = _self(values, node)
    return Pair(real, neg(b, imag))


def _adjoint(values: Values, b: Builder, node: Node) -> Pair:
    real, imag = values.tensors(b, node.args[0], _kind(node))  # type: ignore[arg-type]
    last = b.call(aten.transpose.int, real, -2, -1), b.call(aten.transpose.int, imag, -2, -1)
    return Pair(last[0], neg(b, last[1]))


def _real(values: Values, b: Builder, node: Node) -> Part:
    return _self(values, node).real


def _imag(values: Values, b: Builder, node: Node) -> Part:
    return _self(values, node).imag


def _abs(values: Values, b: Builder, node: Node) -> Part:
    return absolute(b, _self(values, node))


def _angle(values: Values, b: Builder, node: Node) -> Part:
    return _argument(values, b, node)


def _argument(values: Values, b: Builder, node: Node) -> Part:
    source: Any = node.args[0]
    real, imag = values.tensors(b, source, real_dtype(dtype_of(source)))
    return b.call(aten.atan2.default, imag, real)


def _complex(values: Values, b: Builder, node: Node) -> Pair:
    real, imag = node.args
    return Pair(real, imag)  # type: ignore[arg-type]


def _polar(values: Values, b: Builder, node: Node) -> Pair:
    return _turned(b, *node.args)  # type: ignore[arg-type]


def _turned(b: Builder, size: Part, angle: Part) -> Pair:
    """Returns the complex number with an absolute value and an angle."""
    if not isinstance(angle, Node):
        return Pair(mul(b, size, math.cos(angle)), mul(b, size, math.sin(angle)))
    cos, sin = b.call(aten.cos.default, angle), b.call(aten.sin.default, angle)
    return Pair(mul(b, size, cos), mul(b, size, sin))


def _exp(values: Values, b: Builder, node: Node) -> Pair:
    real, imag = _self(values, node)
    return _turned(b, b.call(aten.exp.default, real) if isinstance(real, Node) else math.exp(real), imag)


def _log(values: Values, b: Builder, node: Node) -> Pair:
    size = filled(b, absolute(b, _self(values, node)), shape_of(node), _kind(node))
    return Pair(b.call(aten.log.default, size), _argument(values, b, node))


def _power(values: Values, b: Builder, node: Node) -> Pair | None:
    exponent: Any = node.args[1]
    if (
        isinstance(exponent, Node)
        or exponent != int(exponent.real)
        or not 0 < abs(exponent) <= _LARGEST_POWER
    ):
        return None
    x = _self(values, node)
    result = x
    for _ in range(int(abs(exponent)) - 1):
        result = multiply(b, result, x)
    return result if exponent > 0 else divide(b, Pair(1.0, 0.0), result)


def _sgn(values: Values, b: Builder, node: Node) -> Pair:
    """Returns x / |x|, and 0 for 0."""
    x = _self(values, node)
    size = filled(b, absolute(b, x), shape_of(node), _kind(node))
    nothing = b.call(aten.eq.Scalar, size, 0)
    divisor = b.call(aten.where.ScalarSelf, nothing, 1.0, size)
    return Pair(div(b, x.real, divisor), div(b, x.imag, divisor))


def _equal(values: Values, b: Builder, node: Node) -> Part:
    return _compared(values, b, node, aten.eq, aten.logical_and.default)


def _unequal(values: Values, b: Builder, node: Node) -> Part:
    return _compared(values, b, node, aten.ne, aten.logical_or.default)


def _compared(values: Values, b: Builder, node: Node, compare: Any, join: Any) -> Part:
    kind = next(
        real_dtype(dtype_of(arg)) for arg in node.args if isinstance(arg, Node) and dtype_of(arg).is_complex
    )
    x, y = values.pair(node.args[0]), values.pair(node.args[1])
    parts = []
    for mine, other in zip(x, y, strict=True):
        left, right = (filled(b, part, shape_of(node), kind) for part in (mine, other))
        parts.append(b.call(compare.Tensor, left, right))
    return b.call(join, *parts)


def _view_as_complex(values: Values, b: Builder, node: Node) -> Pair:
    real, imag = (b.call(aten.select.int, node.args[0], -1, index) for index in (0, 1))
    return Pair(real, imag)


def _view_as_real(values: Values, b: Builder, node: Node) -> Part:
    real, imag = values.tensors(b, node.args[0], _kind(node))  # type: ignore[arg-type]
    return b.call(aten.stack.default, [real, imag], -1)


def _converted(values: Values, b: Builder, node: Node) -> Pair | Part:
    """Converts the dtype; a complex number that becomes real loses its imaginary part."""
    x = _self(values, node)
    if not dtype_of(node).is_complex:
        return x.real
    return Pair(cast(b, x.real, _kind(node)), cast(b, x.imag, _kind(node)))


def _constant(value: complex | None) -> Rule:
    """Returns the rule for an operator that fills a tensor with a scalar; None: its argument."""

    def rule(values: Values, b: Builder, node: Node) -> Pair:
        return values.pair(bind(node)["fill_value"] if value is None else value)

    return rule


# Name of an operator, for all its overloads -> its rule.
_NAMES: Final[dict[str, Rule]] = {
    "add": _add,
    "sub subtract": _sub,
    "rsub": _rsub,
    "mul multiply": _mul,
    "div divide true_divide": _div,
    "reciprocal": _reciprocal,
    "matmul mm bmm mv dot outer": _product,
    "_conj conj _conj_physical conj_physical": _conj,
    "mH adjoint": _adjoint,
    "real": _real,
    "imag": _imag,
    "abs absolute": _abs,
    "angle": _angle,
    "complex": _complex,
    "polar": _polar,
    "exp": _exp,
    "log": _log,
    "pow": _power,
    "sgn": _sgn,
    "eq": _equal,
    "ne": _unequal,
    "view_as_complex view_as_complex_copy": _view_as_complex,
    "view_as_real view_as_real_copy": _view_as_real,
    "to _to_copy type_as": _converted,
    "zeros zeros_like new_zeros": _constant(0),
    "ones ones_like new_ones": _constant(1),
    "full full_like new_full": _constant(None),
}

RULES: Final[dict[str, Rule]] = {name: rule for names, rule in _NAMES.items() for name in names.split()}
