# SPDX-License-Identifier: Apache-2.0
"""Helpers for rules of elementwise functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rule import Rule
from delegatec.edge.legalize.value import Value, value_of

FLOATS: Final = frozenset({torch.float32, torch.float16, torch.bfloat16})
INTEGERS: Final = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})

FLOAT_RESULT: Final = result_dtypes(FLOATS, "it is computed in floating point.", "convert to float32")
INTEGER_RESULT: Final = result_dtypes(INTEGERS, "for these dtypes it is exact.")
NUMERIC_RESULT: Final = result_dtypes(FLOATS | INTEGERS, "bool is not a numeric dtype.", "convert to int32")


def pointwise(compute: Callable[..., Value | None], operands: int = 1, *, widened: bool = False) -> Rule:
    """Returns a rule that computes a function in the dtype of the result.

    Args:
        compute: has the arguments of the operator; returns None if it does not apply.
        operands: number of the first arguments that are tensors, or are converted to tensors.
        widened: whether half precision is computed in float32.
    """

    def rule(builder: Builder, node: Node) -> Node | None:
        arguments, dtype = list(bind(node).values()), dtype_of(node)
        values = [value_of(builder, each, dtype) for each in arguments[:operands]]
        values = [each.widened() for each in values] if widened else values
        result = compute(*values, *arguments[operands:])
        return None if result is None else result.to(dtype).node

    return rule


def in_float32(compute: Callable[..., Value | None], operands: int = 1) -> Rule:
    """Returns a rule that computes a function in the dtype of the result, of half precision in float32."""
    return pointwise(compute, operands, widened=True)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluates a polynomial by Horner's method; its coefficients start with the constant one."""
    *others, second, first = coefficients
    result = x * first + second
    for coefficient in reversed(others):
        result = result * x + coefficient
    return result
