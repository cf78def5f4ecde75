# SPDX-License-Identifier: Apache-2.0
"""Attention to caches, for tests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from delegatec.backends.common.testing import Compiled, compile_program, floats
from delegatec.backends.mlx.backend import MLX
from delegatec.edge import to_edge

LENGTH: Final = 12
CALLS: Final = ((0, 5), (5, 1), (6, 3), (9, 1), (10, 2), (0, 2), (2, 1))
"""The first position and the number of tokens of each call: two texts."""
Mask = Callable[[Tensor, Tensor], Tensor]


class Layer(nn.Module):
    """Attention of four heads to a cache of two, which the tokens of a call extend.

    Args:
        mask: of the indices of rows, [1, rows], and of positions, [tokens, 1].
        indices: of the rows of positions.
        dtype: of the cache; int8 with a scale for each row.
    """

    def __init__(
        self,
        mask: Mask = torch.le,
        indices: Callable[[Tensor], Tensor] = lambda positions: positions,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for name in ("key", "value"):
            self.register_buffer(name, torch.zeros(1, 2, LENGTH, 8, dtype=dtype))
            if dtype == torch.int8:
                self.register_buffer(f"{name}_scale", torch.zeros(1, 2, LENGTH, 1))
        self.mask, self.indices = mask, indices

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Stores the rows of the tokens, and attends to those that the mask allows."""
        positions = start + torch.arange(x.shape[1])
        heads = x.view(1, -1, 4, 8).transpose(1, 2)
        key, value = (self._stored(name, heads[:, :2] * 2, positions) for name in ("key", "value"))
        mask = self.mask(torch.arange(LENGTH)[None], positions[:, None])
        return functional.scaled_dot_product_attention(heads, key, value, mask[None, None], enable_gqa=True)

    def _stored(self, name: str, rows: Tensor, positions: Tensor) -> Tensor:
        cache: Tensor = getattr(self, name)
        indices = self.indices(positions)
        if cache.dtype == torch.float32:
            return cache.index_copy_(2, indices, rows)
        if cache.dtype != torch.int8:
            return cache.index_copy_(2, indices, rows.to(cache.dtype)).to(rows.dtype)
        scales: Tensor = getattr(self, f"{name}_scale")
        scale = (rows.abs().amax(-1, keepdim=True) / 127).clamp(min=2.0**-14)
        cache.index_copy_(2, indices, (rows / scale).round().to(torch.int8))
        scales.index_copy_(2, indices, scale)
        return cache.to(rows.dtype) * scales


def compiled(layer: nn.Module, precision: str = "fp32", tokens: int = 3, **options: str) -> Compiled:
    """Lowers a module to one delegate, which keeps its state.

    Args:
        layer: takes features [1, tokens, 32] and the first position.
        precision: "fp32", "fp16" or "bf16".
        tokens: of the example; a program of one token takes no others.
        **options: the backend's other options.
    """
    inputs = (floats(1, tokens, 32), torch.tensor([1]))
    shapes = ({1: Dim("tokens", min=1, max=5)}, None) if tokens > 1 else None
    exported = torch.export.export(copy.deepcopy(layer), inputs, dynamic_shapes=shapes)
    program = to_edge(exported, preserve=MLX.preserved_operators())
    program.owns_state = True
    found = compile_program("mlx", program, precision=precision, **options)
    assert (len(found.delegates), found.left) == (1, [])
    return found


def check(layer: nn.Module, found: Compiled, tolerance: float = 1e-5) -> None:
    """Compares `CALLS` with the module in eager mode, from the first state on."""
    eager = copy.deepcopy(layer)
    for start, count in CALLS:
        inputs = (floats(1, count, 32, seed=start + count), torch.tensor([start]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=tolerance, atol=tolerance)
