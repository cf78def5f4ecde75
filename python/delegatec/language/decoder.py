# SPDX-License-Identifier: Apache-2.0
"""Layers of a decoder with state, as one run on the device meta shows them.

A decoder that does anything else with its state or its masks is not understood, and refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from delegatec.diagnostics.exceptions import first_line
from delegatec.language.layer_kinds import AttentionLayer, ConvolutionLayer, Experts, Layer, RecurrentLayer
from delegatec.language.recurrent import factors_marked, recurrent_modules

_NAME: Final = "delegatec_layers"
_TOKENS: Final = 3
# Keywords of attention: those that `attention` applies, and those without effect on a decoder in inference. A
# window is that of the mask.
_APPLIED: Final = {"scaling", "softcap", "s_aux"}
_NEUTRAL: Final = {
    "cache_position",
    "dropout",
    "is_causal",
    "logits_to_keep",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "position_ids",
    "sliding_window",
    "use_cache",
}
# The most positions at which a mask is compared.
_POSITIONS: Final = 2**20
_MASK: Final = "its mask of attention is not one of all earlier positions or of a window"
_REQUIRED: Final = ("input_ids", "logits_to_keep")


class NotUnderstoodError(Exception):
    """A decoder does what a program cannot; the text says what."""


def layers_of(network: Any) -> Mapping[int, Sequence[Layer]]:
    """Returns the layers of a network with state, by index; a layer may have several kinds of state.

    Modules with experts get an attribute `delegatec_experts`, which is `Experts`. Recurrences become those of
    `recurrent`.

    Args:
        network: a causal language model of transformers in eval mode, on the device meta.

    Raises:
        NotUnderstoodError: it does not attend by the attention interface of transformers to keys and values
            of its cache, or not with a mask of all earlier positions or of a window, or it has another state.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.moe import ExpertsInterface

    _check_interface(network)
    config = network.config.get_text_config()
    calls = _Calls(min(getattr(config, "max_position_embeddings", None) or _POSITIONS, _POSITIONS))
    AttentionInterface.register(_NAME, calls.attention)
    AttentionMaskInterface.register(_NAME, calls.mask)
    ExpertsInterface.register(_NAME, calls.experts)
    before = config._attn_implementation, config._experts_implementation
    config._attn_implementation, config._experts_implementation = _NAME, _NAME
    tokens = torch.zeros(1, _TOKENS, dtype=torch.int64, device="meta")
    recurrent = [*recurrent_modules(network)]
    for module in recurrent:
        object.__setattr__(module, "delegatec_cache", calls)
    try:
        with torch.no_grad(), torch.device("meta"), factors_marked(recurrent):
            result = network(input_ids=tokens, **state_arguments(network, calls, tokens))
    except NotUnderstoodError:
        raise
    except Exception as error:
        # the code of each family raises its own
        raise NotUnderstoodError(f"{type(error).__name__}: {first_line(error)}") from error
    finally:
        config._attn_implementation, config._experts_implementation = before
    if calls.updated:
        raise NotUnderstoodError(
            "it does not pass all keys and values to the attention interface of transformers"
        )
    if without := sorted({*range(config.num_hidden_layers)} ^ {*calls.layers}):
        raise NotUnderstoodError(f"layer {without[0]} keeps nothing in the cache")
    if tuple(result.logits.shape) != (1, 1, config.vocab_size):
        raise NotUnderstoodError(f"its logits for the last token have shape {list(result.logits.shape)}")
    layers = {index: tuple(found.values()) for index, found in sorted(calls.layers.items())}
    has_attention = any(isinstance(layer, AttentionLayer) for found in layers.values() for layer in found)
    if has_attention and not _has_positions(network):
        raise NotUnderstoodError("its forward has no argument position_ids")
    return layers


def state_arguments(network: Any, cache: Any, positions: Tensor) -> dict[str, Any]:
    """Returns the arguments of a network for its state and the logits of the last token.

    Args:
        network: the network.
        cache: its state.
        positions: those of the tokens, int64 [1, n]; a network of recurrences does not receive them.
    """
    arguments: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1}
    if _has_positions(network):
        return arguments | {"past_key_values": cache, "position_ids": positions}
    return arguments | {"cache_params": cache}


def _has_positions(network: Any) -> bool:
    return "past_key_values" in inspect.signature(network.forward).parameters


def _check_interface(network: Any) -> None:
    parameters = inspect.signature(network.forward).parameters
    is_recurrent = "cache_params" in parameters
    required = ("cache_params",) if is_recurrent else ("past_key_values", "position_ids")
    if missing := [name for name in (*_REQUIRED, *required) if name not in parameters]:
        raise NotUnderstoodError(f"its forward has no argument {', '.join(missing)}")


class _Calls:
    """Records calls of a cache, of attention and of masks, and computes their shapes only.

    Attributes:
        layers: the layers found, by index and kind.
        updated: index of a layer -> its keys and values, until they are attended to.
    """

    def __init__(self, positions: int) -> None:
        self.layers: dict[int, dict[type, Layer]] = {}
        self.updated: dict[int, tuple[Tensor, Tensor]] = {}
        self._positions = positions
        self._masks: list[tuple[Tensor, Callable[..., Any]]] = []

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Counterpart of `Cache.update`."""
        self._add(layer_idx, AttentionLayer(key.shape[1], key.shape[3], value.shape[3], 0))
        if key.shape[:3] != value.shape[:3]:
            raise NotUnderstoodError(f"layer {layer_idx} caches keys and values of different shapes")
        self.updated[layer_idx] = key, value
        return key, value

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> None:
        """Counterpart of `Cache.get_conv_state`: a step is computed as a longer sequence is."""

    def update_conv_state(
        self, x: Tensor, layer_idx: int, state_idx: int = 0, conv_kernel_size: int | None = None
    ) -> Tensor:
        """Counterpart of `Cache.update_conv_state`."""
        if state_idx or not conv_kernel_size:
            raise NotUnderstoodError(f"layer {layer_idx} has several states")
        self._add(layer_idx, ConvolutionLayer(x.shape[1], conv_kernel_size))
        return x.new_empty(1, x.shape[1], conv_kernel_size + x.shape[2])

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> None:
        """Counterpart of `Cache.get_recurrent_state`: functions of `recurrent` call `recurrent_state`."""

    def recurrent_state(self, layer_idx: int, shape: tuple[int, ...]) -> Tensor:
        """Counterpart of `Cache.recurrent_state` of `cache`."""
        self._add(layer_idx, RecurrentLayer(shape))
        return torch.empty(1, *shape, device="meta")

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0) -> Tensor:
        """Counterpart of `Cache.update_recurrent_state`."""
        found = self.layers.get(layer_idx, {}).get(RecurrentLayer)
        if found != RecurrentLayer(tuple(recurrent_states.shape[1:])) or state_idx:
            raise NotUnderstoodError("it has a recurrent state of an unknown function")
        return recurrent_states

    def has_previous_state(self, layer_idx: int | None = None) -> bool:
        """Counterpart of `Cache.has_previous_state`."""
        return False

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Counterpart of `Cache.get_seq_length`: a program receives positions only."""
        raise NotUnderstoodError("it asks its cache for the number of earlier tokens")

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("get_", "update_", "has_")):
            raise NotUnderstoodError(f"it calls {name} of its cache: it has a state besides keys and values")
        raise AttributeError(name)

    def attention(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **keywords: Any
    ) -> tuple[Tensor, None]:
        """Counterpart of `attention`."""
        index: int = getattr(module, "layer_idx", -1)
        cached = self.updated.pop(index, None)
        layer = self.layers.get(index, {}).get(AttentionLayer)
        is_cached = cached is not None and cached[0] is key and cached[1] is value
        if not is_cached or not isinstance(layer, AttentionLayer):
            raise NotUnderstoodError("it does not attend to the keys and values as its cache returns them")
        function = next((function for mask, function in self._masks if mask is attention_mask), None)
        if function is None:
            raise NotUnderstoodError("it changes the mask of attention")
        if unknown := {name for name, each in keywords.items() if each is not None} - _APPLIED - _NEUTRAL:
            raise NotUnderstoodError(f"its attention has an argument {', '.join(sorted(unknown))}")
        try:
            with torch.device("cpu"):
                window = window_of(function, self._positions)
        except RuntimeError as error:
            # the mask needs values of tensors
            raise NotUnderstoodError(_MASK) from error
        self.layers[index][AttentionLayer] = replace(layer, window=window)
        batch, heads, tokens = query.shape[:3]
        return query.new_empty(batch, tokens, heads, layer.value_size), None

    def experts(
        self, module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
    ) -> Tensor:
        """Counterpart of `experts.experts`."""
        is_of_tokens = hidden_states.dim() == top_k_index.dim() == 2
        if not is_of_tokens or top_k_index.shape != top_k_weights.shape:
            raise NotUnderstoodError("its experts are not chosen for each token")
        module.delegatec_experts = Experts(top_k_index.shape[1], hidden_states.shape[1])
        return torch.empty_like(hidden_states)

    def mask(self, mask_function: Callable[..., Any], q_length: int, **keywords: Any) -> Tensor:
        """Counterpart of masks: returns a tensor that stands for one."""
        if keywords.get("attention_mask") is not None:
            raise NotUnderstoodError("it pads sequences")
        result = torch.empty(1, 1, q_length, q_length, device="meta")
        self._masks.append((result, mask_function))
        return result

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Counterpart of `Cache.get_mask_sizes`."""
        return query_length, 0

    def get_query_offset(self, layer_idx: int) -> int:
        """Counterpart of `Cache.get_query_offset`."""
        return 0

    def _add(self, index: int, layer: Layer) -> None:
        found = self.layers.setdefault(index, {})
        if type(layer) in found:
            raise NotUnderstoodError(f"layer {index} has several states")
        found[type(layer)] = layer


def window_of(mask_function: Callable[..., Any], count: int) -> int:
    """Returns the positions of the window of a causal mask; 0 for all up to the own.

    Args:
        mask_function: the mask of transformers: indices of batch, head, query and key to whether it attends.
        count: positions of the model.

    Raises:
        NotUnderstoodError: the mask is another.
    """
    rows, index = torch.arange(count), torch.tensor(0)

    def attends(query: Tensor, key: Tensor) -> Tensor:
        return torch.as_tensor(mask_function(index, index, query, key)).expand(query.shape)

    attended = int(attends(rows[-1].expand(count), rows).sum())
    window = 0 if attended == count else attended
    # a window ends between two distances; each other part, such as a chunk, shows at position 0 or half-way
    distances = {-1, 0, 1, attended - 1, attended, attended + 1}
    keys = [*(rows - distance for distance in distances), rows // 2, torch.zeros_like(rows)]
    for key in keys:
        kept = (key >= 0) & (key < count)
        query, key = rows[kept], key[kept]
        expected = key <= query
        if window:
            expected &= key > query - window
        if not torch.equal(attends(query, key), expected):
            raise NotUnderstoodError(_MASK)
    return window
