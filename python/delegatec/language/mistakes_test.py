# SPDX-License-Identifier: Apache-2.0
"""Mistakes in checkpoints and settings: one message each, with a code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

import delegatec
from delegatec.diagnostics import DelegatecError
from delegatec.language.testing import SIZES, write_checkpoint, write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_WEIGHTS: Final = "model.safetensors"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(path)
    return path


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "small"))


def _refusal(folder: Path, **settings: Any) -> str:
    with pytest.raises(DelegatecError) as raised:
        delegatec.language_model(folder, **{"context": 16, "prefill": 4, **settings})
    return str(raised.value)


def _change_config(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _change_tensors(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        tensors = load_file(folder / _WEIGHTS)
        change(tensors)
        save_file(tensors, folder / _WEIGHTS)

    return write


def _written(name: str, content: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(content)


def _moved(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / _WEIGHTS).rename(folder / name)


def _shortened(folder: Path) -> None:
    content = (folder / _WEIGHTS).read_bytes()
    (folder / _WEIGHTS).write_bytes(content[: len(content) // 2])


_NORM: Final = "model.norm.weight"
_INDEX: Final = json.dumps({"weight_map": {"a": _WEIGHTS, "b": "model-00002-of-00002.safetensors"}}).encode()
# name -> what is done to the folder, and parts of the message
_FOLDERS: Final[dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]]] = {
    "no configuration": (lambda folder: (folder / "config.json").unlink(), ("DC115", "config.json")),
    "no weights": (lambda folder: (folder / _WEIGHTS).unlink(), ("DC115", "no weights", ".safetensors")),
    "weights in pickle": (_moved("pytorch_model.bin"), ("DC115", "but pytorch_model.bin")),
    "another file with the name of GGUF": (_moved("small-Q4_0.gguf"), ("DC116", "small-Q4_0.gguf")),
    "a missing file": (
        _written("model.safetensors.index.json", _INDEX),
        ("DC115", "lacks model-00002-of-00002.safetensors"),
    ),
    "a damaged index": (_written("model.safetensors.index.json", b"{}"), ("DC116", "weight_map")),
    "a damaged configuration": (_written("config.json", b'{"model_type": '), ("DC116", "config.json")),
    "a configuration of another kind": (_written("config.json", b"[]"), ("DC116", "contains a list")),
    "a damaged generation_config.json": (_written("generation_config.json", b"{"), ("DC116",)),
    "damaged weights": (_shortened, ("DC116", _WEIGHTS)),
    "a pointer of Git LFS": (
        _written(_WEIGHTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        ("DC116", "Git LFS"),
    ),
    "a missing tensor": (_change_tensors(lambda each: each.pop(_NORM)), ("DC117", f'lacks "{_NORM}"')),
    "an unknown tensor": (
        _change_tensors(lambda each: each.update(score=torch.zeros(2))),
        ("DC117", 'unknown tensor "score"'),
    ),
    "a wrong shape": (
        _change_tensors(lambda each: each.update({_NORM: torch.zeros(3)})),
        ("DC117", f'"{_NORM}" of the checkpoint has shape [3]', "[64]"),
    ),
    "integers": (
        _change_tensors(lambda each: each.update({_NORM: each[_NORM].to(torch.int8)})),
        ("DC117", f'"{_NORM}" of model.safetensors is I8'),
    ),
    "another size in the configuration": (_change_config(intermediate_size=64), ("DC117", "[64, 64]")),
    "a misspelled family": (_change_config(model_type="qwenn3"), ("DC138", '"qwenn3"', "qwen3")),
    "no family": (_change_config(model_type=None), ("DC138", "model_type")),
    "code of the folder": (
        _change_config(model_type="mine", auto_map={"AutoModelForCausalLM": "mine.Mine"}),
        ("DC138", '"mine"', "auto_map"),
    ),
    "an encoder": (_change_config(model_type="vit"), ("DC138", '"vit"')),
    "sizes that do not match": (_change_config(num_attention_heads="four"), ("DC138", "rejects config.json")),
    "images": (_change_config(model_type="gemma3", text_config={}), ("DC138", "text_config")),
    **{
        f"quantized by {method}": (
            _change_config(quantization_config={"quant_method": method}),
            ("DC138", f"quantized by {method}", "take the checkpoint that it was quantized from"),
        )
        for method in ("gptq", "awq", "bitsandbytes", "fp8", "compressed-tensors")
    },
}
_SETTINGS: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "more than the model's positions": ({"context": 129}, ("DC138", "context = 129", "128")),
    "a longer chunk than the context": ({"prefill": 17}, ("DC138", "prefill = 17")),
    "no chunk": ({"prefill": 0}, ("DC138", "prefill = 0")),
    "no context": ({"context": 0, "prefill": 0}, ("DC138", "prefill = 0")),
    "a group that does not divide": (
        {"weights": "int4", "group_size": 48},
        ("DC134", "group_size = 48 does not divide the 64 input features"),
    ),
}


@pytest.mark.parametrize("name", _FOLDERS)
def test_a_folder_is_refused(name: str, folder: Path) -> None:
    change, parts = _FOLDERS[name]
    change(folder)
    message = _refusal(folder)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("name", _SETTINGS)
def test_settings_are_refused(name: str, published: Path) -> None:
    settings, parts = _SETTINGS[name]
    message = _refusal(published, **settings)
    assert all(part in message for part in parts), message


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "DC115" in _refusal(tmp_path / "nowhere")


def test_weights_in_another_form_are_not_read(folder: Path) -> None:
    """Folders of Mistral have the same weights a second time, with other names."""
    save_file({"tok_embeddings.weight": torch.zeros(1)}, folder / "consolidated.safetensors")
    delegatec.language_model(folder, context=16, prefill=4)


# family -> its configuration besides sizes, and the reason
_REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "kimi_linear": ({}, "a recurrent state"),
    "nemotron_h": ({}, "keeps nothing in the cache"),
    "recurrent_gemma": ({"block_types": ["recurrent", "attention"]}, "keeps nothing in the cache"),
    "rwkv": ({}, "no argument"),
    "zamba2": ({"layers_block_type": ["mamba", "hybrid"]}, "as its cache returns"),
    "bloom": ({}, "no argument position_ids"),
    "mpt": ({}, "no argument position_ids"),
    "opt": ({"ffn_dim": 32, "word_embed_proj_dim": 32}, "the number of earlier tokens"),
    "falcon": ({}, "the number of earlier tokens"),
    "gptj": ({"rotary_dim": 8}, "the attention interface of transformers"),
    "llama4_text": ({"attention_chunk_size": 8, "head_dim": 8}, "its mask of attention"),
    "deepseek_v3": (
        {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "kv_lora_rank": 16},
        "as its cache returns",
    ),
    "gemma3n_text": ({"num_kv_shared_layers": 0, "layer_types": ["full_attention"] * 2}, "its buffers"),
}


@pytest.mark.parametrize("family", _REFUSED)
def test_a_family_is_refused_by_name(family: str, tmp_path: Path) -> None:
    """Without weights: before anything else."""
    sizes, reason = _REFUSED[family]
    AutoConfig.for_model(family, **{**SIZES, **sizes}).save_pretrained(tmp_path)
    save_file({}, tmp_path / _WEIGHTS)
    message = _refusal(tmp_path)
    assert f'DC138: the decoder "{family}" is not supported: ' in message
    assert reason in message


def test_frequencies_that_depend_on_the_length_bound_the_context(tmp_path: Path) -> None:
    """Longer sequences rotate by other frequencies, also the tokens before: those of Phi-4-mini."""
    write_family("Phi-4-mini", tmp_path)
    delegatec.language_model(tmp_path, context=32, prefill=4)
    assert "beyond the 32 positions" in _refusal(tmp_path, context=33)
