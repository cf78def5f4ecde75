# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch


def _reshape(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    return x.reshape(tuple(shape))


def _transpose(x: torch.Tensor, perms: Sequence[int]) -> torch.Tensor:
    return x.permute(tuple(perms)).contiguous()


def _concat(*operands: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.cat(operands, axis)


KERNELS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "RESHAPE": _reshape,
    "TRANSPOSE": _transpose,
    "CONCAT": _concat,
}
