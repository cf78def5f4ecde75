# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch


def _reshape(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    return x.reshape(tuple(shape))


def _transpose(x: torch.Tensor, *, perms: Sequence[int]) -> torch.Tensor:
    return x.permute(tuple(perms)).contiguous()


def _concat(*operands: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.cat(operands, axis)


def _slice(x: torch.Tensor, start: Sequence[int], sizes: Sequence[int]) -> torch.Tensor:
    for dim, (first, size) in enumerate(zip(start, sizes, strict=True)):
        x = x.narrow(dim, first, size)
    return x.contiguous()


def _tile(x: torch.Tensor, multiples: Sequence[int]) -> torch.Tensor:
    return x.repeat(tuple(multiples))


def _pad(x: torch.Tensor, padding: Sequence[int], value: torch.Tensor) -> torch.Tensor:
    pairs = [padding[begin : begin + 2] for begin in range(0, len(padding), 2)]
    shape = [size + before + after for size, (before, after) in zip(x.shape, pairs, strict=True)]
    result = value.reshape(()).expand(shape).clone()
    inside = result
    for dim, (before, _) in enumerate(pairs):
        inside = inside.narrow(dim, before, x.shape[dim])
    inside.copy_(x)
    return result


def _reverse(x: torch.Tensor, *, axis: int) -> torch.Tensor:
    # torch does not flip float8
    return x.view(torch.uint8).flip(axis).view(x.dtype) if x.itemsize == 1 else x.flip(axis)


def _gather(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """values: [N, K, C]; indices: [N, W]."""
    batch = torch.arange(values.shape[0])[:, None]
    return values[batch, indices.to(torch.int64)]


def _scatter(values: torch.Tensor, indices: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """values: [N, K, C]; indices: [N, W], unique in each row; source: [N, W, C]."""
    batch = torch.arange(values.shape[0])[:, None]
    result = values.clone()
    result[batch, indices.to(torch.int64)] = source
    return result


KERNELS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "RESHAPE": _reshape,
    "TRANSPOSE": _transpose,
    "CONCAT": _concat,
    "SLICE": _slice,
    "TILE": _tile,
    "PAD": _pad,
    "REVERSE": _reverse,
    "GATHER": _gather,
    "SCATTER": _scatter,
}
