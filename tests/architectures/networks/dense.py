# SPDX-License-Identifier: Apache-2.0
"""Networks with a result for each pixel: segmentation, detection, enlargement, key points."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as f

from tests.architectures.networks.blocks import conv_norm


class UNet(nn.Module):
    """Enlarges by transposed convolutions, and concatenates skip connections; the sizes need not be even."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double(*channels) for channels in ((3, 8), (8, 16), (16, 32)))
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(c, c // 2, 2, 2) for c in (32, 16))
        self.up = nn.ModuleList(_double(c, c // 2) for c in (32, 16))
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x, skips = self.down[0](pixels), []
        for block in self.down[1:]:
            skips.append(x)
            x = block(f.max_pool2d(x, 2))
        for enlarge, block, skip in zip(self.enlarge, self.up, reversed(skips), strict=True):
            x = enlarge(x)
            rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = f.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
            x = block(torch.cat([skip, x], 1))
        return self.head(x)


def _double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv_norm(inputs, outputs), conv_norm(outputs, outputs))


class DeepLabV3Plus(nn.Module):
    """Dilated convolutions of several rates and the mean of the image, enlarged in two stages."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.stem = conv_norm(3, 16, 3, 2)
        self.body = conv_norm(16, 24, 3, 2)
        self.branches = nn.ModuleList(
            [conv_norm(24, 16, 1)]
            + [nn.Sequential(nn.Conv2d(24, 16, 3, padding=rate, dilation=rate), nn.ReLU()) for rate in (2, 4)]
        )
        self.mean = conv_norm(24, 16, 1)
        self.head = nn.Conv2d(64, classes, 1)
        self.low = nn.Conv2d(16, classes, 1)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low = self.stem(pixels)
        x = self.body(low)
        mean = _resize(self.mean(f.adaptive_avg_pool2d(x, 1)), x)
        x = self.head(torch.cat([*(branch(x) for branch in self.branches), mean], 1))
        x = _resize(_resize(x, low) + self.low(low), pixels)
        return x.softmax(1), x.argmax(1)


def _resize(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return f.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)


class YOLO(nn.Module):
    """Pools of one size in a row, features of two sizes fused both ways, boxes from distributions."""

    def __init__(self, classes: int = 6, bins: int = 8) -> None:
        super().__init__()
        self.bins = bins
        self.register_buffer("distances", torch.arange(float(bins)))
        self.fine = nn.Sequential(_silu(3, 16, 3, 2), _silu(16, 24, 3, 2), _silu(24, 32, 3, 2))
        self.coarse = _silu(32, 48, 3, 2)
        self.reduce, self.pooled = _silu(48, 24, 1), _silu(96, 48, 1)
        self.join_fine, self.down, self.join_coarse = _silu(80, 32, 1), _silu(32, 32, 3, 2), _silu(80, 48, 1)
        self.boxes = nn.ModuleList(
            nn.Sequential(_silu(c, 16, 3), nn.Conv2d(16, 4 * bins, 1)) for c in (32, 48)
        )
        self.classes = nn.ModuleList(
            nn.Sequential(_silu(c, 16, 3), nn.Conv2d(16, classes, 1)) for c in (32, 48)
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        fine = self.fine(pixels)
        pools = [self.reduce(self.coarse(fine))]
        for _ in range(3):
            pools.append(f.max_pool2d(pools[-1], 5, 1, 2))
        coarse = self.pooled(torch.cat(pools, 1))
        larger = f.interpolate(coarse, scale_factor=2, mode="nearest")
        fine = self.join_fine(torch.cat([larger, fine], 1))
        coarse = self.join_coarse(torch.cat([self.down(fine), coarse], 1))
        found = []
        for level, x in enumerate((fine, coarse)):
            sides = self.boxes[level](x).flatten(2).unflatten(1, (4, self.bins))
            sides = (sides.softmax(2) * self.distances[:, None]).sum(2)
            rows, columns = x.shape[-2:]
            y, x_ = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
            centers = torch.stack([x_, y]).flatten(1)
            low, high = centers - sides[:, :2], centers + sides[:, 2:]
            boxes = torch.cat([(low + high) / 2, high - low], 1) * 8 * 2**level
            found.append(torch.cat([boxes, self.classes[level](x).flatten(2).sigmoid()], 1))
        return torch.cat(found, 2)


def _silu(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    return conv_norm(inputs, outputs, size, stride, activation=nn.SiLU)


class ESPCN(nn.Module):
    """Sub-pixel convolutions on top of a bicubic enlargement."""

    def __init__(self, factor: int = 3) -> None:
        super().__init__()
        self.factor = factor
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 5, padding=2),
            nn.PReLU(16),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(16, 3 * factor**2, 3, padding=1),
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        enlarged = f.interpolate(pixels, scale_factor=self.factor, mode="bicubic")
        return f.pixel_shuffle(self.layers(pixels), self.factor) + enlarged


class Heatmaps(nn.Module):
    """Key points: means of the pixels' positions, and the highest pixels with their scores."""

    def __init__(self, points: int = 5) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv_norm(3, 8, 3, 2), nn.Conv2d(8, points, 1))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        maps = self.layers(pixels)
        rows, columns = maps.shape[-2:]
        parts = maps.flatten(2).softmax(-1).view(maps.shape)
        x = (parts.sum(2) * torch.arange(columns)).sum(-1)
        y = (parts.sum(3) * torch.arange(rows)).sum(-1)
        scores, highest = maps.flatten(2).max(-1)
        return torch.stack([x, y], -1), scores, torch.stack([highest % columns, highest // columns], -1)
