# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's folder for tests: a small network, and a tokenizer of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PretrainedConfig, Qwen3Config

BYTES: Final = 256


def small_config(**changes: Any) -> Qwen3Config:
    """Returns the configuration of a Qwen3 with two layers, grouped heads and a vocabulary of bytes."""
    sizes = {
        "vocab_size": BYTES,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "eos_token_id": 0,
    }
    return Qwen3Config(**(sizes | changes))


def write_checkpoint(
    folder: Path, config: PretrainedConfig | None = None, dtype: torch.dtype = torch.bfloat16
) -> Any:
    """Writes the folder of a network with random weights; returns the network, in float32.

    Args:
        folder: the directory to write.
        config: the configuration; by default `small_config`.
        dtype: of the stored weights.
    """
    torch.manual_seed(0)
    network: Any = AutoModelForCausalLM.from_config(config or small_config())  # type: ignore[no-untyped-call]
    network.to(dtype).save_pretrained(folder)
    _tokenizer().save(str(folder / "tokenizer.json"))
    # buffers that were not stored have not lost digits
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def _tokenizer() -> Any:
    """Returns a tokenizer with a token for each byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({each: index for index, each in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
