# SPDX-License-Identifier: Apache-2.0
"""Random geometries of convolutions, pools and overlapping windows, of float32 only: they are many."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from tests.operators.sample import Maker, Sample, Samples, call


def _seeds(make: Maker, count: int) -> range:
    return range(count if make.dtype is torch.float32 else 0)


def _windows(chance: random.Random, dims: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Returns sizes of a window, strides, dilations, and sizes of an operand that contains windows."""
    taps, strides = ([chance.randint(1, 4) for _ in range(dims)] for _ in range(2))
    dilations = [chance.randint(1, 3) for _ in range(dims)]
    sizes = [d * (t - 1) + chance.randint(1, 4) for d, t in zip(dilations, taps, strict=True)]
    return taps, strides, dilations, sizes


def convolutions(make: Maker) -> Iterator[Sample]:
    """Convolutions of one to three dimensions, transposed or not."""
    for seed in _seeds(make, 48):
        chance = random.Random(seed)
        dims, transposed = 1 + seed % 3, seed % 2 == 1
        taps, strides, dilations, sizes = _windows(chance, dims)
        padding = [chance.randint(0, d * (t - 1) // 2 + 1) for d, t in zip(dilations, taps, strict=True)]
        sizes = [max(size, 2 * pad + 2) for size, pad in zip(sizes, padding, strict=True)]
        more = [chance.randint(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)]
        groups = chance.choice([1, 1, 2, 3])
        channels, outputs = groups * chance.choice([1, 2]), groups * chance.choice([1, 2])
        first, second = (channels, outputs) if transposed else (outputs, channels)
        x = make(chance.choice([1, 2]), channels, *sizes)
        weight = make(first, second // groups, *taps, low=-1, high=1)
        bias = make(outputs) if chance.random() < 0.5 else None
        rest = (transposed, more if transposed else [0] * dims, groups)
        yield call(x, weight, bias, strides, padding, dilations, *rest)


def average_pools(make: Maker) -> Iterator[Sample]:
    """Averages of two-dimensional windows."""
    for seed in _seeds(make, 24):
        chance = random.Random(seed)
        taps, strides, _, sizes = _windows(chance, 2)
        padding = [chance.randint(0, size // 2) for size in taps]
        flags = (chance.random() < 0.6, chance.random() < 0.6, chance.choice([None, None, 3]))
        yield call(make(*(2,) * (chance.random() < 0.8), 3, *sizes), taps, strides, padding, *flags)


def maximum_pools(dims: int) -> Samples:
    """Maxima of windows."""

    def samples(make: Maker) -> Iterator[Sample]:
        for seed in _seeds(make, 16):
            chance = random.Random(seed)
            taps, strides, dilations, sizes = _windows(chance, dims)
            padding = [chance.randint(0, size // 2) for size in taps]
            x = make.distinct(*(2,) * (chance.random() < 0.8), 2, *sizes)
            yield call(x, taps, strides, padding, dilations, chance.random() < 0.5)

    return samples


def adaptive_pools(make: Maker) -> Iterator[Sample]:
    """Pools of a number of windows."""
    for seed in _seeds(make, 12):
        chance = random.Random(seed)
        windows = [chance.randint(1, 12), chance.randint(1, 12)]
        yield call(make.distinct(1 + seed % 2, 3, chance.randint(4, 9), chance.randint(4, 9)), windows)


def overlaps(make: Maker) -> Iterator[Sample]:
    """Sums of overlapping windows."""
    for seed in _seeds(make, 12):
        chance = random.Random(seed)
        taps, strides, dilations, sizes = _windows(chance, 2)
        padding = [chance.randint(0, 2) for _ in taps]
        counts: list[Any] = [
            (size + 2 * pad - d * (t - 1) - 1) // stride + 1
            for size, pad, d, t, stride in zip(sizes, padding, dilations, taps, strides, strict=True)
        ]
        columns = make(2, 3 * taps[0] * taps[1], counts[0] * counts[1])
        yield call(columns, sizes, taps, dilations, padding, strides)
