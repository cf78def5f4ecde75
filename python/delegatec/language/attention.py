# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache, as transformers calls it."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor, nn
from torch.nn import functional

NAME: Final = "delegatec"


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **keywords: Any
) -> tuple[Tensor, None]:
    cache: Any = module.delegatec_cache
    mask = cache.mask(keywords.get("sliding_window"))
    result = functional.scaled_dot_product_attention(
        query, key, value, mask, scale=keywords.get("scaling"), enable_gqa=True
    )
    return result.transpose(1, 2), None


def register_attention() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)
