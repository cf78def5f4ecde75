# SPDX-License-Identifier: Apache-2.0
"""Limits of the format and of XNNPACK, as constraints."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.xnnpack.dtypes import FLOATS
from delegatec.edge.arguments import values_of
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import (
    bounded_shapes,
    known_dtypes,
    no_empty_tensors,
    operand_dtypes,
    rank_at_most,
    same_dtypes,
)
from delegatec.edge.symbols import is_dynamic

UNIVERSAL: Final[tuple[Constraint[object], ...]] = (
    bounded_shapes("the program plans memory for the largest.", lambda _: True, ()),
    known_dtypes(
        FLOATS, "Values are float32 or float16: XNNPACK does not compute with integers.", "convert to float32"
    ),
    no_empty_tensors("XNNPACK does not support them."),
    rank_at_most(6, "the limit of XNNPACK."),
)


def _varies(node: Node, _: object) -> str | None:
    shapes = [value.shape for value in values_of(node) if is_dynamic(value.shape)]
    return f"has a dynamic shape {[str(size) for size in shapes[0]]}" if shapes else None


STATIC: Final = Constraint[object](
    "dynamic-shape",
    "Sizes are static: the runtime does not resize the results.",
    _varies,
    "make the size a constant of the model",
)
FLOAT_OPERANDS: Final = operand_dtypes(FLOATS, "XNNPACK computes in floating point.", "convert to float32")
SAME_DTYPES: Final = same_dtypes("XNNPACK does not promote.")
