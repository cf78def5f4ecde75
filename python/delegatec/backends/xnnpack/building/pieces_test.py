# SPDX-License-Identifier: Apache-2.0
"""The parts of a large depthwise kernel compute the same, and are the cheapest known ones."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as f

from delegatec.backends.xnnpack.building.pieces import Axis, Piece, pieces
from delegatec.backends.xnnpack.depthwise import MOST_TAPS


def parts_of(kernel: tuple[int, int], padding: tuple[int, int, int, int]) -> tuple[Piece, ...]:
    top, bottom, left, right = padding
    return pieces(Axis(kernel[0], top, bottom), Axis(kernel[1], left, right))


def counts(parts: tuple[Piece, ...]) -> list[int]:
    return [part.rows.number * part.columns.number for part in parts]


@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize(
    ("kernel", "padding"),
    [
        ((7, 7), (3, 3, 3, 3)),
        ((7, 7), (0, 0, 0, 0)),
        ((7, 7), (6, 0, 1, 2)),
        ((9, 9), (4, 4, 4, 4)),
        ((5, 6), (2, 2, 2, 3)),
        ((13, 13), (6, 6, 6, 6)),
        ((1, 31), (0, 0, 15, 15)),
        ((1, 31), (0, 0, 30, 0)),
        ((1, 31), (0, 0, 0, 0)),
        ((28, 1), (13, 14, 0, 0)),
        ((31, 31), (15, 15, 15, 15)),
    ],
)
def test_the_sum_is_the_convolution(
    kernel: tuple[int, int],
    padding: tuple[int, int, int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
) -> None:
    generator = torch.Generator().manual_seed(0)
    top, bottom, left, right = (
        amount * factor for amount, factor in zip(padding, [dilation[0]] * 2 + [dilation[1]] * 2, strict=True)
    )
    height, width = ((size - 1) * factor + 9 for size, factor in zip(kernel, dilation, strict=True))
    x = torch.randn(1, 2, height, width, generator=generator, dtype=torch.float64)
    weight = torch.randn(2, 1, *kernel, generator=generator, dtype=torch.float64)
    wanted = f.conv2d(f.pad(x, [left, right, top, bottom]), weight, None, stride, 0, dilation, 2)
    total = torch.zeros_like(wanted)
    for part in parts_of(kernel, padding):
        assert part.rows.number * part.columns.number <= MOST_TAPS
        taps = part.columns.of(part.rows.of(weight, -2), -1)
        vertical = part.rows.padding((top, bottom), kernel[0], dilation[0])
        horizontal = part.columns.padding((left, right), kernel[1], dilation[1])
        assert min(*vertical, *horizontal) >= 0
        steps = (part.rows.step * dilation[0], part.columns.step * dilation[1])
        total += f.conv2d(f.pad(x, [*horizontal, *vertical]), taps, None, stride, 0, steps, 2)
    torch.testing.assert_close(total, wanted)


def test_the_parts_of_usual_kernels() -> None:
    """The fastest measured ones, see docs/xnnpack.md."""
    assert counts(parts_of((7, 7), (3, 3, 3, 3))) == [25, 8, 6, 6, 4]
    assert counts(parts_of((9, 9), (4, 4, 4, 4))) == [25, 20, 20, 16]
    assert counts(parts_of((1, 31), (0, 0, 15, 15))) == [8, 8, 8, 7]
    # no tap is zero if the image is padded by half of the kernel
    for size in range(6, 15):
        half = size // 2
        assert sum(counts(parts_of((size, size), (half, half, half, half)))) == size**2
