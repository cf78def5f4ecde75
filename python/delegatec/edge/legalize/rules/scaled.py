# SPDX-License-Identifier: Apache-2.0
"""Weights with scales, for targets that lack them."""

from __future__ import annotations

from typing import Any, Final

# Registers torch.ops.quantized_decomposed.
import torch
import torch.ao.quantization.fx._decomposed
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of, short_name
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import FLOATS, INTEGERS
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed

# The smallest number with all digits of float16.
_LEAST_NORMAL: Final = 2.0**-14


def _per_channel(builder: Builder, node: Node) -> Node:
    shape = shape_of(node)
    axis = positive(bind(node)["axis"], len(shape))
    along = tuple(size if dim == axis else 1 for dim, size in enumerate(shape))
    return _dequantized(builder, node, shape, along).node


def groups_of(node: Node) -> tuple[int, int, int]:
    """Returns the rows of a weight, the groups of a row and the columns of a group."""
    bound = bind(node)
    rows, columns = shape_of(bound["input"])
    group = bound["group_size"]
    if group > columns and shape_of(bound["scales"])[-1] == 1:
        group = columns
    return rows, columns // group, group


def _per_group(builder: Builder, node: Node) -> Node:
    rows, groups, columns = groups_of(node)
    scaled = _dequantized(builder, node, (rows, groups, columns), (rows, groups, 1))
    return scaled.view(rows, groups * columns).node


def _dequantized(builder: Builder, node: Node, shape: tuple[int, ...], along: tuple[int, ...]) -> Value:
    """Returns (weight - zero point) * scale.

    Args:
        builder: creates the calls.
        node: the call.
        shape: shape of the weight for the calculation.
        along: shape of the other operands, which broadcasts to that of the weight.
    """
    bound = bind(node)
    scales, zeros = bound["scales"], bound["zero_points"]
    value = builder.program.constants.get(scales.name)
    # The product of a weight and a small scale can have all digits again.
    if value is not None and dtype_of(scales) == torch.float16 != value.dtype and not has_all_digits(value):
        scales = builder.derived(scales, value, value.dtype)
    dtype = dtype_of(scales)
    levels = value_of(builder, bound["input"], dtype).view(*shape)
    if zeros is not None and not is_zero(builder.program.constants.get(zeros.name)):
        levels = levels - value_of(builder, zeros, dtype).view(*along)
    return (levels * value_of(builder, scales).view(*along)).to(dtype_of(node))


def has_all_digits(scales: torch.Tensor) -> bool:
    """Whether float16 has as many digits of each number but zero as of large ones."""
    size = scales.detach().abs()
    return bool(((size == 0) | (size >= _LEAST_NORMAL)).all())


def is_zero(constant: torch.Tensor | None) -> bool:
    """Whether a value is a constant of zeros."""
    return constant is not None and not bool(constant.any())


def _dtypes(node: Node, _: object) -> str | None:
    bound = bind(node)
    for name, kinds in (("input", INTEGERS), ("scales", FLOATS)):
        if dtype_of(bound[name]) not in kinds:
            return f"{name} of dtype {short_name(dtype_of(bound[name]))}"
    return None


QUANTIZED: Final = Constraint[object](
    "dtype",
    "The weight is int8, int16, int32 or int64, and the scales float32 or float16.",
    _dtypes,
    "quantize to int8",
)


def _weight(target: Any, rule: Any) -> Rewrite:
    note = "in float32 where float16 has fewer digits of a scale"
    return Rewrite(target, rule, (QUANTIZED,), note, preserved=True)


REWRITES: Final = (
    _weight(quantized.dequantize_per_channel.default, _per_channel),
    _weight(quantized.dequantize_per_channel_group.default, _per_group),
)
