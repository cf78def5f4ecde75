# SPDX-License-Identifier: Apache-2.0
"""Converts 0-d operands to the dtype of the computation.

A 0-d tensor does not promote a tensor of the same category: eager mode adds a 0-d float32 to a float16 in
float16. Kernels and backends promote by dtypes alone.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, operand_nodes, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram

_BINARY: Final = frozenset(
    getattr(getattr(torch.ops.aten, name), overload)
    for overload, names in {
        "Tensor": "add sub mul div fmod remainder eq ne lt le gt ge copysign xlogy"
        " bitwise_and bitwise_or bitwise_xor",
        "Tensor_Tensor": "pow",
        "Tensor_mode": "div",
        "default": "maximum minimum fmax fmin atan2 floor_divide hypot logaddexp logaddexp2 nextafter",
        "self": "where",
    }.items()
    for name in names.split()
)


def convert_scalars(program: EdgeProgram) -> bool:
    """Converts a 0-d operand to the dtype of the other one where that is the dtype of the computation."""
    return rewrite(program, dict.fromkeys(_BINARY, _convert))


def _convert(b: Builder, node: Node) -> Node | None:
    operands = operand_nodes(node)
    pair = [each for each in operands if each in node.args[-2:]]
    if len(pair) < 2 or dtype_of(pair[0]) == dtype_of(pair[1]):
        return None
    scalar, other = sorted(pair, key=lambda each: len(shape_of(each)))
    computed = torch.result_type(scalar.meta["val"], other.meta["val"])
    if computed == torch.promote_types(dtype_of(scalar), dtype_of(other)):
        return None
    node.replace_input_with(scalar, b.call(torch.ops.aten._to_copy.default, scalar, dtype=computed))
    return node
