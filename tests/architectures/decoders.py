# SPDX-License-Identifier: Apache-2.0
"""Decoders: a prompt at once, and one token at a time with a cache of keys and values."""

from __future__ import annotations

from torch import nn
from transformers import GenerationConfig
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

from tests.architectures.case import Case, position, tokens

CACHE_LENGTH = 16

_SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "use_cache": False,
}
_GPT = {
    "vocab_size": 99,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "rotary_dim": 8,
    "use_cache": False,
}


def _decoder(name: str, stem: str, model: str = "", family: str = "decoder", **sizes: object) -> Case:
    return Case(
        name,
        family,
        model or f"{stem}ForCausalLM",
        f"{stem}Config",
        {**_SIZES, **sizes},
        {"input_ids": tokens(2, 9)},
        experts="batched_mm",
    )


def _gpt(name: str, stem: str, model: str, **sizes: object) -> Case:
    return Case(name, "decoder", model, f"{stem}Config", {**_GPT, **sizes}, {"input_ids": tokens(2, 9)})


def with_cache(model: nn.Module) -> nn.Module:
    """One decoding step: the cache is a buffer of the module, as transformers exports it."""
    model.generation_config = GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        cache_config={"batch_size": 1, "max_cache_len": CACHE_LENGTH},
    )
    return TorchExportableModuleWithStaticCache(model)


def _step(name: str, stem: str, model: str = "", **sizes: object) -> Case:
    return Case(
        f"{name}, KV cache",
        "decoder",
        model or f"{stem}ForCausalLM",
        f"{stem}Config",
        {**_SIZES, "use_cache": True, **sizes},
        {"input_ids": tokens(1, 1), "cache_position": position()},
        wrap=with_cache,
        runs=6,
        strict=True,
        experts="batched_mm",
    )


DECODERS = (
    _gpt("GPT-2", "GPT2", "GPT2LMHeadModel"),
    _gpt("GPT-J", "GPTJ", "GPTJForCausalLM"),
    _gpt("CodeGen", "CodeGen", "CodeGenForCausalLM"),
    _gpt("GPT BigCode", "GPTBigCode", "GPTBigCodeForCausalLM"),
    _decoder(
        "GPT-Neo",
        "GPTNeo",
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
    ),
    _decoder("GPT-NeoX", "GPTNeoX"),
    _decoder("OPT", "OPT", ffn_dim=37, word_embed_proj_dim=32),
    _decoder("BLOOM", "Bloom", n_layer=2, n_head=4),
    _decoder("Falcon", "Falcon", alibi=False),
    _decoder("Falcon ALiBi", "Falcon", alibi=True),
    _decoder("MPT", "Mpt", d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
    _decoder("Llama", "Llama"),
    _decoder("Mistral", "Mistral", sliding_window=4),
    _decoder("Qwen2", "Qwen2"),
    _decoder("Qwen3", "Qwen3", head_dim=8),
    _decoder("Gemma", "Gemma", head_dim=8),
    _decoder("Gemma 2", "Gemma2", head_dim=8, sliding_window=4),
    _decoder("Gemma 3", "Gemma3Text", "Gemma3ForCausalLM", head_dim=8, sliding_window=4),
    _decoder("Phi", "Phi"),
    _decoder("Phi-3", "Phi3"),
    _decoder("StableLM", "StableLm"),
    _decoder("OLMo", "Olmo"),
    _decoder("OLMo 2", "Olmo2"),
    _decoder("Cohere", "Cohere"),
    _decoder("StarCoder2", "Starcoder2", sliding_window=4),
    _decoder("SmolLM3", "SmolLM3"),
    _decoder("Granite", "Granite"),
    _decoder("Persimmon", "Persimmon"),
    _decoder("GLM-4", "Glm4", head_dim=8),
    _decoder("Helium", "Helium", head_dim=8),
    _decoder("BioGPT", "BioGpt"),
    _decoder("XGLM", "XGLM", d_model=32, ffn_dim=37, num_layers=2, attention_heads=4),
    _decoder("Nemotron", "Nemotron"),
    _decoder("ERNIE 4.5", "Ernie4_5"),
    _decoder("LFM2", "Lfm2", layer_types=["conv", "full_attention"]),
    _decoder("Mixtral", "Mixtral", family="mixture of experts", num_local_experts=4, num_experts_per_tok=2),
    _decoder(
        "Qwen2-MoE",
        "Qwen2Moe",
        family="mixture of experts",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    _decoder(
        "Qwen3-MoE",
        "Qwen3Moe",
        family="mixture of experts",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        head_dim=8,
    ),
    _decoder("OLMoE", "Olmoe", family="mixture of experts", num_experts=4, num_experts_per_tok=2),
    _decoder(
        "GPT-OSS",
        "GptOss",
        family="mixture of experts",
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=8,
        sliding_window=4,
    ),
    _decoder(
        "DeepSeek-V3",
        "DeepseekV3",
        family="mixture of experts",
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        kv_lora_rank=16,
        q_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
        num_key_value_heads=4,
    ),
    _decoder("Mamba", "Mamba", family="state space", state_size=8),
    _decoder(
        "Mamba-2",
        "Mamba2",
        family="state space",
        state_size=8,
        num_heads=8,
        head_dim=8,
        n_groups=2,
        chunk_size=4,
    ),
    _decoder("FalconMamba", "FalconMamba", family="state space", state_size=8),
    _decoder("RWKV", "Rwkv", family="state space", attention_hidden_size=32),
    _decoder(
        "RecurrentGemma",
        "RecurrentGemma",
        family="state space",
        block_types=["recurrent", "attention"],
        attention_window_size=4,
        lru_width=32,
    ),
    _decoder(
        "Jamba",
        "Jamba",
        family="state space",
        use_mamba_kernels=False,
        attn_layer_offset=1,
        attn_layer_period=2,
        num_experts=2,
        num_experts_per_tok=1,
        expert_layer_offset=1,
        expert_layer_period=2,
        mamba_d_state=4,
    ),
    _decoder(
        "Bamba",
        "Bamba",
        family="state space",
        attn_layer_indices=[1],
        mamba_d_state=8,
        mamba_n_heads=8,
        mamba_d_head=8,
        mamba_n_groups=2,
        mamba_chunk_size=4,
    ),
    _decoder(
        "Qwen3-Next",
        "Qwen3Next",
        family="state space",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
    _step("Llama", "Llama"),
    _step("Qwen3", "Qwen3", head_dim=8),
    _step("Gemma 2", "Gemma2", head_dim=8, sliding_window=4),
    _step("Phi-3", "Phi3"),
    _step("Mixtral", "Mixtral", num_local_experts=4, num_experts_per_tok=2),
    _step("Mistral", "Mistral", sliding_window=None),
    _step("GPT-NeoX", "GPTNeoX", num_key_value_heads=4),
)
