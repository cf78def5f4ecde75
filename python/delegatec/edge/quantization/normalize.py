# SPDX-License-Identifier: Apache-2.0
"""One operator for weights that are dequantized, in place of one for channels and one for groups."""

from __future__ import annotations

import math
from typing import Final

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.operators import operands_of, quantized

_REPLACED: Final = frozenset(
    {quantized.dequantize_per_channel.default, quantized.dequantize_per_channel_group.default}
)


def normalize_dequantization(program: EdgeProgram) -> bool:
    """Replaces calls that dequantize channels or groups by those that dequantize blocks of any shape.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    changed = False
    for node in program.graph.nodes:
        if node.target not in _REPLACED:
            continue
        found, dtype = operands_of(node), dtype_of(node)
        scale = found.scale
        assert not isinstance(scale, float)
        # one scale serves all channels
        block = list(shape_of(found.x) if math.prod(shape_of(scale)) == 1 else found.block)
        node.target = AFFINE.dequantize_affine.default
        node.args = (found.x, block, scale, found.zero_point, found.dtype, found.low, found.high)
        node.kwargs = {"output_dtype": dtype}
        changed = True
    return changed
