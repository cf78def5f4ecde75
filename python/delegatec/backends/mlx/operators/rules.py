# SPDX-License-Identifier: Apache-2.0
"""Limits of the format and of the runtime, as constraints."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.sizes import is_computable
from delegatec.backends.mlx.compile_spec import Runtime, Settings
from delegatec.backends.mlx.dtypes import ALL, FLOATS
from delegatec.backends.mlx.operators.row import Constraint
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import (
    bounded_shapes,
    contiguous,
    known_dtypes,
    no_empty_tensors,
    operand_dtypes,
    rank_at_most,
    same_dtypes,
)
from delegatec.edge.legalize.rules.symbolic_scalars import WITH_NUMBERS
from delegatec.edge.symbols import is_scalar, largest

EXACT_FLOAT32: Final = 2**24
"""The largest integer up to which float32, the format's type of some scalars, is exact."""

UNIVERSAL: Final[tuple[Constraint, ...]] = (
    bounded_shapes("the runtime of the program plans memory for results.", is_computable, WITH_NUMBERS),
    known_dtypes(
        ALL,
        "Tensors are float32, float16, bfloat16, int8, uint8, int16, int32, int64 or bool: the runtime has "
        "no others.",
        "convert to float32 or int64",
    ),
    no_empty_tensors("the runtime refuses to fill them, and to infer their sizes."),
    rank_at_most(16, "the limit of the runtime."),
)


def _computed(node: Node, _: object) -> str | None:
    for each in bind(node).values():
        if isinstance(each, Node) and is_scalar(each):
            value = each.meta["val"]
            if not isinstance(value, torch.SymInt) or not is_computable(value):
                return f"the computed number {value}"
            if (largest(value) or EXACT_FLOAT32) >= EXACT_FLOAT32:
                return f"the size {value}, of up to {largest(value)}"
    return None


KNOWN_NUMBERS: Final = Constraint(
    "argument", "Computed numbers are sizes below 2^24, which the format's float32 represents.", _computed
)


def _computed_step(node: Node, _: object) -> str | None:
    return "its step follows from a dynamic size" if isinstance(bind(node)["step"], Node) else None


STATIC_STEP: Final = Constraint(
    "argument", "The step is static: it is a field of the format.", _computed_step
)

FLOAT_OPERANDS: Final = operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32")
SAME_DTYPES: Final = same_dtypes("the runtime promotes by other rules than ATen.")
CONTIGUOUS: Final = contiguous("the format does not have strides.")


def _old_runtime(_: Node, settings: Settings) -> str | None:
    return "the runtime of 1.4.1 lacks it" if settings.runtime is Runtime.V1_4_1 else None


FROM_1_5_1: Final = Constraint("runtime", "The option runtime is 1.5.1.", _old_runtime)
