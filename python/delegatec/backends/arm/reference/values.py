# SPDX-License-Identifier: Apache-2.0
"""Constants of a TOSA graph as tensors."""

from __future__ import annotations

import math
from typing import Any

import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.constants import from_int48_bytes, from_six_bits
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import BITS, STORED
from delegatec.delegation.protocol.parts import join
from delegatec.edge.block_scaled import unpack


def constant(value: Value) -> Any:
    """Returns the tensor of a constant; of a shape, its sizes."""
    if value.is_shape:
        return value.elements
    stored = join([value.part or b""])
    if value.dtype == DType.INT48:
        return from_int48_bytes(stored).reshape(value.shape)
    if BITS[value.dtype] == 6:
        return from_six_bits(stored)[: math.prod(value.shape)].reshape(value.shape)
    data = torch.frombuffer(bytearray(stored), dtype=STORED.get(value.dtype, torch.uint8))
    if BITS[value.dtype] == 4:
        data = unpack(data)[: math.prod(value.shape)]
    return data.reshape(value.shape)
