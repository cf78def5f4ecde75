# SPDX-License-Identifier: Apache-2.0
"""Attention and rotary embeddings with their results, for tests."""

from __future__ import annotations

from typing import Final

import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.vulkan.reference.testing import BUFFER, WIDTH
from delegatec.backends.vulkan.testing.reference.cases import Case, random

_ROWS: Final = (BUFFER, WIDTH)


def _attention(
    columns: int, depth: int, mask: tuple[int, ...] | None = None, scale: float | None = None
) -> Case:
    q, k, v = random(2, 3, 5, depth), random(2, 3, columns, depth), random(2, 3, columns, depth)
    added = None if mask is None else random(*mask)
    expected = F.scaled_dot_product_attention(q, k, v, added, scale=scale)
    placements = _ROWS if columns % 4 == 0 and depth % 4 == 0 else (WIDTH,)
    return Case("et_vk.sdpa.default", [q, k, v, added, scale], expected, placements)


def _pairs(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    turns = torch.complex(cosines, sines)[:, None, :]
    return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turns).flatten(-2)


def _halves(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    size = cosines.shape[-1]
    first, second = x[..., : size // 2], x[..., size // 2 : size]
    turned = torch.cat([-second, first], -1)
    rotated = x[..., :size] * cosines[:, None] + turned * sines[:, None]
    return torch.cat([rotated, x[..., size:]], -1)


_Q, _K = random(1, 3, 4, 16), random(1, 3, 2, 16)
_COSINES, _SINES = random(3, 8), random(3, 8)
_TABLES = [table.repeat(1, 2) for table in (random(7, 4), random(7, 4))]
_X, _TABLE = random(2, 3, 8), random(3, 8)

CASES: Final = [
    _attention(8, 8),
    _attention(7, 8, scale=0.3),
    _attention(8, 6, (1, 1, 5, 8)),
    _attention(8, 8, (2, 3, 5, 8)),
    _attention(7, 8, (5, 7)),
    Case(
        "et_vk.apply_rotary_emb.default",
        [_Q, _K, _COSINES, _SINES],
        [_pairs(_Q, _COSINES, _SINES), _pairs(_K, _COSINES, _SINES)],
        _ROWS,
    ),
    Case(
        "et_vk.apply_rotary_emb_hf.default",
        [_Q, _K, *_TABLES, 2],
        [_halves(x, _TABLES[0][2:5], _TABLES[1][2:5]) for x in (_Q, _K)],
        _ROWS,
    ),
    Case(
        "et_vk.apply_rotary_emb_interleaved.default",
        [_X, _TABLE],
        _pairs(_X[:, :, None], _TABLE[:, ::2], _TABLE[:, 1::2])[:, :, 0],
        _ROWS,
        {1: BUFFER},
    ),
]
