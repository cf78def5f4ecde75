# SPDX-License-Identifier: Apache-2.0
"""Grid samples of a volume."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import FunctionTable

aten = torch.ops.aten


def _grid_sampler_3d(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Samples x [N, C, D, H, W] at grid [N, d, h, w, 3], whose coordinates are in the order of W, H, D.

    Interpolation is 0 (linear) or 1 (nearest). Padding is 0 (zeros), 1 (border) or 2 (reflection).
    """
    if interpolation_mode > 1:
        return NotImplemented
    batch, channels = x.shape[:2]
    sizes = x.shape[:1:-1]
    positions = [
        _unnormalized(grid[..., axis], size, padding_mode, align_corners) for axis, size in enumerate(sizes)
    ]
    flat = x.reshape(batch, channels, -1)
    if interpolation_mode == 1:
        result = _at(flat, [torch.round(position) for position in positions], sizes)
    else:
        low = [torch.floor(position) for position in positions]
        parts = []
        for corner in range(8):
            ends = [corner >> axis & 1 for axis in range(3)]
            weight = torch.ones_like(positions[0])
            for position, start, end in zip(positions, low, ends, strict=True):
                weight = weight * (position - start if end else start + 1 - position)
            at = [start + end for start, end in zip(low, ends, strict=True)]
            parts.append(_at(flat, at, sizes) * weight.reshape(batch, 1, -1))
        result = parts[0]
        for part in parts[1:]:
            result = result + part
    return result.reshape(batch, channels, *grid.shape[1:4])


def _unnormalized(coordinate: Tensor, size: int, padding_mode: int, align_corners: bool) -> Tensor:
    """Maps coordinates in [-1, 1] to positions of elements."""
    position = (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2
    if padding_mode == 2:
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return torch.zeros_like(position)
        distance = (position - low).abs()
        extra = torch.fmod(distance, span)
        turns = torch.floor(distance / span)
        position = torch.where(torch.remainder(turns, 2.0) == 0, extra + low, span - extra + low)
    return position.clamp(0, size - 1) if padding_mode else position


def _at(flat: Tensor, positions: list[Tensor], sizes: Any) -> Tensor:
    """Gathers [N, C, points] from [N, C, D * H * W] at integer positions (W, H, D); 0 outside."""
    batch, channels = flat.shape[:2]
    inside = torch.ones_like(positions[0], dtype=torch.bool)
    index = torch.zeros_like(positions[0], dtype=torch.int64)
    for position, size in reversed(list(zip(positions, sizes, strict=True))):
        inside = inside & (position >= 0) & (position <= size - 1)
        index = index * size + position.clamp(0, size - 1).to(torch.int64)
    index = index.reshape(batch, 1, -1)
    found = torch.gather(flat, 2, index.expand(batch, channels, index.shape[2]))
    return torch.where(inside.reshape(batch, 1, -1), found, 0.0)


FUNCTIONS: FunctionTable = {
    aten.grid_sampler_3d.default: _grid_sampler_3d,
}
