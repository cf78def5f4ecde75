# SPDX-License-Identifier: Apache-2.0
"""Bools: XNNPACK has neither bools nor comparisons, so a bool is a float, zero or one.

A comparison multiplies a difference until it is at least one, and clamps it. Values that differ by less than
the smallest normal float, 2^-126 in float32, are equal: XNNPACK flushes such differences to zero. The results
for NaN differ from torch's, and between CPUs.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, clamp, converted, unary

_FACTORS: Final = {torch.float32: 2.0**127, torch.float16: 2.0**15}
"""The square of a factor times the smallest normal float is at least one."""


def negated(b: GraphBuilder, id: int) -> int:
    """Emits the negation of a bool."""
    return binary(b, Operation.Subtract, 1.0, id)


def is_greater(b: GraphBuilder, first: int, second: int) -> int:
    """Emits whether a value is greater than another."""
    return _is_positive(b, _difference(b, first, second))


def is_equal(b: GraphBuilder, first: int, second: int) -> int:
    """Emits whether two values are equal."""
    distance = unary(b, Operation.Absolute, _difference(b, first, second))
    return negated(b, _is_positive(b, distance))


def is_infinity(b: GraphBuilder, id: int, sign: int) -> int:
    """Emits whether a value is infinite, of one sign."""
    most = torch.finfo(b.dtype_of(id)).max
    if sign > 0:
        part = clamp(b, id, 0.0, math.inf)
        rest = binary(b, Operation.Subtract, part, clamp(b, part, 0.0, most))
    else:
        part = clamp(b, id, -math.inf, 0.0)
        rest = binary(b, Operation.Subtract, clamp(b, part, -most, 0.0), part)
    return clamp(b, rest, 0.0, 1.0)


def sign_of(b: GraphBuilder, id: int) -> int:
    """Emits -1, 0 or 1, the sign of a value."""
    return _grown(b, id, -1.0)


def where(b: GraphBuilder, condition: int, then: int, otherwise: int) -> int:
    """Emits a choice between two values of one dtype: the maximum of both, of which one is minus infinity."""
    dtype = b.dtype_of(then)
    condition = converted(b, condition, dtype)

    def make() -> int:
        return binary(b, Operation.Multiply, binary(b, Operation.Subtract, condition, 0.5), math.inf)

    bound = b.shared(("infinities", condition), make)
    other = b.shared(("infinities", bound), lambda: unary(b, Operation.Negate, bound))
    first, second = binary(b, Operation.Minimum, then, bound), binary(b, Operation.Minimum, otherwise, other)
    return binary(b, Operation.Maximum, first, second)


def _difference(b: GraphBuilder, first: int, second: int) -> int:
    """Emits the difference of two values; infinities count as the largest finite float."""
    most = torch.finfo(b.dtype_of(first)).max
    return binary(b, Operation.Subtract, clamp(b, first, -most, most), clamp(b, second, -most, most))


def _is_positive(b: GraphBuilder, id: int) -> int:
    return _grown(b, id, 0.0)


def _grown(b: GraphBuilder, id: int, least: float) -> int:
    factor = _FACTORS[b.dtype_of(id)]
    grown = binary(b, Operation.Multiply, binary(b, Operation.Multiply, id, factor), factor)
    return clamp(b, grown, least, 1.0)
