# SPDX-License-Identifier: Apache-2.0
"""Layers with adapters, next to networks of transformers with changed weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor

import delegatec
from delegatec.diagnostics import DelegatecError
from delegatec.language.lora.fitted import fitted
from delegatec.language.lora.folder import read_adapter
from delegatec.language.lora.testing import write_adapter
from delegatec.language.reference import Reference
from delegatec.language.testing import write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_TOKENS: Final = torch.arange(7)[None]
# Family -> the layers of an adapter, and the configuration of the adapter besides.
_FAMILIES: Final[dict[str, tuple[tuple[str, ...], dict[str, Any]]]] = {
    "Llama": (("q_proj", "v_proj"), {}),
    "Llama 3": (("o_proj", "lm_head"), {}),  # whose output layer has the values of the embedding
    "Qwen3": (("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), {}),
    "Qwen3-MoE": (("o_proj",), {"use_rslora": True}),
    "Phi-3": (("qkv_proj", "gate_up_proj"), {}),
    "LFM2": (("in_proj", "w2"), {}),
    "GPT-NeoX": (("query_key_value",), {}),
    "GPT-2": (("c_attn", "c_proj"), {"fan_in_fan_out": True}),
}


def _with_adapter(model: Any, folder: Path) -> None:
    """Gives a module the values of an adapter, as a program loads them."""
    tensors = dict(model.module.named_buffers())
    shapes = {name: tuple(tensors[name].shape) for name in model.external_weights}
    for name, value in fitted(read_adapter(str(folder)), shapes).items():
        tensors[name].copy_(value)


def _logits(module: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = module(_TOKENS, torch.tensor([0]))
    return found[0, 0]


@pytest.mark.parametrize("name", _FAMILIES)
def test_logits_are_those_of_changed_weights(name: str, tmp_path: Path) -> None:
    modules, config = _FAMILIES[name]
    network = write_family(name, tmp_path)
    model = delegatec.language_model(tmp_path, context=24, prefill=8, adapter_rank=6, adapter_modules=modules)
    before = _logits(model.module)
    with torch.no_grad():
        torch.testing.assert_close(before, network(_TOKENS).logits[0, -1], rtol=1e-4, atol=1e-4)
    for rank, layers in ((4, modules), (6, modules[:1])):
        changed = write_adapter(tmp_path / "adapter", network, layers, rank=rank, seed=rank, **config)
        _with_adapter(model, tmp_path / "adapter")
        with torch.no_grad():
            wanted = changed(_TOKENS).logits[0, -1]
        assert (wanted - before).abs().max() > 0.01
        torch.testing.assert_close(_logits(model.module), wanted, rtol=1e-4, atol=1e-4)
        reference = Reference(str(tmp_path), read_adapter(str(tmp_path / "adapter")))
        torch.testing.assert_close(reference.logits(_TOKENS[0].tolist())[-1], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", ["float16", "int8", "int4"])
def test_adapters_are_float32_next_to_other_weights(weights: str, tmp_path: Path) -> None:
    """What an adapter adds to a layer is what it adds to one in float32."""
    network = write_family("Llama", tmp_path)
    settings: dict[str, Any] = {"context": 24, "prefill": 8, "weights": weights}
    model = delegatec.language_model(tmp_path, adapter_rank=4, adapter_modules=["q_proj"], **settings)
    plain = delegatec.language_model(tmp_path, **settings)
    torch.testing.assert_close(_logits(model.module), _logits(plain.module), rtol=0, atol=0)
    write_adapter(tmp_path / "adapter", network, ["q_proj"])
    _with_adapter(model, tmp_path / "adapter")
    name = "model.layers.0.self_attn.q_proj"
    change = read_adapter(str(tmp_path / "adapter"))[name]
    layers = [each.module.network.get_submodule(name) for each in (model, plain)]
    x = torch.randn(1, 3, 32)
    found, base = (layer(x) for layer in layers)
    torch.testing.assert_close(found, base + x @ (change.up @ change.down).T, rtol=1e-5, atol=1e-5)


# Settings -> parts of the message.
_MISTAKES: Final[tuple[tuple[dict[str, Any], tuple[str, ...]], ...]] = (
    ({"adapter_rank": 4}, ("DC136", "adapter_rank = 4 with adapter_modules = []", "both, or neither")),
    ({"adapter_modules": ["q_proj"]}, ("DC136", "adapter_rank = 0")),
    ({"adapter_rank": -1, "adapter_modules": ["q_proj"]}, ("DC130", "adapter_rank cannot be -1")),
    (
        {"adapter_rank": 4, "adapter_modules": ["q_porj", "embed_tokens"]},
        (
            "DC130",
            '"q_porj", which no linear layer is named',
            "did you mean 'q_proj'",
            "embed_tokens",
        ),
    ),
)


def test_a_layer_whose_weight_is_read_has_none(tmp_path: Path) -> None:
    """The network multiplies with it, and does not call the layer."""
    write_family("Mamba", tmp_path)
    settings: dict[str, Any] = {"context": 24, "prefill": 8, "adapter_rank": 4}
    delegatec.language_model(tmp_path, adapter_modules=["in_proj"], **settings)
    with pytest.raises(DelegatecError, match=r'(?s)DC130: adapter_modules has "dt_proj".*: in_proj, lm_head'):
        delegatec.language_model(tmp_path, adapter_modules=["dt_proj"], **settings)


@pytest.mark.parametrize(("settings", "parts"), _MISTAKES)
def test_settings_are_refused(settings: dict[str, Any], parts: tuple[str, ...], tmp_path: Path) -> None:
    write_family("Llama", tmp_path)
    with pytest.raises(DelegatecError) as raised:
        delegatec.language_model(tmp_path, context=24, prefill=8, **settings)
    assert all(part in str(raised.value) for part in parts), raised.value
