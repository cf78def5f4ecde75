# SPDX-License-Identifier: Apache-2.0
"""Limits of the format and of MPSGraph, as constraints."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.mps.dtypes import ALL, FLOATS
from delegatec.backends.mps.operators.row import Constraint
from delegatec.edge.arguments import bind, tensors
from delegatec.edge.legalize.constraints import (
    contiguous,
    known_dtypes,
    no_empty_tensors,
    operand_dtypes,
    rank_at_most,
    same_dtypes,
    static_shapes,
)

EXACT_FLOAT32: Final = 2**24
"""The largest integer up to which float32, the format's type of scalars, is exact."""

UNIVERSAL: Final[tuple[Constraint, ...]] = (
    static_shapes("the runtime compiles the graph for the shapes in the blob."),
    known_dtypes(
        ALL,
        "Tensors are float32, float16, int8, int16, int32, int64 or bool: the runtime aborts on others, "
        "and reads a float64 buffer as float32.",
        "convert to float32 or int64",
    ),
    no_empty_tensors("MPSGraph does not support them."),
    rank_at_most(16, "the limit of MPSGraph."),
)


def exact_scalar(name: str) -> Constraint:
    """Requires an integer argument of an integer result to be exact in float32."""

    def broken(node: Node, _: object) -> str | None:
        value = bind(node)[name]
        dtype = tensors(node.meta["val"])[0].dtype
        if dtype in FLOATS or value is None or abs(value) <= EXACT_FLOAT32:
            return None
        return f"{name} is {value}"

    return Constraint(
        "argument", f"An integer {name} is at most 2^24: the format stores it as float32.", broken
    )


FLOAT_OPERANDS: Final = operand_dtypes(
    FLOATS, "MPSGraph computes it in floating point only.", "convert to float32"
)
SAME_DTYPES: Final = same_dtypes("MPSGraph does not promote here.")
CONTIGUOUS: Final = contiguous("the format does not have strides.")
