# SPDX-License-Identifier: Apache-2.0
"""Weights with groupwise scales, or with zero points, as weights with a scale per channel.

The runtime multiplies floats by int8 values with one scale per output channel, and without zero points. So a
layer becomes the sum of one such layer per group, over the inputs of the group. Zero points subtract the sum
of a group's inputs, times scale and zero point: one more layer of all groups' sums.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import are_normal_scales
from delegatec.backends.xnnpack.quantized.weights import has_form
from delegatec.edge.arguments import bind
from delegatec.edge.quantization.constant import SHIFT, Constant, QuantizedConstant, quantized_constant

_LEAST_SHIFTED: Final = -8
_VALUES_OF_INT4: Final = 16
_BYTES_OF_GROUP: Final = 970
"""Bytes that the operations, values and keys of a group take in a program, measured."""
_FLOAT_BYTES: Final = 4

aten = torch.ops.aten


def grouped_weight(node: Node, constant: Constant) -> QuantizedConstant | None:
    """Returns the weight that a node dequantizes, in int8 and by row.

    None if it dequantizes no weight; if the runtime has a form for the whole, see `has_form`; if calls other
    than linear layers read it; and if its float32 values take less than twice the bytes, as for layers with
    few outputs.

    Args:
        node: the weight of a linear layer.
        constant: returns the value of a constant node, and None for other nodes.
    """
    found = quantized_constant(node, constant)
    if found is None:
        return None
    if found.dtype not in (torch.int8, torch.uint8) or found.values.dim() != 2:
        return None
    if not found.values.numel() or not are_normal_scales(found.scales):
        return None
    is_read = all(user.target is aten.linear.default and bind(user)["weight"] is node for user in node.users)
    if not is_read or (has_form(found) and found.is_per_channel(0)):
        return None
    made = found.shifted(_shift(found)).by_row()
    return made if _bytes(made) * 2 <= _FLOAT_BYTES * found.values.numel() else None


def _shift(weight: QuantizedConstant) -> int:
    """Returns the offset to subtract from quantized values to make them int8, of four bits if possible."""
    low, high = weight.range
    if not weight.is_int4 and high - low < _VALUES_OF_INT4:
        return low - _LEAST_SHIFTED
    return SHIFT if weight.dtype == torch.uint8 and not weight.is_int4 else 0


def _bytes(weight: QuantizedConstant) -> int:
    """Returns about how many bytes of a program a weight takes."""
    parameters = weight.scales.numel() * (1 if weight.zero_points is None else 2)
    values = weight.values.numel() // (2 if weight.is_int4 else 1)
    return values + _FLOAT_BYTES * parameters + _BYTES_OF_GROUP * weight.groups
