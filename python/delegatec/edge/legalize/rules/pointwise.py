# SPDX-License-Identifier: Apache-2.0
"""Helpers for rules of elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
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
NUMBER_RESULT: Final = result_dtypes(FLOATS | INTEGERS, "bools are not numbers.", "convert to int32")


def pointwise(compute: Callable[..., Value], operands: int = 1) -> Rule:
    """Returns a rule that computes a function of the first operands in the dtype of the result."""

    def rule(builder: Builder, node: Node) -> Node:
        first = list(bind(node).values())[:operands]
        return compute(*(value_of(builder, each, dtype_of(node)) for each in first)).node

    return rule
