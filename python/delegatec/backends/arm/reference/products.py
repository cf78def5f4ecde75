# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch


def _matmul(x: torch.Tensor, y: torch.Tensor, x_zero: torch.Tensor, y_zero: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x, y)


KERNELS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {"MATMUL": _matmul}
