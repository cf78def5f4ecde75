# SPDX-License-Identifier: Apache-2.0
"""A small Llama, whose weights are nearly all in linear layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel


def llama_config(width: int, layers: int, tokens: int) -> LlamaConfig:
    """Returns a configuration: heads of 32 elements, half as many heads of keys, a vocabulary of 256.

    Args:
        width: elements of a hidden state, a multiple of 64.
        layers: number of layers.
        tokens: the most that a sequence has.
    """
    return LlamaConfig(
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 64,
        vocab_size=256,
        max_position_embeddings=tokens,
        use_cache=False,
    )


class Llama(nn.Module):
    """The decoder's layers and a head, on embeddings of tokens: 1.2 M parameters in linear layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = LlamaModel(llama_config(256, layers=2, tokens=64))
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
