# SPDX-License-Identifier: Apache-2.0
"""Tensors of a run: the values of a blob, with their types and elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

import torch
from delegatec_schemas.xnnpack_graph import DataType

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import shortened

MOST_DIMS: Final = 6
FLOATS: Final = frozenset({DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16})
QUANTIZED: Final = frozenset({DataType.INT8, DataType.UINT8})
"""Types with one scale and zero point for all elements."""
DTYPES: Final = {
    DataType.FLOAT32: torch.float32,
    DataType.FLOAT16: torch.float16,
    DataType.BFLOAT16: torch.bfloat16,
    DataType.INT32: torch.int32,
    DataType.INT8: torch.int8,
    DataType.UINT8: torch.uint8,
    DataType.BIAS_INT32: torch.int32,
    DataType.CHANNEL_INT8: torch.int8,
    DataType.CHANNEL_INT32: torch.int32,
    DataType.CHANNEL_INT4: torch.int8,
    DataType.GROUP_INT4: torch.int8,
    DataType.DYNAMIC_INT8: torch.int8,
}
"""Type of the format -> dtype of elements here: four-bit values are int8, in [-8, 8)."""


def reject(message: str) -> NoReturn:
    """Rejects a blob that the runtime would refuse, or compute something undefined for.

    Raises:
        DelegatecError: DC408.
    """
    raise DelegatecError(
        [Diagnostic("DC408", f"the XNNPACK runtime cannot run this blob: {shortened(message)}")]
    )


@dataclass
class Tensor:
    """A value of the blob.

    Attributes:
        id: in the blob.
        data_type: of the format.
        rank: the declared number of dimensions.
        scale: float32: of all elements, of channels, or [channels, groups]; of rows, once they are computed.
        zero_point: the quantized value of 0; int32 of rows, once they are computed.
        channel_dim: the dimension of channels.
        group_size: inputs in a group.
        row_dims: the number of dimensions of a dynamically quantized row.
        value: the elements; quantized values of quantized types. None before they are computed.
        is_constant: whether its elements are in the blob or named data.
    """

    id: int
    data_type: int
    rank: int
    scale: torch.Tensor | None = None
    zero_point: int | torch.Tensor = 0
    channel_dim: int = 0
    group_size: int = 0
    row_dims: int = 0
    value: torch.Tensor | None = None
    is_constant: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its elements."""
        return DTYPES[self.data_type]

    @property
    def is_float(self) -> bool:
        """Whether its elements are floats."""
        return self.data_type in FLOATS

    @property
    def one_scale(self) -> float:
        """The scale of all elements."""
        assert self.scale is not None
        return float(self.scale)

    @property
    def one_zero_point(self) -> int:
        """The quantized value of 0 of all elements."""
        assert isinstance(self.zero_point, int)
        return self.zero_point

    @property
    def least(self) -> int:
        """The lowest quantized value."""
        return torch.iinfo(self.dtype).min

    @property
    def most(self) -> int:
        """The highest quantized value."""
        return torch.iinfo(self.dtype).max

    def real(self) -> torch.Tensor:
        """Returns the elements as float32; quantized values of one scale are dequantized."""
        assert self.value is not None
        if self.data_type in QUANTIZED:
            return (self.value.float() - self.one_zero_point) * self.one_scale
        return self.value.float()
