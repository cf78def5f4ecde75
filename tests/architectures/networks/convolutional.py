# SPDX-License-Identifier: Apache-2.0
"""Backbones for phones, of convolutions alone, before their branches are merged for inference."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as f

from tests.architectures.networks.blocks import SqueezeExcite, conv_norm

CLASSES = 10


class _RepVGGBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.square = conv_norm(inputs, outputs, 3, stride, activation=None)
        self.point = conv_norm(inputs, outputs, 1, stride, activation=None)
        self.identity = nn.BatchNorm2d(inputs) if inputs == outputs and stride == 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.square(x) + self.point(x)
        return torch.relu(y if self.identity is None else y + self.identity(x))


class RepVGG(nn.Module):
    """Blocks of a 3 x 3 and a 1 x 1 convolution and a batch norm of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            _RepVGGBlock(3, 16, 2), _RepVGGBlock(16, 16), _RepVGGBlock(16, 32, 2), _RepVGGBlock(32, 32)
        )
        self.head = nn.Linear(32, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(pixels).mean((2, 3)))


class _MobileOneBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1, branches: int = 3) -> None:
        super().__init__()
        self.depthwise = nn.ModuleList(
            conv_norm(inputs, inputs, size, stride, inputs, None) for size in (1, *(3,) * branches)
        )
        self.skip = nn.BatchNorm2d(inputs) if stride == 1 else None
        self.gate = SqueezeExcite(inputs)
        self.pointwise = nn.ModuleList(
            conv_norm(inputs, outputs, 1, activation=None) for _ in range(branches)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = sum(branch(x) for branch in self.depthwise)
        y = torch.relu(self.gate(y if self.skip is None else y + self.skip(x)))
        return torch.relu(sum(branch(y) for branch in self.pointwise))


class MobileOne(nn.Module):
    """Sums of several depthwise, then of several pointwise convolutions, with squeeze-and-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            conv_norm(3, 16, 3, 2),
            _MobileOneBlock(16, 16),
            _MobileOneBlock(16, 32, 2),
            _MobileOneBlock(32, 32),
        )
        self.head = nn.Linear(32, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(f.adaptive_avg_pool2d(self.blocks(pixels), 1).flatten(1))


class _Ghost(nn.Module):
    """Computes half of the channels from the other half; their number may be odd."""

    def __init__(self, inputs: int, outputs: int, activation: type[nn.Module] | None = nn.ReLU) -> None:
        super().__init__()
        half = -(-outputs // 2)
        self.outputs = outputs
        self.primary = conv_norm(inputs, half, 1, activation=activation)
        self.cheap = conv_norm(half, half, 3, groups=half, activation=activation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.primary(x)
        return torch.cat([y, self.cheap(y)], 1)[:, : self.outputs]


class GhostNetV2(nn.Module):
    """Ghost modules, gated by long convolutions over a smaller image."""

    def __init__(self, channels: int = 25) -> None:
        super().__init__()
        self.stem = conv_norm(3, 16, 3, 2)
        self.first = nn.Sequential(
            _Ghost(16, 48), conv_norm(48, 48, 3, 2, 48, None), SqueezeExcite(48), _Ghost(48, channels, None)
        )
        self.shortcut = nn.Sequential(
            conv_norm(16, 16, 3, 2, 16, None), conv_norm(16, channels, 1, activation=None)
        )
        self.second = nn.Sequential(_Ghost(channels, 71), _Ghost(71, channels, None))
        self.attention = nn.Sequential(
            conv_norm(channels, channels, 1, activation=None),
            nn.Conv2d(channels, channels, (1, 5), padding=(0, 2), groups=channels),
            nn.Conv2d(channels, channels, (5, 1), padding=(2, 0), groups=channels),
        )
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.stem(pixels)
        x = self.first(x) + self.shortcut(x)
        y = self.second(x)
        gate = torch.sigmoid(self.attention(f.avg_pool2d(x, 2)))
        y = y * f.interpolate(gate, size=y.shape[-2:], mode="nearest")
        return self.head(f.hardswish(x + y).mean((2, 3)))


class ShuffleNetV2(nn.Module):
    """Half of the channels pass; then the halves are shuffled, and the channels of groups."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 16, 3, 2)
        self.branch = nn.Sequential(conv_norm(8, 8, 1), conv_norm(8, 8, 3, 1, 8, None), conv_norm(8, 8, 1))
        self.grouped = nn.Conv2d(16, 24, 1, groups=4)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        left, right = self.stem(pixels).chunk(2, 1)
        x = f.channel_shuffle(torch.cat([left, self.branch(right)], 1), 2)
        x = f.relu6(f.channel_shuffle(self.grouped(x), 4))
        return self.head(f.adaptive_max_pool2d(x, 1).flatten(1))
