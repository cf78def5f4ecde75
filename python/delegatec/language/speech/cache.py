# SPDX-License-Identifier: Apache-2.0
"""The state of a decoder of speech: keys and values of earlier tokens, and those of the encoder's output."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from delegatec.language.cache import Cache, register_rows, store_rows
from delegatec.language.layer_kinds import AttentionLayer


class TokenCache(Cache):
    """Keys and values of earlier tokens, with what decoders of speech ask a cache for."""

    # properties of layers for masks, which are those of this cache
    is_sliding = is_linear = is_dummy = ()

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Returns 0: positions are arguments of the decoder."""
        return 0


class AudioCache(nn.Module):
    """Keys and values of the encoder's output, which the decoder computes once.

    Args:
        layers: the layers of attention to the output, by index.
        frames: the most frames of the output.
        dtype: of keys and values.
    """

    def __init__(self, layers: Mapping[int, AttentionLayer], frames: int, dtype: str = "float32") -> None:
        super().__init__()
        self.frames = frames
        for index, layer in layers.items():
            for name, size in (("key", layer.key_size), ("value", layer.value_size)):
                register_rows(self, f"{name}_{index}", (layer.heads, frames, size), dtype)

    @contextmanager
    def at(self, computed: Tensor, frames: Any) -> Iterator[None]:
        """Sets the frames whose keys and values a call computes, int64 [n], and the number of all frames."""
        self._computed = computed
        is_whole = isinstance(frames, int) and frames == self.frames
        rows = torch.arange(self.frames)[None]
        self._mask = None if is_whole else (rows < torch.full((1, 1), frames))[None, None]
        try:
            yield
        finally:
            del self._computed, self._mask

    def mask(self, layer_idx: int) -> Tensor | None:
        """Returns whether tokens attend to each frame, bool [1, 1, 1, frames]; None for all."""
        return self._mask

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Stores keys and values [1, heads, n, size] of the computed frames; returns those of all rows."""
        names = f"key_{layer_idx}", f"value_{layer_idx}"
        keys, values = (
            store_rows(self, name, self._computed, rows)
            for name, rows in zip(names, (key, value), strict=True)
        )
        return keys, values


class Unmasked:
    """Counterpart of a cache in layers of the encoder, which attend to all frames."""

    def mask(self, layer_idx: int | None) -> None:
        """Returns None."""


def joined(tokens: TokenCache, audio: AudioCache) -> Any:
    """Returns both caches, as decoders of transformers take them: none holds anything for them."""
    kind: Any = importlib.import_module("transformers").EncoderDecoderCache
    result = kind.__new__(kind)
    result.self_attention_cache, result.cross_attention_cache = tokens, audio
    result.is_updated = {}
    return result
