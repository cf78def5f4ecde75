# SPDX-License-Identifier: Apache-2.0
"""Constants of a graph: their bytes in TOSA's types."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.constants import beyond_int32, name_of
from delegatec.delegation.protocol.parts import Part, tensor_bytes, tensor_part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import Diagnostic

_INT32: Final = torch.iinfo(torch.int32)


def constant_part(view: PartitionView, node: Node, dtype: torch.dtype) -> tuple[Part, Diagnostic | None]:
    """Returns the bytes of a constant, and why it cannot be represented, if so.

    Args:
        view: the partition.
        node: the constant.
        dtype: in which it is stored.
    """
    tensor = view.constants[node]
    if tensor.dtype == torch.int64 and tensor.numel():
        low, high = (int(value) for value in tensor.aminmax())
        if low < _INT32.min or high > _INT32.max:
            lost = f"{name_of(view.program, node)} has values from {low} to {high}, beyond int32"
            return b"", beyond_int32(lost, next(iter(node.users), None))
    if tensor.dtype == torch.uint8:
        tensor = tensor.view(torch.int8)
    return tensor_part(tensor if tensor.dtype == dtype else tensor.to(dtype)), None


def element(number: bool | int | float, dtype: torch.dtype) -> bytes:
    """Returns the bytes of one element."""
    return bytes(tensor_bytes(torch.tensor([number], dtype=dtype)))
