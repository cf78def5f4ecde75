# SPDX-License-Identifier: Apache-2.0
"""Operators that quantizers leave whole, by several integer operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.reductions import total
from delegatec.backends.arm.integer.values import Levels, Lookup, Parameters, Quantity, UnsupportedError
from delegatec.edge.arguments import bind, positive, shape_of

aten = torch.ops.aten

_BITS: Final = 15
"""Of the exponentials."""
_POINT: Final = 14
"""Bits of the quotients after the point: RESCALE multiplies 15 bits by at most 2^14."""


def _softmax(conversion: Conversion, node: Node) -> Quantity:
    """Divides exponentials of 15 bits, which are at most 1, by their sum."""
    bound = bind(node)
    narrow = conversion.narrow(conversion.of(bound["self"]), bound["self"])
    if narrow.dtype != torch.int8 or not narrow.shape:
        raise UnsupportedError("softmax of levels that are not int8")
    dim = positive(bound["dim"], len(narrow.shape))
    if narrow.shape[dim] >= 1 << (31 - _BITS):
        raise UnsupportedError(f"softmax of {narrow.shape[dim]} elements")
    narrow = replace(narrow, low=-math.inf, high=math.inf)
    arithmetic = conversion.arithmetic
    reduced = [1 if each == dim else size for each, size in enumerate(narrow.shape)]
    most = arithmetic.call(aten.amax.default, narrow.node, [dim], True, dtype=torch.int8, shape=reduced)
    levels, largest = (
        arithmetic.accumulate(each, narrow.scale[0]) for each in (narrow, replace(narrow, node=most))
    )
    below = Levels(arithmetic.binary(aten.sub.Tensor, levels, largest), narrow.scale, 0, 255)
    # from -255 to 0, as levels from -128 to 127
    shifted = conversion.quantized(below, Parameters(torch.int8, narrow.scale, 127, -128, 127))
    exponentials = arithmetic.evaluated(Lookup(shifted, torch.exp(shifted.values)))
    unit = 1 / ((1 << _BITS) - 1)
    dividend = arithmetic.accumulate(exponentials, unit / (1 << _POINT))
    parts = Levels(arithmetic.accumulate(exponentials, unit), (unit,), 0, 1 << _BITS)
    sums = total(conversion, parts, [dim], keepdim=True, is_mean=False)
    quotient = arithmetic.call(
        aten.div.Tensor_mode,
        dividend,
        sums.node,
        dtype=torch.int32,
        shape=shape_of(node),
        rounding_mode="trunc",
    )
    return Levels(quotient, (1 / (1 << _POINT),), 0, 1 << _POINT)


COMPOSITES: Final[Mapping[Any, Convert]] = {aten._softmax.default: _softmax}
