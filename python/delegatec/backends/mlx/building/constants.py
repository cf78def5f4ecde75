# SPDX-License-Identifier: Apache-2.0
"""Constants of a graph: named data of the program. The key is a digest of the bytes, or the name in a `.ptd`.

So methods and delegates with equal constants share them, of any dtypes and shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange, ArrangedElements
from delegatec.backends.common.constants import (
    FLOAT16_MAX,
    FLOAT32_MAX,
    BFloat16Bytes,
    beyond_float16,
    is_beyond_float16,
    name_of,
    nonzero_in_float16,
    to_bfloat16,
    to_float16,
)
from delegatec.backends.common.node_values import Number
from delegatec.backends.common.settings import Overflow, Precision
from delegatec.backends.mlx.building.draft import Constant
from delegatec.backends.mlx.building.packing import PackedBytes, Packing, words
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.delegation import Part
from delegatec.delegation.protocol.parts import TensorBytes, digest, tensor_part
from delegatec.delegation.protocol.view import PartitionView, external_name
from delegatec.diagnostics import Diagnostic


class Constants:
    """Converts constants of a partition to bytes.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        view: the partition, or the body that is lowered.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        self.view = view
        self._saturates = settings.overflow is Overflow.SATURATE
        self._is_narrowed = settings.precision is Precision.BF16
        # a constant that cannot be converted; None for a scalar
        self._problems: list[tuple[Array | None, Diagnostic]] = []

    def of_node(
        self,
        node: Node,
        current: Node | None,
        arrange: Arrange | None = None,
        shape: Sequence[int] | None = None,
    ) -> tuple[Array, Constant]:
        """Returns the value of a placeholder in the dtype of the node.

        Args:
            node: the placeholder.
            current: the node that is lowered, for messages.
            arrange: permutes its elements while they are written.
            shape: of the permuted elements; by default that of the arrangement.
        """
        tensor, dtype = self.view.constants[node], node.meta["val"].dtype
        is_unchanged = arrange is None and dtype == tensor.dtype
        name = external_name(node, tensor) if is_unchanged else None
        if name is not None:
            return Array(dtype, tuple(tensor.shape)), Constant(name, None, node.name)
        data, found, lost = self._converted(tensor, dtype, arrange)
        array = Array(dtype, found if shape is None else tuple(shape))
        if lost:
            message = f"{name_of(self.view.program, node)} has {lost}"
            self._problems.append((array, beyond_float16(message, current)))
        return array, Constant(digest(data), data, node.name)

    def packed(self, node: Node, packing: Packing) -> tuple[Array, Constant]:
        """Returns matrices of integers in fewer bits, as uint32."""
        tensor = self.view.constants[node]
        data = PackedBytes(tensor, packing)
        *rows, columns = tensor.shape
        array = Array(torch.uint32, (*rows, words(columns, packing.bits)))
        return array, Constant(digest(data), data, node.name)

    def of_tensor(self, tensor: torch.Tensor) -> tuple[Array, Constant]:
        """Returns a tensor of the lowering, such as a table."""
        data = tensor_part(tensor)
        return Array(tensor.dtype, tuple(tensor.shape)), Constant(digest(data), data)

    def scalar(self, number: Number, dtype: torch.dtype, current: Node | None) -> tuple[Array, Constant]:
        """Returns a number in a dtype, of rank 0. Integers wrap around, as in ATen."""
        wide = torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)
        if dtype == torch.bfloat16 and self._is_narrowed:
            wide = to_bfloat16(wide.to(torch.float32))
        if dtype == torch.float16:
            wide = torch.tensor(self._narrowed(float(number), current), dtype=torch.float64)
        return self.of_tensor(wide.to(dtype))

    def _narrowed(self, number: float, current: Node | None) -> float:
        """Returns a number in the range of float16; reports one that is not."""
        if not is_beyond_float16(number):
            return nonzero_in_float16(number)
        if not self._saturates and abs(number) != FLOAT32_MAX:
            self._problems.append((None, beyond_float16(f"the scalar {number} is beyond float16", current)))
        return math.copysign(FLOAT16_MAX, number)

    def _converted(
        self, tensor: torch.Tensor, dtype: torch.dtype, arrange: Arrange | None
    ) -> tuple[Part, tuple[int, ...], str]:
        """Returns the bytes, the shape, and a text with the values out of float16's range, if any."""
        written = None if arrange is None else ArrangedElements(tensor, arrange)
        shape = tuple(tensor.shape) if written is None else written.shape
        if written is not None and written.is_row_major:
            written = None
        if dtype == torch.float16 and tensor.dtype == torch.float32:
            if tensor.numel() == 1:
                tensor = torch.full_like(tensor, nonzero_in_float16(tensor.item()))
            part, lost = to_float16(tensor, self._saturates, written)
            return part, shape, lost
        if dtype == torch.bfloat16 and tensor.dtype == torch.float32:
            return BFloat16Bytes(tensor.detach().reshape(-1) if written is None else written), shape, ""
        if written is not None:
            return TensorBytes(written, tensor.itemsize), shape, ""
        return tensor_part(tensor.to(dtype)), shape, ""

    def problems(self, constants: dict[Array, Constant]) -> list[Diagnostic]:
        """Returns why constants in use, or scalars, cannot be converted."""
        return [problem for array, problem in self._problems if array is None or array in constants]
