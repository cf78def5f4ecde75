# SPDX-License-Identifier: Apache-2.0
"""Complex values as pairs of parts, and arithmetic on parts, some of which are scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder

aten = torch.ops.aten

# A real tensor, or a scalar for all its elements: a real operand has the imaginary part 0.0, with which
# products are not computed.
Part: TypeAlias = Node | float


class Pair(NamedTuple):
    """Real and imaginary part; for an operator with several results, the nodes that compute all of them."""

    real: Part
    imag: Part


def add(b: Builder, x: Part, y: Part) -> Part:
    """Returns x + y."""
    if not isinstance(x, Node):
        if not isinstance(y, Node):
            return x + y
        x, y = y, x
    return x if _is(y, 0.0) else b.call(aten.add.Tensor, x, y)


def neg(b: Builder, x: Part) -> Part:
    """Returns -x."""
    return b.call(aten.neg.default, x) if isinstance(x, Node) else -x


def sub(b: Builder, x: Part, y: Part) -> Part:
    """Returns x - y."""
    if isinstance(x, Node) and isinstance(y, Node):
        return b.call(aten.sub.Tensor, x, y)
    return add(b, x, neg(b, y))


def mul(b: Builder, x: Part, y: Part) -> Part:
    """Returns x y; 0 if either is the scalar 0."""
    if not isinstance(x, Node):
        if not isinstance(y, Node):
            return x * y
        x, y = y, x
    if isinstance(y, Node):
        return b.call(aten.mul.Tensor, x, y)
    if y in (0.0, 1.0, -1.0):
        return 0.0 if y == 0.0 else x if y == 1.0 else neg(b, x)
    return b.call(aten.mul.Tensor, x, y)


def div(b: Builder, x: Part, y: Part) -> Part:
    """Returns x / y."""
    if isinstance(x, Node):
        return x if _is(y, 1.0) else b.call(aten.div.Tensor, x, y)
    if isinstance(y, Node):
        return mul(b, b.call(aten.reciprocal.default, y), x)
    return x / y if y else float("inf")


def real_dtype(kind: torch.dtype) -> torch.dtype:
    """Returns the dtype of the parts of a complex dtype; a real dtype itself."""
    return kind.to_real() if kind.is_complex else kind


def cast(b: Builder, x: Part, kind: torch.dtype) -> Part:
    """Converts a part to another dtype."""
    if isinstance(x, Node) and dtype_of(x) != kind:
        return b.call(aten._to_copy.default, x, dtype=kind)
    return x


def filled(b: Builder, x: Part, sizes: Sequence[Any], kind: torch.dtype) -> Node:
    """Returns a part as a tensor of these sizes and this real dtype."""
    if not isinstance(x, Node):
        return b.call(aten.full.default, list(sizes), x, dtype=kind)
    x = cast(b, x, kind)
    assert isinstance(x, Node)
    same = len(shape_of(x)) == len(sizes) and all(
        statically_known_true(mine == other) for mine, other in zip(shape_of(x), sizes, strict=True)
    )
    return x if same else b.call(aten.expand.default, x, list(sizes))


def absolute(b: Builder, x: Pair) -> Part:
    """Returns |x|, which overflows if the square of a part does."""
    real, imag = x
    if _is(imag, 0.0):
        return b.call(aten.abs.default, real) if isinstance(real, Node) else abs(real)
    squares = add(b, mul(b, real, real), mul(b, imag, imag))
    return b.call(aten.sqrt.default, squares) if isinstance(squares, Node) else squares**0.5


def multiply(b: Builder, x: Pair, y: Pair) -> Pair:
    """Returns x y."""
    return Pair(
        sub(b, mul(b, x.real, y.real), mul(b, x.imag, y.imag)),
        add(b, mul(b, x.real, y.imag), mul(b, x.imag, y.real)),
    )


def divide(b: Builder, x: Pair, y: Pair) -> Pair:
    """Returns x / y, with y scaled so that its square neither overflows nor underflows."""
    if _is(y.imag, 0.0):
        return Pair(div(b, x.real, y.real), div(b, x.imag, y.real))
    if not isinstance(y.real, Node) and not isinstance(y.imag, Node):
        inverse = 1 / complex(y.real, y.imag)
        return multiply(b, x, Pair(inverse.real, inverse.imag))
    large = add(b, _magnitude(b, y.real), _magnitude(b, y.imag))
    y = Pair(div(b, y.real, large), div(b, y.imag, large))
    square = add(b, mul(b, y.real, y.real), mul(b, y.imag, y.imag))
    scale = mul(b, square, large)
    product = multiply(b, x, Pair(y.real, neg(b, y.imag)))
    return Pair(div(b, product.real, scale), div(b, product.imag, scale))


def _magnitude(b: Builder, x: Part) -> Part:
    return b.call(aten.abs.default, x) if isinstance(x, Node) else abs(x)


def _is(x: Part, value: float) -> bool:
    return not isinstance(x, Node) and x == value
