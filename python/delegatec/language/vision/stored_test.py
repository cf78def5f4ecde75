# SPDX-License-Identifier: Apache-2.0
"""Weights of models of images and text in files: the same model as from the folder; forms of each part."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors import safe_open

import delegatec
from delegatec.language.loading import store_checkpoint
from delegatec.language.settings import WeightSettings
from delegatec.language.vision.network import network_of
from delegatec.language.vision.testing import random_image, write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

# settings -> dtypes of a weight of the tower, the projector, the decoder, and the embedding of tokens
_SETTINGS: Final[dict[str, tuple[dict[str, Any], tuple[str, str, str, str]]]] = {
    "float32": ({}, ("F32", "F32", "F32", "F32")),
    "float16": ({"weights": "float16"}, ("F16", "F16", "F16", "F16")),
    "int8": ({"weights": "int8"}, ("I8", "I8", "I8", "I8")),
    "int4, a float tower": (
        {"weights": "int4", "group_size": 16, "vision_weights": "float32"},
        ("F32", "F32", "I8", "I8"),
    ),
    "float, an int8 tower": ({"vision_weights": "int8"}, ("I8", "I8", "F32", "F32")),
}
_NAMES: Final = (
    "model.vision_tower.encoder.layers.0.mlp.fc1",
    "model.multi_modal_projector.linear_1",
    "model.language_model.layers.0.mlp.up_proj",
    "model.language_model.embed_tokens",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_family("LLaVA with CLIP", path)
    return path


@pytest.mark.parametrize("name", _SETTINGS)
def test_the_model_is_the_same_as_from_the_folder(name: str, folder: Path, tmp_path: Path) -> None:
    settings, dtypes = _SETTINGS[name]
    path = tmp_path / "weights"
    store_checkpoint(str(folder), str(path), network_of, WeightSettings(**settings))
    with safe_open(path, "pt") as file:
        stored = {key: file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118 - not a dict
    found = [stored.get(f"{each}.weight", stored.get(f"{each}.weight_quantized", "")) for each in _NAMES]
    assert tuple(found) == dtypes
    assert stored["model.vision_tower.embeddings.position_embedding.weight"] == "F32"
    stored_model = delegatec.vision_language(path, context=32, prefill=20)
    direct = delegatec.vision_language(folder, context=32, prefill=20, **settings)
    results = []
    for model in (stored_model, direct):
        module: Any = model.module
        embeddings = module.vision_encoder(random_image(1))
        results.append((embeddings, module.text_decoder(embeddings, torch.tensor([0]))))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_groups_are_those_of_the_same_dtype(folder: Path) -> None:
    """Layers of images with another dtype have a scale for each output."""
    for settings, count in (({"vision_weights": "int4"}, 2), ({}, 1)):
        model = delegatec.vision_language(
            folder, context=32, prefill=20, weights="int4", group_size=16, **settings
        )
        tower = model.module.get_submodule(f"network.{_NAMES[0]}")
        assert tower.get_buffer("weight_scale").shape[1] == count
