# SPDX-License-Identifier: Apache-2.0
"""Mistakes in folders of adapters, and adapters of other models: one message each, with a code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from delegatec.diagnostics import DelegatecError
from delegatec.language.lora.fitted import fitted
from delegatec.language.lora.folder import read_adapter
from delegatec.language.lora.testing import write_adapter

_CONFIG: Final = "adapter_config.json"
_WEIGHTS: Final = "adapter_model.safetensors"
_DOWN: Final = "base_model.model.layers.0.q_proj.lora_A.weight"
_UP: Final = "base_model.model.layers.0.q_proj.lora_B.weight"
_SHAPES: Final = {
    "network.layers.0.q_proj.lora_A": (8, 16),
    "network.layers.0.q_proj.lora_B": (32, 8),
    "network.layers.1.q_proj.lora_A": (8, 16),
    "network.layers.1.q_proj.lora_B": (32, 8),
}


def _network(features: int = 16, layers: int = 2, name: str = "q_proj") -> nn.Module:
    result = nn.Module()
    result.layers = nn.ModuleList(nn.ModuleDict({name: nn.Linear(features, 32)}) for _ in range(layers))
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_adapter(tmp_path, _network(), ["q_proj"])
    return tmp_path


def _config(**changes: Any) -> Callable[[Path], Any]:
    def change(folder: Path) -> None:
        path = folder / _CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _tensors(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    def write(folder: Path) -> None:
        tensors = load_file(folder / _WEIGHTS)
        change(tensors)
        save_file(tensors, folder / _WEIGHTS)

    return write


def _adapter(rank: int = 4, modules: tuple[str, ...] = ("q_proj",), **network: Any) -> Callable[[Path], Any]:
    return lambda folder: write_adapter(folder, _network(**network), modules, rank=rank)


# What is done to the folder -> parts of the message.
_MISTAKES: Final[dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]]] = {
    "no configuration": (lambda folder: (folder / _CONFIG).unlink(), ("DC115", "no adapter_config.json")),
    "weights in pickle": (
        lambda folder: (folder / _WEIGHTS).rename(folder / "adapter_model.bin"),
        ("DC115", "no adapter_model.safetensors", "adapter_model.bin", "save_pretrained"),
    ),
    "damaged weights": (lambda folder: (folder / _WEIGHTS).write_bytes(b"x"), ("DC116", _WEIGHTS)),
    "a damaged configuration": (lambda folder: (folder / _CONFIG).write_text("{"), ("DC116", _CONFIG)),
    "another method": (_config(peft_type="IA3"), ("DC138", 'peft_type = "IA3"', '"LORA"')),
    "no scale": (_config(lora_alpha=None), ("DC138", "no lora_alpha")),
    "a scale as a string": (
        _config(alpha_pattern={"q_proj": "8"}),
        ("DC138", "alpha_pattern = {'q_proj': '8'}"),
    ),
    "an invalid pattern": (_config(alpha_pattern={"(": 8}), ("DC138", "alpha_pattern = {'(': 8}")),
    "a list of scales": (_config(alpha_pattern=[8]), ("DC138", "alpha_pattern = [8]")),
    "a number of another kind": (
        _config(lora_alpha={"__float__": [1]}),
        ("DC116", "cannot read adapter_config.json"),
    ),
    "a nested configuration": (
        lambda folder: (folder / _CONFIG).write_text("[" * 100_000),
        ("DC116", "cannot read adapter_config.json"),
    ),
    "biases": (_config(bias="lora_only"), ("DC138", 'bias = "lora_only"')),
    "magnitudes": (_config(use_dora=True), ("DC138", "use_dora = True", "without use_dora")),
    "complete layers": (_config(modules_to_save=["lm_head"]), ("DC138", "modules_to_save = ['lm_head']")),
    "experts": (_config(target_parameters=["experts.up"]), ("DC138", "target_parameters")),
    "a setting of a later version": (_config(use_future=3), ("DC138", "use_future = 3")),
    "another base": (
        _config(init_lora_weights="pissa_niter_16"),
        ("DC138", 'init_lora_weights = "pissa_niter_16", which changes the base model'),
    ),
    "a complete weight": (
        _tensors(lambda each: each.update({"base_model.model.lm_head.weight": torch.zeros(2, 3)})),
        ("DC117", '"base_model.model.lm_head.weight" float32[2, 3]'),
    ),
    "no tensors": (_tensors(lambda each: each.clear()), ("DC117", "has no tensors")),
    "integers": (
        _tensors(lambda each: each.update({_DOWN: each[_DOWN].to(torch.int8)})),
        ("DC117", f'"{_DOWN}" int8[4, 16]'),
    ),
    "half of a layer": (
        _tensors(lambda each: each.pop(_DOWN)),
        ("DC117", '"layers.0.q_proj" of adapter_model.safetensors has lora_B [32, 4]'),
    ),
    "two ranks in a layer": (
        _tensors(lambda each: each.update({_DOWN: torch.zeros(3, 16)})),
        ("DC117", "lora_A [3, 16], lora_B [32, 4]"),
    ),
    "no rank": (
        _tensors(lambda each: each.update({_DOWN: torch.zeros(0, 16), _UP: torch.zeros(32, 0)})),
        ("DC117", "lora_A [0, 16], lora_B [32, 0]"),
    ),
    "a larger rank": (_adapter(rank=9), ("DC117", "has rank 9", "at most adapter_rank = 8")),
    "other layers": (
        _adapter(modules=("k_proj",), name="k_proj"),
        ("DC117", "the adapter changes k_proj", "adapter_modules of the model: q_proj"),
    ),
    "more layers": (_adapter(layers=3), ("DC117", '"layers.2.q_proj", which the model does not have')),
    "another size": (
        _adapter(features=24),
        ("DC117", 'a weight [32, 24] of "layers.0.q_proj", which is [32, 16] in the model'),
    ),
}


@pytest.mark.parametrize("name", _MISTAKES)
def test_an_adapter_is_refused(name: str, folder: Path) -> None:
    change, parts = _MISTAKES[name]
    change(folder)
    with pytest.raises(DelegatecError) as raised:
        fitted(read_adapter(str(folder)), _SHAPES)
    assert len(raised.value.diagnostics) == 1
    assert all(part in str(raised.value) for part in parts), raised.value


def test_a_model_without_adapters_is_named(folder: Path) -> None:
    with pytest.raises(DelegatecError, match="DC117: the model has no adapters"):
        fitted(read_adapter(str(folder)), {"layers.0.weight": (32, 16)})


def test_scales_of_some_layers(folder: Path) -> None:
    """As PEFT finds them: the first pattern that is the end of a layer's name."""
    before = read_adapter(str(folder))
    _config(alpha_pattern={"0.q_proj": 12, "q_proj": 3, "proj": 1})(folder)
    after = read_adapter(str(folder))
    for name, factor in (("layers.0.q_proj", 2.0), ("layers.1.q_proj", 0.5)):
        torch.testing.assert_close(after[name].up, before[name].up * factor)
        torch.testing.assert_close(after[name].down, before[name].down)


def test_the_rest_is_zeros(folder: Path) -> None:
    _tensors(lambda each: [each.pop(name) for name in [*each] if ".0." in name])(folder)
    changes = read_adapter(str(folder))
    found = fitted(changes, _SHAPES)
    assert {name: tuple(value.shape) for name, value in found.items()} == _SHAPES
    assert not found["network.layers.0.q_proj.lora_A"].any()
    down, up = (found[f"network.layers.1.q_proj.{name}"] for name in ("lora_A", "lora_B"))
    assert not down[4:].any() and not up[:, 4:].any()
    torch.testing.assert_close(up @ down, changes["layers.1.q_proj"].up @ changes["layers.1.q_proj"].down)
