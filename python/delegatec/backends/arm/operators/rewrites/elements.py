# SPDX-License-Identifier: Apache-2.0
"""Functions of elements that TOSA lacks, or defines for some operands only."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.division import magnitudes
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT, pointwise
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

_LARGEST: Final = 2.0**23
"""The smallest magnitude from which on floats are integers."""


def _sign(x: Value) -> Value:
    zero = x.lt(0.0).where(-1.0, full(x.builder, (), 0.0, x.dtype))
    return x.gt(0.0).where(1.0, zero)


def _truncated(builder: Builder, node: Node) -> Node | None:
    """Truncates the quotient in the dtype, which may be rounded to the integer above it.

    The product with a reciprocal has another rounding: that of x and 1 / x may be below one.
    """
    bound, dtype = bind(node), dtype_of(node)
    if bound["rounding_mode"] != "trunc" or not dtype.is_floating_point:
        return None
    x, y = (value_of(builder, bound[name], dtype).widened() for name in ("self", "other"))
    size, quotient = y.abs(), x / y
    if dtype != torch.float32:
        return quotient.to(dtype).trunc().node
    whole, rest = magnitudes(x, y)
    whole = (whole + rest / size).floor()
    is_exact = quotient.abs().lt(_LARGEST) & size.lt(math.inf)
    signed = quotient.lt(0.0).where(-whole, whole)
    return is_exact.where(signed, quotient.trunc()).to(dtype).node


def _split(builder: Builder, node: Node) -> list[Node | None]:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dim, start = positive(bound["dim"], x.rank), 0
    parts: list[Node | None] = []
    for size in bound["split_sizes"]:
        parts.append(x.slice(dim, start, start + size).node)
        start += size
    return parts


REWRITES: Final = (
    Rewrite(aten.split_with_sizes.default, _split, computes=False),
    *(Rewrite(target, pointwise(_sign), (FLOAT_RESULT,)) for target in (aten.sign.default, aten.sgn.default)),
    *(
        Rewrite(target, _truncated, note="of the rounded quotient")
        for target in (aten.div.Tensor_mode, aten.div.Scalar_mode)
    ),
)
