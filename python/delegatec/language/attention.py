# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache, and attention of encoders, as transformers calls them."""

from __future__ import annotations

import importlib
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

NAME: Final = "delegatec"
ENCODER: Final = "delegatec_encoder"
# The most scores that an encoder computes at a time.
_SCORES: Final = 2**24


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **keywords: Any
) -> tuple[Tensor, None]:
    """Computes attention to the rows of the cache of a layer.

    Args:
        module: the layer, with `layer_idx` and `delegatec_cache`.
        query: float32 [1, heads, n, size].
        key: those of the cache, [1, groups, context, size].
        value: those of the cache, [1, groups, context, size of values].
        attention_mask: not used: the mask is that of the cache.
        **keywords: the scale of the scores, "scaling"; the value that bounds them, "softcap"; and a score of
            each head without a value, "s_aux", a sink.

    Returns:
        float32 [1, n, heads, size of values].
    """
    cache: Any = module.delegatec_cache
    mask: Tensor = cache.mask(module.layer_idx)
    scale = keywords.get("scaling")
    softcap, sinks = keywords.get("softcap"), keywords.get("s_aux")
    if softcap is None and sinks is None:
        result = functional.scaled_dot_product_attention(
            query, key, value, mask, scale=scale, enable_gqa=True
        )
    else:
        scale = query.shape[3] ** -0.5 if scale is None else scale
        result = _with_scores(query * scale, key, value, mask, softcap, sinks)
    return result.transpose(1, 2), None


def _with_scores(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, softcap: float | None, sinks: Tensor | None
) -> Tensor:
    """Computes attention whose scores are bounded, or have a sink."""
    heads, count, groups = query.shape[1], query.shape[2], key.shape[1]
    per_group = heads // groups
    # the heads of a group are further rows of its query: keys and values are not repeated
    rows = torch.unflatten(query, 1, (groups, per_group)).flatten(2, 3)
    scores = torch.unflatten(rows @ key.transpose(2, 3), 2, (per_group, count))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = torch.where(mask[:, :, None], scores, -torch.inf)
    if sinks is None:
        weights = scores.softmax(4)
    else:
        sink = sinks.view(1, groups, per_group, 1, 1)
        largest = torch.maximum(scores.amax(4, keepdim=True), sink)
        terms = torch.exp(scores - largest)
        weights = terms / (terms.sum(4, keepdim=True) + torch.exp(sink - largest))
    return torch.unflatten(weights.flatten(2, 3) @ value, 2, (per_group, count)).flatten(1, 2)


def encoder_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **keywords: Any
) -> tuple[Tensor, None]:
    """Computes attention of all elements to all elements; arguments and result are those of `attention`.

    Since transformers knows no masks for it, encoders of inputs without padding receive none. Of large
    images, some heads are computed at a time: the scores of all of them would take gigabytes.
    """
    scale = keywords.get("scaling")
    step = max(1, _SCORES // (query.shape[2] * key.shape[2]))
    results = [
        functional.scaled_dot_product_attention(q, k, v, attention_mask, scale=scale)
        for q, k, v in zip(*(torch.split(each, step, 1) for each in (query, key, value)), strict=True)
    ]
    result = results[0] if len(results) == 1 else torch.cat(results, 1)
    return result.transpose(1, 2), None


def register_attention() -> None:
    """Makes `attention` and `encoder_attention` known to transformers."""
    interface: Any = importlib.import_module("transformers").AttentionInterface
    interface.register(NAME, attention)
    interface.register(ENCODER, encoder_attention)
