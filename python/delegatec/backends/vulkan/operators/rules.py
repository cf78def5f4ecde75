# SPDX-License-Identifier: Apache-2.0
"""Limits of the runtime that hold for all operators, as constraints."""

from __future__ import annotations

from typing import Final

from delegatec.backends.common.sizes import is_computable
from delegatec.backends.vulkan.dtypes import ALL, QUANTIZED
from delegatec.backends.vulkan.operators.row import Constraint
from delegatec.edge.legalize.constraints import bounded_shapes, known_dtypes, no_empty_tensors, rank_at_most
from delegatec.edge.legalize.rules.symbolic_scalars import WITH_NUMBERS

MOST_RANK: Final = 8
UNIVERSAL: Final[tuple[Constraint, ...]] = (
    bounded_shapes("tensors have memory for the largest sizes.", is_computable, WITH_NUMBERS),
    known_dtypes(
        ALL | QUANTIZED,
        "Tensors are float32, float16, int32, int64 or bool, or int8 if quantized: the runtime has shaders "
        "for these only.",
        "convert to float32 or int32",
    ),
    no_empty_tensors("a texture cannot be empty."),
    rank_at_most(MOST_RANK, "the limit of buffers."),
)
