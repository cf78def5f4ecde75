# SPDX-License-Identifier: Apache-2.0
"""Constants that lowerings add to a TOSA graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.constants import int48_bytes
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import STORED, TO_TOSA
from delegatec.backends.common.node_values import Number
from delegatec.delegation.protocol.parts import tensor_bytes


class Constants:
    """Small constants with unique names; equal ones are shared.

    Args:
        taken: how often each name is used, which the graphs of one partition share.
    """

    def __init__(self, taken: dict[str, int]) -> None:
        self._taken = taken
        self._shared: dict[Hashable, Value] = {}

    def tensor(self, tensor: torch.Tensor, dtype: int | None = None) -> Value:
        """Returns a small constant tensor; equal ones are shared.

        Args:
            tensor: its value.
            dtype: its type in TOSA, by default that of the tensor; it has the bytes of the tensor.
        """
        dtype = TO_TOSA[tensor.dtype] if dtype is None else dtype
        if dtype in STORED:
            tensor = tensor.to(STORED[dtype])
        data = bytes(tensor_bytes(tensor.contiguous()))
        key = ("constant", dtype, tuple(tensor.shape), data)
        if key not in self._shared:
            elements = tuple(tensor.flatten().tolist())
            name = self._name("constant")
            self._shared[key] = Value(name, dtype, tuple(tensor.shape), data, elements, True)
        return self._shared[key]

    def int48_scalar(self, scalar: int) -> Value:
        """Returns an INT48 of one element."""
        value = torch.tensor([scalar])
        key = ("int48 scalar", scalar)
        if key not in self._shared:
            name = self._name("constant")
            self._shared[key] = Value(name, DType.INT48, (1,), int48_bytes(value), (scalar,), True)
        return self._shared[key]

    def scalar(self, value: Number, dtype: int, rank: int = 1) -> Value:
        """Returns a constant of one element and a rank, which broadcasts."""
        return self.full([1] * rank, value, dtype)

    def full(self, shape: Sequence[int], value: Number, dtype: int) -> Value:
        """Returns a constant with one value in all elements; an INT8 also has the bytes of a uint8."""
        if dtype == DType.INT8 and 128 <= value < 256:
            value -= 256
        return self.tensor(torch.full([*shape], value, dtype=STORED[dtype]))

    def shape(self, sizes: Sequence[int]) -> Value:
        """Returns a shape operand; equal ones are shared."""
        key = ("shape", *sizes)
        if key not in self._shared:
            data = b"".join(size.to_bytes(8, "little", signed=True) for size in sizes)
            name = self._name("shape")
            self._shared[key] = Value(name, DType.SHAPE, (len(sizes),), data, tuple(sizes), True)
        return self._shared[key]

    def _name(self, wanted: str) -> str:
        name, count = wanted, self._taken.get(wanted, 0)
        while name in self._taken:  # also with a suffix: a reshaped constant may be reshaped again
            name = f"{wanted}.{count}"
            count += 1
        self._taken[name] = 1
        self._taken[wanted] = max(count, 1)
        return name
