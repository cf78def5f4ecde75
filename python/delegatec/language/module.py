# SPDX-License-Identifier: Apache-2.0
"""The module that is exported: tokens and a position to logits, with state in buffers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from delegatec.language.cache import Cache
from delegatec.language.decoder import state_arguments
from delegatec.language.experts import ExpertRows, join_experts


class Decoder(nn.Module):
    """A network with its state.

    Args:
        network: a network of transformers that generates text.
        context: tokens that the cache holds.
        prefill: the most tokens of a call.
        cache: dtype of keys and values in the cache.
        draft_tokens: tokens before the last one of a call after which it predicts the next one, too.
        experts: how mixtures compute, of `settings.EXPERTS`.
    """

    def __init__(
        self,
        network: Any,
        context: int,
        prefill: int,
        cache: str = "float32",
        draft_tokens: int = 0,
        experts: str = "rows",
    ) -> None:
        super().__init__()
        self.network = network
        self.draft_tokens = draft_tokens
        self.cache = Cache(network.delegatec_layers, context, prefill, cache)
        for module in network.modules():
            if hasattr(module, "layer_idx"):
                object.__setattr__(module, "delegatec_cache", self.cache)
        mixtures = [module for module in network.modules() if hasattr(module, "delegatec_experts")]
        if experts == "matrices":
            for module in mixtures:
                join_experts(module)
            return
        if mixtures:
            self.rows = ExpertRows.shared([module.delegatec_experts for module in mixtures], prefill)
        for module in mixtures:
            object.__setattr__(module, "delegatec_rows", self.rows)

    def logits(
        self, count: int, start_pos: Tensor, attends_to_all: Tensor | None = None, **inputs: Tensor
    ) -> Tensor:
        """Predicts the tokens after the last ones, float32 [1, `draft_tokens` + 1, vocabulary].

        Args:
            count: number of tokens.
            start_pos: int64 [1], the number of tokens before them.
            attends_to_all: whether each token attends to those after it in the call, too, bool [n]; None for
                none of them.
            **inputs: the tokens, in a form that the network takes.
        """
        positions = start_pos + torch.arange(count)
        last_rows = None if attends_to_all is None else torch.where(attends_to_all, positions[-1], positions)
        with self.cache.at(positions, last_rows), self.network.delegatec_operands.of_one_call():
            arguments = state_arguments(self.network, self.cache, positions[None])
            if self.draft_tokens:
                # of a call with fewer tokens, the first one again
                last = torch.arange(count - 1 - self.draft_tokens, count)
                arguments["logits_to_keep"] = last.clamp(min=0)
            result = self.network(**arguments, **inputs)
        logits: Tensor = result.logits
        return logits


class LanguageModel(Decoder):
    """A decoder, as ExecuTorch's stock runner of text calls it."""

    def forward(self, tokens: Tensor, start_pos: Tensor) -> Tensor:
        """Predicts the token after the last one, and after each of `draft_tokens` before it.

        Args:
            tokens: int64 [1, n], the tokens at `start_pos` and after it.
            start_pos: int64 [1], the number of tokens before them.

        Returns:
            float32 logits [1, `draft_tokens` + 1, vocabulary].
        """
        return self.logits(tokens.shape[1], start_pos, input_ids=tokens)
