# SPDX-License-Identifier: Apache-2.0
"""A small Llama, whose weights are nearly all in linear layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel


class Llama(nn.Module):
    """The decoder's layers and a head, on embeddings of tokens: 1.2 M parameters in linear layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = LlamaConfig(
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=4,
            vocab_size=256,
            max_position_embeddings=64,
            use_cache=False,
        )
        self.network = LlamaModel(config)
        self.network.set_input_embeddings(nn.Identity())
        self.head = nn.Linear(256, 256, bias=False)

    def forward(self, embeddings: Tensor) -> Tensor:
        """float32 [1, 8, 256] to float32 [1, 8, 256]."""
        hidden: Tensor = self.network(inputs_embeds=embeddings).last_hidden_state
        result: Tensor = self.head(hidden)
        return result


def example() -> tuple[Tensor]:
    """Arguments of `Llama`."""
    return (torch.randn(1, 8, 256, generator=torch.Generator().manual_seed(1)),)
