# SPDX-License-Identifier: Apache-2.0
"""A custom operator: a recursive filter, which would be a loop over all samples in torch's operators."""

from __future__ import annotations

import torch


@torch.library.custom_op("audio::biquad", mutates_args=())
def biquad(signal: torch.Tensor, b0: float, b1: float, b2: float, a1: float, a2: float) -> torch.Tensor:
    """Filters signals, [..., samples]: y[n] = b0 x[n] + b1 x[n-1] + b2 x[n-2] - a1 y[n-1] - a2 y[n-2]."""
    filtered = torch.empty_like(signal)
    x1 = x2 = y1 = y2 = torch.zeros_like(signal[..., 0])
    for n in range(signal.shape[-1]):
        x0 = signal[..., n]
        y0 = b0 * x0 + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
        filtered[..., n] = y0
        x1, x2, y1, y2 = x0, x1, y0, y1
    return filtered


@biquad.register_fake
def _(signal: torch.Tensor, *_: float) -> torch.Tensor:
    return torch.empty_like(signal)
