# SPDX-License-Identifier: Apache-2.0
"""Small networks with the structures of common ones, for tests of their layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as f


def layer(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    activation: Callable[[], nn.Module] = nn.ReLU6,
) -> nn.Module:
    """A convolution, a batch norm and an activation."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), activation())


class _SqueezeExcite(nn.Module):
    def __init__(self, is_linear: bool) -> None:
        super().__init__()
        self.is_linear = is_linear
        self.first, self.last = layer(3, 16), layer(16, 8)
        self.down: nn.Module = nn.Linear(16, 4) if is_linear else nn.Conv2d(16, 4, 1)
        self.up: nn.Module = nn.Linear(4, 16) if is_linear else nn.Conv2d(4, 16, 1)

    def forward(self, x: Tensor) -> Any:
        x = self.first(x)
        gate = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3), keepdim=not self.is_linear)))))
        return self.last(x * (gate[:, :, None, None] if self.is_linear else gate))


class _Concatenation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = layer(3, 8), layer(3, 8, 1), layer(16, 4)

    def forward(self, x: Tensor) -> Any:
        return self.c(torch.cat([self.a(x), self.b(x)], 1))


class _Chunks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = layer(3, 16, 1), layer(8, 8), layer(8, 8), layer(24, 8, 1)

    def forward(self, x: Tensor) -> Any:
        parts = list(self.a(x).chunk(2, 1))
        parts.append(parts[-1] + self.c(self.b(parts[-1])))
        return self.d(torch.cat(parts, 1))


class _Shuffle(nn.Module):
    """Channel shuffle before a convolution, which computes channels alone or together."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.a, self.b = layer(3, 16), layer(16, 16, groups=groups)

    def forward(self, x: Tensor) -> Any:
        x = self.a(x)
        batch, channels, height, width = x.shape
        x = x.view(batch, 4, 4, height, width).transpose(1, 2)
        return self.b(x.reshape(batch, channels, height, width))


class _Padding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = ((3, 1), (8, 2), (8, 1), (8, 2))
        self.layers = nn.ModuleList(nn.Conv2d(inputs, 8, 3, stride) for inputs, stride in sizes)

    def forward(self, x: Tensor) -> Any:
        for each in self.layers:
            x = f.relu6(each(f.pad(x, (0, 1, 0, 1))))
        return x


class _Block(nn.Module):
    """A block of ConvNeXt."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.spatial = nn.Conv2d(channels, channels, 7, 1, 3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels))

    def forward(self, x: Tensor) -> Any:
        y = self.norm(self.spatial(x).permute(0, 2, 3, 1))
        y = self.down(f.gelu(self.up(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class _GroupNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, 1, 1), nn.Conv2d(16, 8, 3)
        self.weight = nn.Parameter(torch.rand(16))

    def forward(self, x: Tensor) -> Any:
        x = self.a(x)
        y = x.view(x.shape[0], 4, -1)
        y = y - y.mean(-1, keepdim=True)
        y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5)
        return self.b(torch.relu(y.view(x.shape) * self.weight[:, None, None]))


class _Attention(nn.Module):
    def __init__(self, heads: int = 2, width: int = 16) -> None:
        super().__init__()
        self.heads, self.stem, self.norm = heads, nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.qkv, self.out, self.last = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            nn.Linear(width, 5),
        )

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x).flatten(2).transpose(1, 2)
        batch, count, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, count, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = ((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).reshape(batch, count, width)
        return self.last((x + self.out(y)).mean(1))


class _Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.last = layer(3, 8), nn.Linear(8 * 64, 10)

    def forward(self, x: Tensor) -> Any:
        return self.last(f.max_pool2d(self.a(x), 4).flatten(1))


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.last = layer(3, 8), layer(8, 8), layer(8, 8), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Any:
        x = f.max_pool2d(self.a(x), 3, 2, 1)
        x = torch.relu(x + self.c(self.b(x)))
        return self.last(f.adaptive_avg_pool2d(x, 1).flatten(1))


class _UNet(nn.Module):
    def __init__(self, is_resized: bool) -> None:
        super().__init__()
        self.is_resized = is_resized
        self.a, self.b, self.up, self.c = (
            layer(3, 8),
            layer(8, 8),
            nn.ConvTranspose2d(8, 8, 2, 2),
            layer(16, 4),
        )

    def forward(self, x: Tensor) -> Any:
        x = self.a(x)
        y = self.b(f.max_pool2d(x, 2))
        y = f.interpolate(y, scale_factor=2, mode="bilinear") if self.is_resized else self.up(y)
        return self.c(torch.cat([y, x], 1))


class _Detector(nn.Module):
    """The end of YOLOv8: pools with one window, and heads whose results are concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (layer(inputs, 8, 3, 2, activation=nn.SiLU) for inputs in (3, 8))
        self.c = layer(32, 8, 1)
        self.heads = nn.ModuleList(nn.Conv2d(8, 12, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Any:
        a = self.a(x)
        pools = [self.b(a)]
        for _ in range(3):
            pools.append(f.max_pool2d(pools[-1], 5, 1, 2))
        values = (a, self.c(torch.cat(pools, 1)))
        found = torch.cat([head(x).flatten(2) for head, x in zip(self.heads, values, strict=True)], 2)
        boxes, classes = torch.split(found, [4, 8], 1)
        return torch.cat([boxes * 2, classes.sigmoid()], 1)


class _Anchors(_Detector):
    """The end of YOLOv5: a row per anchor."""

    def forward(self, x: Tensor) -> Any:
        a = self.a(x)
        found = []
        for head, value in zip(self.heads, (a, self.b(a)), strict=True):
            y = head(value)
            batch, _, height, width = y.shape
            y = y.view(batch, 3, 4, height, width).permute(0, 1, 3, 4, 2)
            found.append(y.reshape(batch, -1, 4))
        return torch.cat(found, 1).sigmoid()


class _PixelShuffle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = layer(3, 16), nn.Conv2d(4, 3, 3, 1, 1)

    def forward(self, x: Tensor) -> Any:
        x = self.a(x)
        batch, _, height, width = x.shape
        x = x.view(batch, 4, 2, 2, height, width).permute(0, 1, 4, 2, 5, 3)
        return self.b(x.reshape(batch, 4, 2 * height, 2 * width))


class _Windows(nn.Module):
    """A block of Swin, shifted, without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.linear, self.mix = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x).permute(0, 2, 3, 1)
        batch, height, width, channels = x.shape
        y = self.mix(f.gelu(self.linear(x)))
        y = y.view(batch, height // 4, 4, width // 4, 4, channels).transpose(2, 3)
        y = y.reshape(-1, 16, channels)
        y = y.softmax(1)
        y = y.view(batch, height // 4, width // 4, 4, 4, channels).transpose(2, 3)
        return (x + y.reshape(batch, height, width, channels)).mean((1, 2))


class _Audio(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Conv1d(4, 8, 5, 2, 2), nn.BatchNorm1d(8)
        self.b, self.last = nn.Conv1d(8, 8, 3, padding=1, groups=8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        x = torch.relu(self.norm(self.a(x)))
        return self.last(f.max_pool1d(torch.relu(self.b(x)), 2).mean(-1))


class _Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.a = nn.Linear(6, 8 * 16), nn.ConvTranspose2d(8, 4, 4, 2, 1)

    def forward(self, x: Tensor) -> Any:
        return self.a(torch.relu(self.linear(x)).view(-1, 8, 4, 4))


def _image() -> Tensor:
    return torch.randn(2, 3, 32, 32)


NETWORKS: Final[dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], int]]] = {
    "squeeze and excite": (lambda: _SqueezeExcite(False), _image, 2),
    "squeeze and excite by linear": (lambda: _SqueezeExcite(True), _image, 2),
    "concatenation": (_Concatenation, _image, 2),
    "chunks": (_Chunks, _image, 2),
    "shuffle": (lambda: _Shuffle(1), _image, 2),
    "depthwise shuffle": (lambda: _Shuffle(16), _image, 2),
    "grouped shuffle": (lambda: _Shuffle(4), _image, 2),
    "padding": (_Padding, _image, 2),
    "ConvNeXt": (lambda: nn.Sequential(nn.Conv2d(3, 16, 4, 4), _Block(16), _Block(16)), _image, 2),
    "group norm": (_GroupNorm, _image, 2),
    # q, k and v, and the result of the heads; the image
    "attention": (_Attention, _image, 5),
    "classifier": (_Classifier, _image, 1),
    "residual": (_Residual, _image, 1),
    "U-Net": (lambda: _UNet(False), _image, 2),
    "U-Net that resizes": (lambda: _UNet(True), _image, 2),
    "detector": (_Detector, _image, 2),
    "anchors": (_Anchors, _image, 3),
    "pixel shuffle": (_PixelShuffle, _image, 3),
    "windows": (_Windows, _image, 2),
    "audio": (_Audio, lambda: torch.randn(2, 4, 33), 1),
    "decoder": (_Decoder, lambda: torch.randn(2, 6), 1),
}
"""Name -> network, input, and the least number of permutations."""
