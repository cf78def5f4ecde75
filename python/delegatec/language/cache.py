# SPDX-License-Identifier: Apache-2.0
"""The state of a decoder in buffers: keys and values, operands of convolutions, and recurrent ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from delegatec.language.layer_kinds import ConvolutionLayer, Layer, RecurrentLayer

_DTYPES: Final = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8}
_LARGEST: Final = 127
# For rows of zeros; it has a reciprocal in float16, too.
_LEAST_SCALE: Final = 2.0**-14


class Cache(nn.Module):
    """The state, with the methods of a cache that networks of transformers call.

    Args:
        layers: the kinds of state of each layer of the network, by index.
        context: tokens that it holds.
        prefill: the most tokens of a call.
        dtype: of keys and values; "int8" with a scale for each row of a head.
    """

    def __init__(
        self, layers: Mapping[int, Sequence[Layer]], context: int, prefill: int, dtype: str = "float32"
    ) -> None:
        super().__init__()
        self.context, self.prefill = context, prefill
        self.windows: dict[int, int] = {}
        for index, kinds in layers.items():
            for kind in kinds:
                self._add(index, kind, dtype)

    def _add(self, index: int, layer: Layer, dtype: str) -> None:
        if isinstance(layer, ConvolutionLayer):
            self._register(f"operand_{index}", layer.channels, layer.width)
        elif isinstance(layer, RecurrentLayer):
            self._register(f"state_{index}", *layer.shape)
        else:
            self.windows[index] = layer.window if layer.window < self.context else 0
            rows = self.rows(index)
            for name, size in (("key", layer.key_size), ("value", layer.value_size)):
                register_rows(self, f"{name}_{index}", (layer.heads, rows, size), dtype)

    def _register(self, name: str, *sizes: int) -> None:
        self.register_buffer(name, torch.zeros(1, *sizes), persistent=False)

    def rows(self, layer_idx: int) -> int:
        """Returns the rows of keys and values of a layer.

        Those of a window are used again: each has room for the tokens of a call besides those that the first
        of them attends to, so that an error in a call loses no row of the call before it.
        """
        window = self.windows[layer_idx]
        return min(window + self.prefill, self.context) if window else self.context

    @contextmanager
    def at(self, positions: Tensor, last_rows: Tensor | None = None) -> Iterator[None]:
        """Sets the tokens of a call in the scope.

        Args:
            positions: those of the tokens, consecutive, int64 [n].
            last_rows: the last position that each token attends to, int64 [n]; None for its own.
        """
        self._positions = positions
        self._last_rows = positions if last_rows is None else last_rows
        self._masks: dict[int, Tensor] = {}
        self._indices: dict[int, Tensor] = {self.context: positions}
        try:
            yield
        finally:
            del self._positions, self._last_rows, self._masks, self._indices

    def mask(self, layer_idx: int) -> Tensor:
        """Returns whether tokens attend to rows of a layer, bool [1, 1, n, rows]."""
        window = self.windows[layer_idx]
        if window not in self._masks:
            last, rows = self._last_rows[:, None], torch.arange(self.rows(layer_idx))[None]
            # as a row is used first for the position with its number, later rows have later positions, too
            mask = rows <= last
            if len(rows[0]) < self.context:
                newest = self._positions[-1]
                rows = newest - (newest - rows) % len(rows[0])
                mask = mask & (rows <= last)
            if window:
                mask = mask & (rows > self._positions[:, None] - window)
            self._masks[window] = mask[None, None]
        return self._masks[window]

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Stores keys and values [1, heads, n, size] of the tokens; returns those of all rows."""
        return self._stored(f"key_{layer_idx}", key), self._stored(f"value_{layer_idx}", value)

    def _stored(self, name: str, rows: Tensor) -> Tensor:
        """Stores rows [1, heads, n, size] of the tokens; returns all rows, float32."""
        count = getattr(self, name).shape[2]
        if count not in self._indices:
            self._indices[count] = self._positions % count
        return store_rows(self, name, self._indices[count], rows)

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> None:
        """Returns no state: one token is computed as several are."""

    def update_conv_state(
        self, x: Tensor, layer_idx: int, state_idx: int = 0, conv_kernel_size: int | None = None
    ) -> Tensor:
        """Returns the operand of a convolution [1, channels, n], after that of the tokens before it.

        The state is that of the last call, regardless of its positions, or zeros at position 0.
        """
        name = f"operand_{layer_idx}"
        joined = torch.cat([self._before(name), x], dim=-1)
        state: Tensor = getattr(self, name)
        state.copy_(joined[..., -state.shape[-1] :])
        return joined

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> None:
        """Returns no state: functions of a sequence read `recurrent_state`, also for one token."""

    def recurrent_state(self, layer_idx: int, shape: tuple[int, ...]) -> Tensor:
        """Returns the state before the tokens: that of the last call, or zeros at position 0."""
        return self._before(f"state_{layer_idx}")

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0) -> Tensor:
        """Stores the state of a recurrence after the tokens."""
        state: Tensor = getattr(self, f"state_{layer_idx}")
        return state.copy_(recurrent_states)

    def has_previous_state(self, layer_idx: int | None = None) -> bool:
        """Returns that there is none: masks of padding, which may depend on it, are not used."""
        return False

    def _before(self, name: str) -> Tensor:
        """Returns a state that the last call has left, or zeros at position 0."""
        state: Tensor = getattr(self, name)
        return torch.where(self._positions[0] > 0, state, 0.0)


def register_rows(owner: nn.Module, name: str, sizes: tuple[int, int, int], dtype: str) -> None:
    """Adds a buffer of zeros to a module, for keys or values [heads, rows, size].

    Args:
        owner: the module.
        name: of the buffer; that of its scales ends in "_scale".
        sizes: of the buffer, after that of a batch.
        dtype: "int8" with a scale for each row of a head.
    """
    owner.register_buffer(name, torch.zeros(1, *sizes, dtype=_DTYPES[dtype]), persistent=False)
    if dtype == "int8":
        owner.register_buffer(f"{name}_scale", torch.zeros(1, *sizes[:2], 1), persistent=False)


def store_rows(owner: nn.Module, name: str, indices: Tensor, rows: Tensor) -> Tensor:
    """Stores rows [1, heads, n, size] in a buffer of `register_rows`; returns all rows, float32."""
    buffer: Tensor = getattr(owner, name)
    if buffer.dtype != torch.int8:
        buffer.index_copy_(2, indices, rows.to(buffer.dtype))
        return buffer.to(rows.dtype)
    scales: Tensor = getattr(owner, f"{name}_scale")
    scale = (rows.abs().amax(-1, keepdim=True) / _LARGEST).clamp(min=_LEAST_SCALE)
    buffer.index_copy_(2, indices, (rows / scale).round().to(torch.int8))
    scales.index_copy_(2, indices, scale)
    return buffer.to(rows.dtype) * scales
