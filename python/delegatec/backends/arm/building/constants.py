# SPDX-License-Identifier: Apache-2.0
"""Constants of a graph: their bytes in TOSA's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.tosa_graph import DType
from torch.fx import Node

from delegatec.backends.arm.dtypes import BITS, BYTES, STORED
from delegatec.backends.common.constants import beyond_int32, name_of
from delegatec.delegation.protocol.parts import Part, tensor_bytes, tensor_part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import Diagnostic

_INT32: Final = torch.iinfo(torch.int32)


def constant_part(
    view: PartitionView,
    node: Node,
    dtype: int,
    arrange: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> tuple[Part, Diagnostic | None]:
    """Returns the bytes of a constant, and why it cannot be represented, if so.

    Args:
        view: the partition.
        node: the constant.
        dtype: its type in TOSA.
        arrange: moves its elements, if not None.
    """
    tensor = view.constants[node]
    if arrange is not None:
        tensor = arrange(tensor).contiguous()
    if dtype == DType.INT48:
        return int48_bytes(tensor), None
    if dtype in BYTES:
        return tensor_part(six_bits(tensor) if BITS[dtype] == 6 else tensor), None
    if tensor.dtype == torch.int64 and tensor.numel():
        low, high = (int(value) for value in tensor.aminmax())
        if low < _INT32.min or high > _INT32.max:
            lost = f"{name_of(view.program, node)} has values from {low} to {high}, beyond int32"
            return b"", beyond_int32(lost, next(iter(node.users), None))
    if tensor.dtype == torch.uint8:
        tensor = tensor.view(torch.int8)
    stored = STORED[dtype]
    return tensor_part(tensor if tensor.dtype == stored else tensor.to(stored)), None


def six_bits(codes: torch.Tensor) -> torch.Tensor:
    """Returns bytes with four codes in three of them, the first one in the low bits."""
    parts = codes.reshape(-1, 4).to(torch.int32)
    word = parts[:, 0] | parts[:, 1] << 6 | parts[:, 2] << 12 | parts[:, 3] << 18
    return word.view(torch.uint8).view(-1, 4)[:, :3].contiguous()


def from_six_bits(data: bytes) -> torch.Tensor:
    """Returns codes from `six_bits`."""
    padded = bytearray(data) + bytes(-len(data) % 3)
    low, middle, high = torch.frombuffer(padded, dtype=torch.uint8).view(-1, 3).to(torch.int32).T
    word = low | middle << 8 | high << 16
    return torch.stack([word >> shift & 63 for shift in (0, 6, 12, 18)], 1).flatten().to(torch.uint8)


def int48_bytes(tensor: torch.Tensor) -> bytes:
    """Returns the low 6 bytes of each element of int64."""
    return bytes(tensor_bytes(tensor.reshape(-1, 1).view(torch.uint8)[:, :6].contiguous()))


def from_int48_bytes(data: bytes) -> torch.Tensor:
    """Returns int64 from 6 bytes per element."""
    parts = torch.frombuffer(bytearray(data), dtype=torch.int16).view(-1, 3).to(torch.int64)
    low, middle = parts[:, 0] & 0xFFFF, parts[:, 1] & 0xFFFF
    return low | middle << 16 | parts[:, 2] << 32


def element(scalar: bool | int | float, dtype: torch.dtype) -> bytes:
    """Returns the bytes of one element."""
    return bytes(tensor_bytes(torch.tensor([scalar], dtype=dtype)))
