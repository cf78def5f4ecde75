# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions that XNNPACK lacks, composed of those that it has."""

from __future__ import annotations

import functools
import math
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.bool_emulation import is_infinity, sign_of, where
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, clamp, converted, unary
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.edge.arguments import bind, shape_of

_row: Final = functools.partial(operator_row, resizes=True)

_WHOLE: Final = {torch.float32: 2.0**23, torch.float16: 2.0**10}
"""From here on, all float32 values are integers."""
_LEAST_ROOT: Final = {torch.float32: 1e-30, torch.float16: 2.0**-14}


def _round(b: GraphBuilder, node: Node) -> None:
    """Adds the least float from which all are integers, and subtracts it: the sum is rounded to even."""
    x = b.of(bind(node)["self"])
    whole = _WHOLE[b.dtype_of(x)]
    above, below = clamp(b, x, 0.0, whole), clamp(b, x, -whole, 0.0)
    rest = binary(b, Operation.Subtract, binary(b, Operation.Subtract, x, above), below)
    for part, shift in ((above, whole), (below, -whole)):
        rounded = binary(b, Operation.Subtract, binary(b, Operation.Add, part, shift), shift)
        rest = binary(b, Operation.Add, rest, rounded)
    b.alias(node, rest)


def _sign(b: GraphBuilder, node: Node) -> None:
    b.alias(node, sign_of(b, b.of(bind(node)["self"])))


def _exp(b: QuantizedBuilder, node: Node) -> None:
    x = b.of(bind(node)["self"])
    is_quantized = b.scale_of(node) is not None
    b.alias(node, unary(b, Operation.Exp, x) if is_quantized else _of_base(b, x, math.e))


def _exp2(b: GraphBuilder, node: Node) -> None:
    b.alias(node, _of_base(b, b.of(bind(node)["self"]), 2.0))


def _of_base(b: GraphBuilder, exponent: int, base: float) -> int:
    """Emits a power of a constant in float32: in float16, XNNPACK's kernel returns infinity above 44,000."""
    wide = converted(b, exponent, torch.float32)
    scaled = wide if base == math.e else binary(b, Operation.Multiply, wide, math.log(base))
    return converted(b, unary(b, Operation.Exp, scaled), b.dtype_of(exponent))


def _power(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, exponent = b.of(bound["self"]), float(bound["exponent"])
    if exponent == 2:
        b.alias(node, unary(b, Operation.Square, x))
        return
    logarithm = unary(b, Operation.Log, converted(b, x, torch.float32))
    power = unary(b, Operation.Exp, binary(b, Operation.Multiply, logarithm, exponent))
    b.alias(node, converted(b, power, b.dtype_of(x)))


def _power_of_number(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.alias(node, _of_base(b, b.of(bound["exponent"]), float(bound["self"])))


def _erf(b: GraphBuilder, node: Node) -> None:
    """Computes 2 gelu(s) / s - 1 for s = sqrt(2) |x|, with the sign of x."""
    x = b.of(bind(node)["self"])
    root = binary(b, Operation.Multiply, unary(b, Operation.Absolute, x), math.sqrt(2))
    root = binary(b, Operation.Maximum, root, _LEAST_ROOT[b.dtype_of(x)])
    # beyond, the quotient of infinities is NaN
    root = binary(b, Operation.Minimum, root, 100.0)
    share = binary(b, Operation.Divide, unary(b, Operation.Gelu, root), root)
    size = binary(b, Operation.Subtract, binary(b, Operation.Multiply, share, 2.0), 1.0)
    b.alias(node, binary(b, Operation.Multiply, size, sign_of(b, x)))


def _isinf(b: GraphBuilder, node: Node) -> None:
    x = b.of(bind(node)["self"])
    found = binary(b, Operation.Add, is_infinity(b, x, 1), is_infinity(b, x, -1))
    b.alias(node, converted(b, found, b.truth_dtype))


def _triangle(b: GraphBuilder, node: Node) -> None:
    """Selects between the lower triangle and zero by a constant."""
    bound = bind(node)
    x = b.of(bound["self"])
    dtype, shape = b.dtype_of(x), shape_of(node)[-2:]
    kept = torch.ones(shape).tril(bound["diagonal"])
    mask = b.shared(("triangle", *shape, bound["diagonal"], dtype), lambda: b.constant(kept, dtype))
    b.alias(node, where(b, mask, x, b.number(0.0, dtype)))


def _other_exponent(node: Node, _: object) -> str | None:
    exponent = bind(node)["exponent"]
    return f"exponent is {exponent}" if exponent != 2 and float(exponent) * 2 % 1 == 0 else None


_EXPONENT: Final = Constraint(
    "argument", "The exponent is 2, or not a multiple of 0.5: those have other forms.", _other_exponent
)


def _other_base(node: Node, _: object) -> str | None:
    base = bind(node)["self"]
    return None if 0 < float(base) < math.inf and base != 2 else f"self is {base}"


_BASE: Final = Constraint(
    "argument", "The base is a positive number other than 2, which has another form.", _other_base
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    _row("round", _round, note="a sum and a difference"),
    _row("sign", _sign, note="a product that is clamped; numbers below the least normal one are zero"),
    _row("exp", _exp),
    _row("exp2", _exp2),
    _row("pow.Tensor_Scalar", _power, _EXPONENT, note="the square, or exp(c log(x))"),
    _row("pow.Scalar", _power_of_number, _BASE, note="exp(x log(c))"),
    _row("erf", _erf, note="by Gelu; the absolute error is 3e-7"),
    _row("isinf", _isinf),
    operator_row("tril", _triangle, note="a choice"),
)
