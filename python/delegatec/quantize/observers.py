# SPDX-License-Identifier: Apache-2.0
"""Observers of activations that may be infinite, as masks are: these take the lowest or highest level."""

from __future__ import annotations

import torch
from torch import Tensor
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver


class FiniteHistogramObserver(HistogramObserver):  # type: ignore[misc]
    """A histogram of the finite values."""

    def forward(self, x: Tensor) -> Tensor:
        """Observes the values of a tensor, and returns it."""
        super().forward(_finite(x))
        return x


class FiniteMinMaxObserver(MinMaxObserver):  # type: ignore[misc]
    """The least and the largest of the finite values."""

    def forward(self, x: Tensor) -> Tensor:
        """Observes the values of a tensor, and returns it."""
        super().forward(_finite(x))
        return x


def _finite(x: Tensor) -> Tensor:
    is_finite = torch.isfinite(x)
    return x.detach() if bool(is_finite.all()) else x.detach()[is_finite]
