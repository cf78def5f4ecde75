# SPDX-License-Identifier: Apache-2.0
"""Constants of a graph: named data of the program, by their content."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas import vulkan_graph as schema
from torch.fx import Node

from delegatec.backends.common.constants import (
    FLOAT16_MAX,
    FLOAT32_MAX,
    beyond_float16,
    beyond_int32,
    is_beyond_float16,
    name_of,
    nonzero_in_float16,
    to_float16,
)
from delegatec.backends.common.settings import Overflow
from delegatec.backends.vulkan.checks import NAMED
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.delegation import Part
from delegatec.delegation.protocol.backend import NamedData
from delegatec.delegation.protocol.parts import digest, tensor_part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import DelegatecError, Diagnostic

# The softmax shader for buffers initializes the maximum of a row to -3.402823e38. The lowest float32,
# which models use as a mask, is below: the results of a fully masked row would be zero.
_LEAST_SCORE: Final = -3.40282e38
_INT32: Final = torch.iinfo(torch.int32)


class Constants:
    """The constants of a graph, each stored once.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        data: key -> bytes.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        self.data: dict[str, NamedData] = {}
        self._view = view
        self._saturates = settings.overflow is Overflow.SATURATE
        self._indices: dict[str, int] = {}
        self._problems: list[Diagnostic] = []

    def add(self, node: Node, tensor: torch.Tensor, dtype: torch.dtype) -> tuple[int, schema.BytesT]:
        """Adds the value of a constant.

        Args:
            node: its placeholder.
            tensor: its value.
            dtype: in which it is stored.

        Returns:
            Its index, the next one if it is new, and its description.
        """
        data, lost = self._converted(tensor, dtype)
        if lost:
            problem = beyond_float16 if dtype == torch.float16 else beyond_int32
            name = name_of(self._view.program, node)
            self._problems.append(problem(f"{name} has {lost}", _user(node)))
        return self._add(data)

    def add_scalar(
        self, value: bool | int | float, dtype: torch.dtype, node: Node | None
    ) -> tuple[int, schema.BytesT]:
        """Adds a tensor of rank 0; see `add`."""
        return self._add(tensor_part(torch.tensor(self.representable(value, dtype, node), dtype=dtype)))

    def representable(
        self, value: bool | int | float, dtype: torch.dtype, node: Node | None
    ) -> bool | int | float:
        """Returns a scalar in the range of a dtype; reports it if it is beyond float16 or int32."""
        if dtype == torch.float32 and -FLOAT32_MAX <= value < _LEAST_SCORE:
            return _LEAST_SCORE
        if dtype == torch.int32 and not _INT32.min <= value <= _INT32.max:
            self._problems.append(beyond_int32(f"the scalar {value} is beyond int32", node))
            return 0
        if dtype != torch.float16 or not math.isfinite(value):
            return value
        if is_beyond_float16(value) and not self._saturates and abs(value) != FLOAT32_MAX:
            self._problems.append(beyond_float16(f"the scalar {value} is beyond float16", node))
        return nonzero_in_float16(max(-FLOAT16_MAX, min(FLOAT16_MAX, value)))

    def _converted(self, tensor: torch.Tensor, dtype: torch.dtype) -> tuple[Part, str]:
        if tensor.dtype == torch.float32 and dtype == torch.float16:
            return to_float16(tensor, self._saturates)
        if dtype == torch.float32 and tensor.numel() and tensor.min() < _LEAST_SCORE:
            tensor = torch.where(tensor.isinf() | (tensor > _LEAST_SCORE), tensor, _LEAST_SCORE)
        if tensor.dtype == torch.int64 and tensor.numel():
            low, high = tensor.aminmax()
            if low < _INT32.min or high > _INT32.max:
                return b"", f"values from {low} to {high}, beyond int32"
        return tensor_part(tensor.to(dtype)), ""

    def _add(self, data: Part) -> tuple[int, schema.BytesT]:
        key = digest(data)
        self.data.setdefault(key, NamedData(data))
        index = self._indices.setdefault(key, len(self._indices))
        return index, schema.BytesT(NAMED, len(data), key)

    def check(self) -> None:
        """Raises DC406 for each constant that is beyond float16 or int32."""
        if self._problems:
            raise DelegatecError(self._problems)


def _user(constant: Node) -> Node | None:
    """Returns an operator that uses a constant, rather than its copy to the device."""
    for user in constant.users:
        return next(iter(user.users), user) if user.target is torch.ops.aten.clone.default else user
    return None
