# SPDX-License-Identifier: Apache-2.0
"""Folders of checkpoints for tests: small networks of many families, and a tokenizer of bytes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, Qwen3Config

BYTES: Final = 256
LETTERS: Final = 94
SIZES: Final[dict[str, Any]] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
"""Fields of a small configuration of most families."""
_EXPERTS: Final = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
_LONG_ROPE: Final[dict[str, Any]] = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5, 2.0],
    "long_factor": [2.0, 3.0, 4.0],
    "original_max_position_embeddings": 32,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.75,
}
# name -> model_type, and what its configuration has besides
FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "Llama": ("llama", {}),
    "Llama 3": (
        "llama",
        {
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 5e5,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
    ),
    "Qwen2": ("qwen2", {}),
    "Qwen2, dynamic frequencies": (
        "qwen2",
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
    ),
    "Qwen3": ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    "Qwen3-MoE": ("qwen3_moe", {"head_dim": 8, **_EXPERTS}),
    "Mixtral": ("mixtral", {"sliding_window": 4, **_EXPERTS}),
    "SmolLM3": ("smollm3", {"no_rope_layers": [1, 0]}),
    "Phi-3": ("phi3", {"sliding_window": 4}),
    "Phi-4-mini": (
        "phi3",
        {
            "rope_parameters": _LONG_ROPE,
            "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": _LONG_ROPE["original_max_position_embeddings"],
        },
    ),
    "Gemma": ("gemma", {"head_dim": 8}),
    "Gemma 2": ("gemma2", {"head_dim": 8, "sliding_window": 4, "attn_logit_softcapping": 2.0}),
    "Gemma 3": (
        "gemma3_text",
        {"head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "Mistral": ("mistral", {"sliding_window": 4}),
    "OLMo 2": ("olmo2", {}),
    "Granite": (
        "granite",
        {
            "attention_multiplier": 0.3,
            "logits_scaling": 2.0,
            "residual_multiplier": 0.5,
            "embedding_multiplier": 3.0,
        },
    ),
    "GPT-NeoX": ("gpt_neox", {"num_key_value_heads": 4}),
    "StarCoder2": ("starcoder2", {"sliding_window": 4}),
    "Cohere": ("cohere", {"logit_scale": 0.5}),
    "Cohere 2": ("cohere2", {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}),
    "gpt-oss": (
        "gpt_oss",
        {
            "head_dim": 8,
            "sliding_window": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            **_EXPERTS,
        },
    ),
    "LFM2": ("lfm2", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}),
    "Mamba": ("mamba", {"state_size": 8, "time_step_rank": 4}),
    "Falcon Mamba": ("falcon_mamba", {"state_size": 8, "time_step_rank": 4}),
    "Mamba 2": ("mamba2", {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4}),
    "Mamba 2, bounded steps": (
        "mamba2",
        {
            "state_size": 8,
            "num_heads": 8,
            "head_dim": 8,
            "n_groups": 2,
            "chunk_size": 4,
            "time_step_limit": [0.6, 0.8],
        },
    ),
    "Jamba": ("jamba", {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, **_EXPERTS}),
    "Bamba": (
        "bamba",
        {
            "attn_layer_indices": [1],
            "mamba_d_state": 8,
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_n_groups": 2,
            "mamba_chunk_size": 4,
        },
    ),
    "Falcon-H1": (
        "falcon_h1",
        {
            "head_dim": 8,
            "mamba_d_ssm": 64,
            "mamba_d_state": 8,
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_n_groups": 2,
            "mamba_chunk_size": 4,
        },
    ),
    "Granite 4": (
        "granitemoehybrid",
        {
            "layer_types": ["mamba", "attention"],
            "shared_intermediate_size": 32,
            "mamba_d_state": 8,
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_n_groups": 2,
            "mamba_chunk_size": 4,
            **_EXPERTS,
        },
    ),
    "Qwen3-Next": (
        "qwen3_next",
        {
            "head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "shared_expert_intermediate_size": 32,
            **_EXPERTS,
        },
    ),
    "Qwen3.5": (
        "qwen3_5_text",
        {
            "head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
        },
    ),
    "OLMo Hybrid": (
        "olmo_hybrid",
        {
            "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 4,
        },
    ),
    "GPT-2": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
}
_BFLOAT16: Final = {"Qwen3", "Gemma 3", "LFM2"}


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
    network: Any = AutoModelForCausalLM.from_config(config or small_config())
    network.to(dtype).save_pretrained(folder)
    write_tokenizer(folder)
    # buffers that were not stored have not lost digits
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return loaded.eval()


def write_family(name: str, folder: Path, **changes: Any) -> Any:
    """Writes the folder of a network of `FAMILIES` with random weights; returns the network, in float32.

    Args:
        name: the family.
        folder: the directory to write.
        **changes: fields of its configuration.
    """
    kind, sizes = FAMILIES[name]
    torch.manual_seed(0)
    make: Any = AutoModelForCausalLM
    network = make.from_config(AutoConfig.for_model(kind, **copy.deepcopy(SIZES | sizes | changes)))
    with torch.no_grad():
        for parameter in network.parameters():
            # norms of 1 and biases of 0 would hide an error
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (parameter == 1))
    network.to(torch.bfloat16 if name in _BFLOAT16 else torch.float32).save_pretrained(folder)
    return make.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def write_tokenizer(folder: Path, size: int = BYTES) -> None:
    """Writes a tokenizer with a token for each byte, or for some of them.

    Args:
        folder: the directory.
        size: number of tokens; `LETTERS` for those of texts in ASCII without spaces.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:size]
    tokenizer = Tokenizer(models.BPE({each: index for index, each in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
