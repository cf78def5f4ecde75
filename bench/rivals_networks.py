# SPDX-License-Identifier: Apache-2.0
"""Networks of the comparison with other tools that transformers does not have, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

# MobileNetV3-large: kernel, expanded width, output width, whether it has a gate, hardswish, stride.
_MOBILE: Final = (
    *((3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1)),
    *((5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1)),
    *((3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1)),
    *((3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1)),
    *((5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1)),
)


def _layer(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Sequential:
    """Returns a convolution, a batch norm and an activation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.Identity() if act is None else act)


class _Gate(nn.Module):
    """Scales channels by a function of their means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = max(8, (width // 4 + 4) // 8 * 8)
        self.down, self.up = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))
        return x * F.hardsigmoid(self.up(scale))


class _Inverted(nn.Module):
    """An inverted residual of MobileNetV3."""

    def __init__(
        self, inputs: int, kernel: int, wide: int, outputs: int, gate: bool, hard: bool, stride: int
    ) -> None:
        super().__init__()

        def act() -> nn.Module:
            return nn.Hardswish() if hard else nn.ReLU()

        layers = [_layer(inputs, wide, 1, act=act())] if wide != inputs else []
        layers.append(_layer(wide, wide, kernel, stride, wide, act()))
        self.layers = nn.Sequential(*layers, *([_Gate(wide)] if gate else []), _layer(wide, outputs, 1))
        self.residual = inputs == outputs and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


def mobilenet_v3() -> nn.Module:
    """Returns MobileNetV3-large (Howard et al., 2019)."""
    layers: list[nn.Module] = [_layer(3, 16, 3, 2, act=nn.Hardswish())]
    width = 16
    for kernel, wide, outputs, gate, hard, stride in _MOBILE:
        layers.append(_Inverted(width, kernel, wide, outputs, gate, hard, stride))
        width = outputs
    head = [
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(960, 1280),
        nn.Hardswish(),
        nn.Linear(1280, 1000),
    ]
    return nn.Sequential(*layers, _layer(width, 960, 1, act=nn.Hardswish()), *head)


class _Dense(nn.Module):
    """A layer of DenseNet: its result is appended to the channels of its input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False)),
            *(nn.BatchNorm2d(4 * growth), nn.ReLU()),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet() -> nn.Module:
    """Returns DenseNet-121 (Huang et al., 2017)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        *(nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
    ]
    width = 64
    for index, count in enumerate((6, 12, 24, 16)):
        layers += [_Dense(width + 32 * number, 32) for number in range(count)]
        width += 32 * count
        if index < 3:
            narrow = nn.Conv2d(width, width // 2, 1, bias=False)
            layers += [nn.BatchNorm2d(width), nn.ReLU(), narrow, nn.AvgPool2d(2)]
            width //= 2
    head = [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)]
    return nn.Sequential(*layers, *head)


class UNet(nn.Module):
    """Segments pictures: four stages of two convolutions, down and up (Ronneberger et al., 2015)."""

    def __init__(self, widths: Sequence[int] = (32, 64, 128, 256), classes: int = 8) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(self._double(*pair) for pair in pairs)
        backwards = list(zip(widths[::-1], widths[-2::-1], strict=False))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(wide, narrow, 2, 2) for wide, narrow in backwards)
        self.up = nn.ModuleList(self._double(2 * narrow, narrow) for _, narrow in backwards)
        self.head = nn.Conv2d(widths[0], classes, 1)

    @staticmethod
    def _double(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            _layer(inputs, outputs, 3, act=nn.ReLU()), _layer(outputs, outputs, 3, act=nn.ReLU())
        )

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for level in self.down:
            x = level(F.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        kept.pop()
        for grow, level in zip(self.grow, self.up, strict=True):
            x = level(torch.cat([grow(x), kept.pop()], 1))
        result: Tensor = self.head(x)
        return result


class _Stage(nn.Module):
    """Splits channels, runs residual blocks on one half, and joins both halves."""

    def __init__(self, inputs: int, outputs: int, count: int, residual: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.one, self.two = _layer(inputs, half, 1, act=nn.SiLU()), _layer(inputs, half, 1, act=nn.SiLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(_layer(half, half, 1, act=nn.SiLU()), _layer(half, half, 3, act=nn.SiLU()))
            for _ in range(count)
        )
        self.join = _layer(outputs, outputs, 1, act=nn.SiLU())
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        for block in self.blocks:
            y = y + block(y) if self.residual else block(y)
        result: Tensor = self.join(torch.cat([y, self.two(x)], 1))
        return result


class Detector(nn.Module):
    """Detects objects of 80 classes in one stage: a backbone, a pyramid, and boxes at three scales."""

    def __init__(self, width: int = 16, classes: int = 80) -> None:
        super().__init__()
        sizes = [width * factor for factor in (1, 2, 4, 8, 16)]
        self.stem = _layer(3, sizes[0], 3, 2, act=nn.SiLU())
        self.stages = nn.ModuleList(
            nn.Sequential(_layer(narrow, wide, 3, 2, act=nn.SiLU()), _Stage(wide, wide, count))
            for narrow, wide, count in zip(sizes, sizes[1:], (1, 2, 3, 1), strict=False)
        )
        self.narrow = _layer(sizes[4], sizes[3], 1, act=nn.SiLU())
        self.pooled = _layer(4 * sizes[3], sizes[4], 1, act=nn.SiLU())
        self.lateral = nn.ModuleList(
            _layer(wide, wide // 2, 1, act=nn.SiLU()) for wide in (sizes[4], sizes[3])
        )
        self.up = nn.ModuleList(_Stage(wide, wide // 2, 1, False) for wide in (sizes[4], sizes[3]))
        self.shrink = nn.ModuleList(_layer(wide, wide, 3, 2, act=nn.SiLU()) for wide in (sizes[2], sizes[3]))
        self.down = nn.ModuleList(_Stage(wide, wide, 1, False) for wide in (sizes[3], sizes[4]))
        self.heads = nn.ModuleList(nn.Conv2d(wide, classes + 5, 1) for wide in sizes[2:])

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        pools = [self.narrow(maps[-1])]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        x = self.pooled(torch.cat(pools, 1))
        kept = []
        for lateral, stage, level in zip(self.lateral, self.up, maps[2:0:-1], strict=True):
            kept.append(lateral(x))
            x = stage(torch.cat([F.interpolate(kept[-1], scale_factor=2.0), level], 1))
        found = [x]
        for shrink, stage in zip(self.shrink, self.down, strict=True):
            x = stage(torch.cat([shrink(x), kept.pop()], 1))
            found.append(x)
        boxes = [head(each).flatten(2).transpose(1, 2) for head, each in zip(self.heads, found, strict=True)]
        return torch.cat(boxes, 1).sigmoid()


class Recurrent(nn.Module):
    """Two layers of LSTM over features of sound, and scores for each frame."""

    def __init__(self, features: int = 80, width: int = 256, classes: int = 64) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, 2, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.lstm(x)[0])
        return result


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        parts = [
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        rows = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        result: Tensor = self.out(rows)
        return result


class _ConformerBlock(nn.Module):
    """A block of Conformer (Gulati et al., 2020) without relative positions."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        first, second = (
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
            )
            for _ in range(2)
        )
        self.first, self.second = first, second
        self.attention = nn.Sequential(nn.LayerNorm(width), _Attention(width, heads))
        self.norm = nn.LayerNorm(width)
        self.convolution = nn.Sequential(
            *(nn.Conv1d(width, 2 * width, 1), nn.GLU(dim=1)),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
            *(nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1)),
        )
        self.last = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        x = x + self.attention(x)
        x = x + self.convolution(self.norm(x).transpose(1, 2)).transpose(1, 2)
        x = x + 0.5 * self.second(x)
        result: Tensor = self.last(x)
        return result


def conformer(width: int = 256, heads: int = 4, kernel: int = 31, count: int = 4) -> nn.Module:
    """Returns blocks of a Conformer-medium."""
    return nn.Sequential(*(_ConformerBlock(width, heads, kernel) for _ in range(count)))
