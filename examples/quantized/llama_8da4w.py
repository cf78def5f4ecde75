# SPDX-License-Identifier: Apache-2.0
"""A small Llama with int8 activations and weights of four bits in groups of 32 ("8da4w"), from torchao.

The embedding has int8 rows. The weights are random: the example shows compilation, not language.
"""

from __future__ import annotations

import torch
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup
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


def build_float() -> delegatec.Model:
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


def build() -> delegatec.Model:
    """Returns the decoder with quantized weights."""
    model = build_float()
    linear = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    quantize_(model.module, linear)
    embedding = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
    quantize_(model.module, embedding, lambda module, name: isinstance(module, torch.nn.Embedding))
    return model
