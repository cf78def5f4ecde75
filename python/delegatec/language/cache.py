# SPDX-License-Identifier: Apache-2.0
"""v0"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Cache(nn.Module):
    def __init__(self, config: Any, context: int) -> None:
        super().__init__()
        self.context = context
        heads = config.num_key_value_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.count = config.num_hidden_layers
        for i in range(self.count):
            self.register_buffer(f"key_{i}", torch.zeros(1, heads, context, dim), persistent=False)
            self.register_buffer(f"value_{i}", torch.zeros(1, heads, context, dim), persistent=False)

    def begin(self, positions: Tensor) -> None:
        self.positions = positions

    def mask(self, window: int | None) -> Tensor:
        rows = torch.arange(self.context)[None]
        own = self.positions[:, None]
        mask = rows <= own
        if window:
            mask = mask & (rows > own - window)
        return mask[None, None]

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *a: Any, **k: Any) -> tuple[Tensor, Tensor]:
        ck, cv = getattr(self, f"key_{layer_idx}"), getattr(self, f"value_{layer_idx}")
        ck.index_copy_(2, self.positions, key)
        cv.index_copy_(2, self.positions, value)
        return ck, cv

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0
