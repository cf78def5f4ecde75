# SPDX-License-Identifier: Apache-2.0
"""GGUF files, written by the library, with names and orders of rows as llama.cpp's converter has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from delegatec import language_model
from delegatec.diagnostics import DelegatecError
from delegatec.language.loading import load_network
from delegatec.language.network import network_of
from delegatec.language.reference import Reference
from delegatec.language.settings import WeightSettings
from delegatec.language.testing import BYTES, SIZES

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_SIZES: Final = {
    **SIZES,
    "vocab_size": BYTES,
    "hidden_size": 256,
    "intermediate_size": 256,
    "head_dim": 64,
    "max_position_embeddings": 512,
}
_EXPERTS: Final = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "norm_topk_prob": True,
}
# family of llama.cpp -> that of transformers, and what its configuration has besides
_FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 192}),
    "qwen3moe": ("qwen3_moe", {"head_dim": 192, **_EXPERTS}),
}
_TYPES: Final = (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_K, Type.Q6_K)
_SCALES: Final = {Type.Q4_K: 4, Type.Q6_K: 2}
_LLAMA3: Final = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def _network(family: str, **changes: Any) -> Any:
    kind, sizes = _FAMILIES[family]
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**_SIZES, **sizes, **changes})
    network: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.1 + (parameter == 1))
    return network


def _encoded(value: np.ndarray, kind: Type) -> np.ndarray:
    """Returns a tensor in a type; random values of K types, for which the library has no encoder."""
    if kind not in _SCALES:
        return gguf.quants.quantize(value, kind)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows = np.random.default_rng(value.size).integers(
        0, 256, (*value.shape[:-1], value.shape[-1] // block, size)
    )
    rows = rows.astype(np.uint8)
    count = _SCALES[kind]
    scales = np.full(count // 2, 2e-4, np.float16).view(np.uint8)
    where = slice(0, count) if kind is Type.Q4_K else slice(size - count, size)
    rows[..., where] = scales
    return rows.reshape(*value.shape[:-1], -1)


def _permuted(value: Tensor, heads: int) -> Tensor:
    """Returns rows of queries or keys in the order of llama.cpp's rotary embeddings."""
    return value.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def _tensors(family: str, network: Any) -> dict[str, Tensor]:
    """Returns the tensors of a network as llama.cpp's converter names and orders them."""
    config = network.config
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == family)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    found: dict[str, Tensor] = {}
    for name, value in network.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if match := re.fullmatch(r"model.layers.(\d+).mlp.experts.(\w+)", name):
            parts = value.chunk(2, 1) if match[2] == "gate_up_proj" else (value,)
            kinds = ("gate", "up") if match[2] == "gate_up_proj" else ("down",)
            for kind, part in zip(kinds, parts, strict=True):
                found[f"blk.{match[1]}.ffn_{kind}_exps.weight"] = part
            continue
        stem, _, leaf = name.rpartition(".")
        if family == "llama" and re.search(r"[qk]_proj", name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            value = _permuted(value, heads)
        found[f"{names.get_name(stem)}.{leaf}"] = value
    return found


def _write(path: Path, family: str, network: Any, kind: Type = Type.F32, **extra: Tensor) -> None:
    config = network.config
    writer = gguf.GGUFWriter(path, family)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim if hasattr(config, "head_dim") else 64)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_eos_token_id(7)
    if family == "llama":
        writer.add_rope_dimension_count(config.head_dim)
    if family == "qwen3moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    for name, value in {**_tensors(family, network), **extra}.items():
        own = kind if value.dim() > 1 and "ffn_gate_inp" not in name else Type.F32
        writer.add_tensor(name, _encoded(value.numpy(), own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("family", _FAMILIES)
def test_values_are_those_of_the_library(family: str, kind: Type, tmp_path: Path) -> None:
    """Each tensor of the file, dequantized by `gguf`, in the order of rows of the file."""
    network = _network(family)
    _write(tmp_path / "model.gguf", family, network, kind)
    loaded, description = load_network(tmp_path / "model.gguf", network_of, WeightSettings())
    assert description.eos_ids == (7,)
    for module in loaded.modules():
        # float32 matrices of experts, which a program has one by one
        for weight in ("gate_up_proj", "down_proj"):
            if f"{weight}_0" in module._buffers:
                parts = [module._buffers[f"{weight}_{index}"] for index in range(4)]
                module.register_buffer(weight, torch.stack(parts))
    loaded.config.tie_word_embeddings = network.config.tie_word_embeddings
    state = {
        name: loaded.get_parameter(name) if "experts" not in name else loaded.get_buffer(name)
        for name in network.state_dict()
    }
    network.load_state_dict(state)
    found = _tensors(family, network)
    for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors:
        wanted = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(found[tensor.name].numpy(), wanted), tensor.name


@pytest.mark.parametrize("family", _FAMILIES)
def test_tokens_are_those_of_the_network(family: str, tmp_path: Path) -> None:
    network = _network(family)
    _write(tmp_path / "model.gguf", family, network)
    module = language_model(str(tmp_path), context=64, prefill=16).module
    tokens = torch.randint(0, BYTES, (1, 12))
    with torch.no_grad():
        wanted = network(tokens).logits[0, -1]
        module(tokens[:, :9], torch.tensor([0]))
        found = module(tokens[:, 9:], torch.tensor([9]))[0, 0]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))
    torch.testing.assert_close(Reference(str(tmp_path)).logits(tokens[0].tolist())[-1], wanted)


def _factors(parameters: dict[str, Any]) -> Tensor:
    config = AutoConfig.for_model("llama", **{**_SIZES, "rope_parameters": parameters})
    frequencies, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    factors: Tensor = 10000.0 ** (-torch.arange(0, 64, 2).float() / 64) / frequencies
    return factors


def test_factors_of_frequencies(tmp_path: Path) -> None:
    """Those of Llama 3.1 and later, which transformers does not read."""
    network = _network("llama", rope_parameters=_LLAMA3)
    factors = {"rope_freqs.weight": _factors(_LLAMA3)}
    _write(tmp_path / "model.gguf", "llama", network, **factors)
    module = language_model(str(tmp_path), context=512, prefill=512).module
    tokens = torch.randint(0, BYTES, (1, 400))
    with torch.no_grad():
        wanted, found = network(tokens).logits[0, -1], module(tokens, torch.tensor([0]))[0, 0]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))
    torch.testing.assert_close(Reference(str(tmp_path)).logits(tokens[0].tolist())[-1], wanted)


def test_other_factors_are_refused(tmp_path: Path) -> None:
    factors = {"rope_freqs.weight": _factors({**_LLAMA3, "high_freq_factor": 2.0})}
    _write(tmp_path / "model.gguf", "llama", _network("llama"), **factors)
    with pytest.raises(DelegatecError, match=r"DC138.*factors that are not those of Llama 3"):
        language_model(str(tmp_path))


def _refusal(folder: Path) -> str:
    with pytest.raises(DelegatecError) as raised:
        language_model(folder)
    return str(raised.value)


def test_files_are_refused(tmp_path: Path) -> None:
    network = _network("llama")
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    assert "DC116" in _refusal(tmp_path)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "Git LFS" in _refusal(tmp_path)
    _write(path, "llama", network, unknown=torch.zeros(4))
    assert 'DC117: the file has an unknown tensor "unknown"' in _refusal(tmp_path)
    (tmp_path / "other.gguf").touch()
    assert "DC115: the checkpoint has 2 GGUF files" in _refusal(tmp_path)


def test_a_configuration_beside_the_file_is_not_read(tmp_path: Path) -> None:
    """Published ones often have a family only."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    _write(tmp_path / "model.gguf", "llama", _network("llama"))
    language_model(tmp_path, context=16, prefill=4)
