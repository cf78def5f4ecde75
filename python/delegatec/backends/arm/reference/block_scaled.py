# SPDX-License-Identifier: Apache-2.0
"""Operators on blocks with scales: values are codes, one in a byte, and scales are bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch
from torch.nn import functional as f

from delegatec.backends.arm.building.operation import Operation
from delegatec.backends.arm.dtypes import FORMATS
from delegatec.edge.block_scaled import decode, encode

_NAMES: Final = {value: name for name, value in FORMATS.items()}


def _cast(operation: Operation, x: torch.Tensor) -> list[torch.Tensor]:
    return [*encode(x, _NAMES[operation.outputs[0].dtype])]


def _decoded(operation: Operation, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns both factors, whose scales follow them."""
    name = _NAMES[operation.inputs[0].dtype]
    return [decode(operands[start], operands[start + 1], name) for start in (0, 2)]


def _matmul(operation: Operation, *operands: torch.Tensor) -> list[torch.Tensor]:
    x, y = _decoded(operation, operands)
    return [x @ y.transpose(1, 2)]


def _conv2d(
    operation: Operation,
    x: torch.Tensor,
    x_scales: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> list[torch.Tensor]:
    images, kernels = _decoded(operation, (x, x_scales, weight, scales))
    top, bottom, left, right = pad
    padded = f.pad(images, [0, 0, left, right, top, bottom]).movedim(3, 1)
    sums = f.conv2d(padded, kernels.movedim(3, 1), None, tuple(stride), 0, tuple(dilation))
    return [(sums.movedim(1, 3) + bias).contiguous()]


KERNELS: Final[Mapping[str, Callable[..., list[torch.Tensor]]]] = {
    "CAST_TO_BLOCK_SCALED": _cast,
    "MATMUL_T_BLOCK_SCALED": _matmul,
    "CONV2D_BLOCK_SCALED": _conv2d,
}
