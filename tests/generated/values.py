# SPDX-License-Identifier: Apache-2.0
"""Tensors of generated programs: a function of dtype, shape, kind and seed."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from tests.generated.program import Input

FLOATS: Final = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS: Final = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16)

_SPECIAL: Final = (
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    100.0,
    1e-4,
)


def make(wanted: Input, shape: tuple[int, ...] | None = None) -> Tensor:
    """Makes the tensor of an input, the same at each run.

    Its values are "normal", "dyadic" (exact in every dtype), "special" (with NaN, infinities, zeros of both
    signs), "large", "ones", "zeros", or "index N" (integers below N). Integers are small, or extreme if
    "large".

    Args:
        wanted: the input.
        shape: another shape, of the same rank.
    """
    shape = wanted.shape if shape is None else shape
    random = torch.Generator().manual_seed(wanted.seed)
    dtype, kind = wanted.dtype, wanted.values
    if 0 in shape:
        return torch.zeros(shape, dtype=dtype)  # arithmetic makes other strides
    if kind in ("ones", "zeros"):
        return torch.full(shape, kind == "ones", dtype=dtype)
    if kind.startswith("index"):
        return torch.randint(0, max(int(kind.split()[1]), 1), shape, generator=random).to(dtype)
    if dtype is torch.bool:
        return torch.rand(shape, generator=random) > 0.4
    if not dtype.is_floating_point:
        low = 0 if dtype is torch.uint8 else -6
        drawn = torch.randint(low, 10, shape, generator=random)
        if kind == "large":
            # sums of int64 are exact up to 2^53
            end = min(torch.iinfo(dtype).max, 1 << 40)
            ends = torch.tensor([end, end - 1, -end if low else 0, end // 2 + 1])
            chosen = ends[torch.randint(0, 4, shape, generator=random)]
            drawn = torch.where(torch.rand(shape, generator=random) < 0.3, chosen, drawn)
        return drawn.to(dtype)
    drawn = torch.randn(shape, generator=random, dtype=torch.float64)
    if kind in ("dyadic", "special"):
        drawn = (drawn * 8).round() / 4
    if kind == "special":
        chosen = torch.tensor(_SPECIAL, dtype=torch.float64)[
            torch.randint(0, len(_SPECIAL), shape, generator=random)
        ]
        drawn = torch.where(torch.rand(shape, generator=random) < 0.4, chosen, drawn)
    if kind == "large":
        drawn = drawn * (30 if dtype is torch.float16 else 300)
    return drawn.to(dtype)


def tensors(inputs: tuple[Input, ...], sizes: dict[str, tuple[int, ...]] | None = None) -> dict[str, Tensor]:
    """Returns the tensors of inputs by name, in other shapes where `sizes` has one."""
    return {each.name: make(each, (sizes or {}).get(each.name)) for each in inputs}
