# SPDX-License-Identifier: Apache-2.0
"""Weights with scales, for targets that lack them."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of, short_name
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import INTEGERS
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.quantization.affine import AFFINE, scaled
from delegatec.edge.quantization.operators import operands_of

aten = torch.ops.aten

# The smallest value with all digits of float16.
_LEAST_NORMAL: Final = 2.0**-14


def _dequantize(builder: Builder, node: Node) -> Node:
    """Returns (weight - zero point) * scale."""
    found = operands_of(node)
    scales, zeros = found.scale, found.zero_point
    assert isinstance(scales, Node)
    value = builder.program.constants.get(scales.name)
    # The product of a weight and a small scale can have all digits again.
    if value is not None and dtype_of(scales) == torch.float16 != value.dtype and not has_all_digits(value):
        scales = builder.derived(scales, value, value.dtype)
    dtype = torch.promote_types(dtype_of(scales), dtype_of(node))
    has_zeros = isinstance(zeros, Node) and not is_zero(builder.program.constants.get(zeros.name))
    x, scale, zero = (
        None if each is None else value_of(builder, each, dtype)
        for each in (found.x, scales, zeros if has_zeros else None)
    )
    result: Value = scaled(x, found.block, scale, zero)
    return result.to(dtype_of(node)).view(*shape_of(node)).node


def has_all_digits(scales: torch.Tensor) -> bool:
    """Whether float16 has as many digits of each nonzero value as of large ones."""
    size = scales.detach().abs()
    return bool(((size == 0) | (size >= _LEAST_NORMAL)).all())


def is_zero(constant: torch.Tensor | None) -> bool:
    """Whether a value is a constant of zeros."""
    return constant is not None and not bool(constant.any())


def _dtype(node: Node, _: object) -> str | None:
    dtype = dtype_of(operands_of(node).x)
    return None if dtype in _INTEGERS else f"integers of dtype {short_name(dtype)}"


_INTEGERS: Final = INTEGERS | {torch.uint8}
QUANTIZED: Final = Constraint[object](
    "dtype", "The weight is int8, uint8, int16, int32 or int64.", _dtype, "quantize to int8"
)


REWRITES: Final = (
    Rewrite(
        AFFINE.dequantize_affine.default,
        _dequantize,
        (QUANTIZED,),
        "in float32 where float16 has fewer digits of a scale",
        preserved=True,
    ),
)
