# SPDX-License-Identifier: Apache-2.0
"""Dequantizes weights by one operator, instead of one for channels and one for groups."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS, operands_of, quantized

_OPERATORS: Final = frozenset(
    {
        quantized.dequantize_per_channel.default,
        quantized.dequantize_per_channel_group.default,
        DEQUANTIZE_BLOCKS,
    }
)


def normalize_dequantization(program: EdgeProgram) -> bool:
    """Replaces calls that dequantize channels or groups by those that dequantize blocks of any shape.

    Zero points that are constant zeros are removed, and products in float32 have scales in float32.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder, changed, constants = Builder(program), False, program.fixed_constants()
    for node in list(program.graph.nodes):
        if node.target not in _OPERATORS:
            continue
        found, dtype = operands_of(node), dtype_of(node)
        scale, zeros = found.scale, found.zero_point
        assert not isinstance(scale, float)
        # one scale serves all channels
        is_single = statically_known_true(math.prod(scale.meta["val"].shape) == 1)
        block = list(found.x.meta["val"].shape) if is_single and _is_static(found.x) else list(found.block)
        if isinstance(zeros, Node) and zeros.name in constants and not bool(constants[zeros.name].any()):
            zeros = None
        is_narrow = dtype is torch.float32 and dtype_of(scale) is not dtype
        block = [builder.at(node).scalar(each) if isinstance(each, torch.SymInt) else each for each in block]
        if scale.op == "placeholder" and (is_narrow or dtype_of(scale) is torch.float64):
            scale = builder.at(node).call(torch.ops.aten._to_copy.default, scale, dtype=torch.float32)
        node.target = DEQUANTIZE_BLOCKS
        node.args = (found.x, block, scale, zeros, found.dtype, found.low, found.high)
        node.kwargs = {"output_dtype": dtype}
        changed = True
    if changed:
        program.erase_unused_placeholders()
    return changed


def _is_static(node: Node) -> bool:
    return all(isinstance(size, int) for size in node.meta["val"].shape)
