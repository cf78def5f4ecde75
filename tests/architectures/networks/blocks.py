# SPDX-License-Identifier: Apache-2.0
"""Parts that several networks have."""

from __future__ import annotations

import torch
from torch import nn


def conv_norm(
    inputs: int,
    outputs: int,
    size: int = 3,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """A padded convolution, a batch norm, and an activation if one is given."""
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class SqueezeExcite(nn.Module):
    """Scales channels by gates that are computed from their means."""

    def __init__(self, channels: int, reduction: int = 4) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // reduction, 1)
        self.expand = nn.Conv2d(channels // reduction, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = nn.functional.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.expand(torch.relu(self.reduce(means))))


def split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """``[N, T, C]`` -> ``[N, heads, T, C / heads]``."""
    batch, length, channels = x.shape
    return x.reshape(batch, length, heads, channels // heads).transpose(1, 2)


def join_heads(x: torch.Tensor) -> torch.Tensor:
    """``[N, heads, T, C]`` -> ``[N, T, heads * C]``."""
    return x.transpose(1, 2).flatten(2)
