# SPDX-License-Identifier: Apache-2.0
"""Backbones of convolutions and attention."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as f

from tests.architectures.networks.blocks import conv_norm, join_heads, split_heads
from tests.architectures.networks.convolutional import CLASSES


class _PixelAttention(nn.Module):
    """Attention of all pixels, with a bias for each distance in rows and columns."""

    def __init__(self, channels: int, side: int, heads: int = 4, key: int = 8, value: int = 16) -> None:
        super().__init__()
        self.heads, self.sizes, self.scale = heads, [key, key, value], key**-0.5
        self.qkv = nn.Linear(channels, heads * sum(self.sizes))
        self.project = nn.Linear(heads * value, channels)
        self.biases = nn.Parameter(torch.zeros(heads, side * side))
        pixels = torch.cartesian_prod(torch.arange(side), torch.arange(side))
        distances = (pixels[:, None] - pixels).abs()
        self.register_buffer("index", distances[..., 0] * side + distances[..., 1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = split_heads(self.qkv(x), self.heads).split(self.sizes, -1)
        scores = query @ key.transpose(-2, -1) * self.scale + self.biases[:, self.index]
        return self.project(join_heads(scores.softmax(-1) @ value))


class EfficientFormer(nn.Module):
    """A stage that mixes pixels by pooling, and one with attention; two heads, of which one is distilled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, 16, 3, 2), conv_norm(16, 32, 3, 2))
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.scale = nn.Parameter(torch.full((32, 1, 1), 0.1))
        self.mlp = nn.Sequential(
            conv_norm(32, 64, 1, activation=nn.GELU), conv_norm(64, 32, 1, activation=None)
        )
        self.down = conv_norm(32, 48, 3, 2, activation=None)
        self.attention = nn.Sequential(nn.LayerNorm(48), _PixelAttention(48, 4))
        self.tokens = nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48))
        self.heads = nn.ModuleList(nn.Linear(48, CLASSES) for _ in range(2))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.stem(pixels)
        x = x + self.scale * (self.pool(x) - x)
        x = x + self.scale * self.mlp(x)
        x = self.down(x).flatten(2).transpose(1, 2)
        x = x + self.attention(x)
        x = (x + self.tokens(x)).mean(1)
        return (self.heads[0](x) + self.heads[1](x)) / 2


class EdgeNeXt(nn.Module):
    """Depthwise convolutions of split channels, then attention between channels instead of pixels."""

    def __init__(self, channels: int = 48, parts: int = 3, heads: int = 4, waves: int = 8) -> None:
        super().__init__()
        self.parts, self.heads, self.waves = parts, heads, waves
        part = channels // parts
        self.stem = nn.Conv2d(3, channels, 4, 4)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(part, part, 3, padding=1, groups=part) for _ in range(parts - 1)
        )
        self.position = nn.Conv2d(2 * waves, channels, 1)
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.project = nn.Linear(channels, channels)
        self.mlp = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, 2 * channels),
            nn.GELU(),
            nn.Linear(2 * channels, channels),
        )
        self.head = nn.Linear(channels, CLASSES)

    def _waves(self, rows: int, columns: int) -> torch.Tensor:
        """Sines and cosines of the counted rows and columns, ``[1, 2 * waves, rows, columns]``."""
        counted = torch.ones(1, rows, columns)
        exponents = 2 * torch.div(torch.arange(self.waves), 2, rounding_mode="floor") / self.waves
        features = []
        for axis in (1, 2):
            turns = counted.cumsum(axis)
            turns = turns / (turns.amax(axis, keepdim=True) + 1e-6) * 2 * math.pi
            angles = turns[..., None] / 10000**exponents
            features.append(torch.stack([angles[..., 0::2].sin(), angles[..., 1::2].cos()], 4).flatten(3))
        return torch.cat(features, 3).permute(0, 3, 1, 2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.stem(pixels)
        *mixed, last = x.chunk(self.parts, 1)
        for index, convolution in enumerate(self.convolutions):
            mixed[index] = convolution(mixed[index] if index == 0 else mixed[index] + mixed[index - 1])
        y = torch.cat([*mixed, last], 1)
        y = (y + self.position(self._waves(*y.shape[2:]))).flatten(2).transpose(1, 2)
        heads = (split_heads(part, self.heads) for part in self.qkv(self.norm(y)).chunk(3, -1))
        query, key, value = (head.transpose(-2, -1) for head in heads)
        scores = f.normalize(query, dim=-1) @ f.normalize(key, dim=-1).transpose(-2, -1)
        y = y + self.project(join_heads(((scores * self.temperature).softmax(-1) @ value).transpose(-2, -1)))
        y = self.mlp(y).transpose(1, 2).reshape(x.shape)
        return self.head((x + y).mean((-2, -1)))


class FastViT(nn.Module):
    """Mixes by a reparameterizable depthwise convolution, large kernels, and attention in the last stage."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv_norm(3, channels, 3, 2, activation=nn.GELU),
            conv_norm(channels, channels, 3, 2, channels, nn.GELU),
        )
        self.norm = nn.BatchNorm2d(channels)
        self.mixer = conv_norm(channels, channels, 3, 1, channels, None)
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.1))
        self.mlp = nn.Sequential(
            conv_norm(channels, channels, 7, 1, channels, None),
            nn.Conv2d(channels, 2 * channels, 1),
            nn.GELU(),
            nn.Conv2d(2 * channels, channels, 1),
        )
        self.down = nn.ModuleList(conv_norm(channels, channels, size, 2, channels, None) for size in (7, 3))
        self.position = nn.Conv2d(channels, channels, 7, 1, 3, groups=channels)
        self.before = nn.BatchNorm2d(channels)
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.project = nn.Linear(channels, channels)
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.stem(pixels)
        x = x + self.scale * (self.mixer(x) - self.norm(x))
        x = x + self.scale * self.mlp(x)
        x = f.gelu(self.down[0](x) + self.down[1](x))
        x = x + self.position(x)
        tokens = self.before(x).flatten(2).transpose(1, 2)
        query, key, value = (split_heads(part, 4) for part in self.qkv(tokens).chunk(3, -1))
        mixed = self.project(join_heads(f.scaled_dot_product_attention(query, key, value)))
        return self.head((x + self.scale * mixed.transpose(1, 2).reshape(x.shape)).mean((2, 3)))


class Involution(nn.Module):
    """Filters that are computed for each pixel: involution, then content-aware enlargement (CARAFE)."""

    def __init__(self, channels: int = 8, groups: int = 2, size: int = 3) -> None:
        super().__init__()
        self.groups, self.area = groups, size * size
        self.filters = nn.Conv2d(channels, groups * self.area, 1)
        self.enlarging = nn.Conv2d(channels, 4 * self.area, 3, padding=1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        batch, channels, rows, columns = pixels.shape
        filters = self.filters(pixels).view(batch, self.groups, 1, self.area, rows, columns)
        patches = f.unfold(pixels, 3, padding=1).view(batch, self.groups, -1, self.area, rows, columns)
        x = (filters * patches).sum(3).reshape(pixels.shape)
        weights = f.pixel_shuffle(self.enlarging(x), 2).softmax(1)
        near = f.interpolate(x, scale_factor=2, mode="nearest")
        patches = f.unfold(near, 3, dilation=2, padding=2)
        patches = patches.view(batch, channels, self.area, 2 * rows, 2 * columns)
        return torch.einsum("bkhw,bckhw->bchw", weights, patches)
