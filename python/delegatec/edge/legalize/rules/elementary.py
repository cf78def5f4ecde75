# SPDX-License-Identifier: Apache-2.0
"""Elementary functions of one value, for targets that lack them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.nodes import dtype_of

aten = torch.ops.aten

# Below it the series of log1p and expm1 are used, with as many terms as the dtype can tell apart.
_SMALL: Final = 0.5
_LOG1P_TERMS: Final = {torch.float32: 7, torch.float16: 4}
_EXPM1_TERMS: Final = {torch.float32: 9, torch.float16: 5}

FLOAT_RESULT: Final = result_dtypes(
    (torch.float32, torch.float16), "it is computed in floating point.", "convert to float32"
)


def function(compute: Callable[[Value], Value]) -> Rule:
    """Compute f(self) in the dtype of the result."""

    def rule(builder: Builder, node: Node) -> Node:
        return compute(value_of(builder, bind(node)["self"], dtype_of(node))).node

    return rule


def log1p(x: Value) -> Value:
    """log(1 + x), accurate near zero as well: there 2 atanh(x / (2 + x)), as a series."""
    s = x / (x + 2.0)
    square = s * s
    terms = _LOG1P_TERMS[x.dtype]
    series = square * (2.0 / (2 * terms - 1)) + 2.0 / (2 * terms - 3)
    for index in reversed(range(terms - 2)):
        series = series * square + 2.0 / (2 * index + 1)
    return x.abs().lt(_SMALL).where(s * series, (x + 1.0).log())


def expm1(x: Value) -> Value:
    """exp(x) - 1, accurate near zero as well: there x (1 + x / 2 (1 + x / 3 (...)))."""
    terms = _EXPM1_TERMS[x.dtype]
    series = x * (1.0 / terms) + 1.0
    for index in reversed(range(2, terms)):
        series = series * (x * (1.0 / index)) + 1.0
    return x.abs().lt(_SMALL).where(x * series, x.exp() - 1.0)


REWRITES: Final = (
    Rewrite(
        aten.log1p.default,
        function(log1p),
        (FLOAT_RESULT,),
        note="a series near zero, where log(1 + x) loses the digits of x",
    ),
    Rewrite(
        aten.expm1.default,
        function(expm1),
        (FLOAT_RESULT,),
        note="a series near zero, where exp(x) - 1 loses the digits of x",
    ),
)
