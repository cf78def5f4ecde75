# SPDX-License-Identifier: Apache-2.0
"""A small Llama in float32; `BUILD.bazel` quantizes it.

The weights are random: the example shows compilation, not language.
"""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import delegatec

TOKENS = 32


class Decoder(torch.nn.Module):
    """Tokens to logits: the transformers model without the object around its output."""

    def __init__(self, network: LlamaForCausalLM) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Predicts the next token after each one.

        Args:
            input_ids: int64 ``[batch, tokens]``.

        Returns:
            float32 logits ``[batch, tokens, 1024]``.
        """
        return self.network(input_ids=input_ids, use_cache=False).logits


def build() -> delegatec.Model:
    """Returns the decoder in float32, for a sequence of 32 tokens."""
    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=1024,
        max_position_embeddings=TOKENS,
    )
    return delegatec.Model(Decoder(LlamaForCausalLM(config)).eval(), (torch.arange(TOKENS)[None],))
