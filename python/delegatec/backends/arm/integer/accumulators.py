# SPDX-License-Identifier: Apache-2.0
"""Accumulators of sums of products, as operands of other calls."""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.backends.arm.dialect import INT48
from delegatec.backends.arm.integer.arithmetic import BITS
from delegatec.backends.arm.integer.conversion import Conversion
from delegatec.backends.arm.integer.values import Quantized
from delegatec.edge.quantization.scale import Quantization


def finished(conversion: Conversion, value: Quantized, node: Node | None) -> Quantized:
    """Returns accumulators in the parameters in which all users quantize them; as int32 if they are int48.

    Nothing but RESCALE has operands of int48.

    Args:
        conversion: the state.
        value: the accumulators.
        node: the floating-point value; None if it is not one of the program.
    """
    to = None if node is None else conversion.target(node)
    if to is None and value.dtype == INT48:
        scale = value.bound / ((1 << BITS) - 1)
        to = Quantization.full_range(torch.int32, scale)
    return value if to is None else conversion.quantized(value, to)
