# SPDX-License-Identifier: Apache-2.0
"""Families of images and text: the module agrees with transformers, in the calls of the stock runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import delegatec
from delegatec.language.comparison import divergence
from delegatec.language.vision.testing import FAMILIES, IMAGE_TOKEN, random_image, write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_CONTEXT: Final = 64
_PREFILL: Final = 20
# Texts between images, and images by seed.
_TURNS: Final[tuple[tuple[list[int] | int, ...], ...]] = (
    ([5, 17, 33],),
    (1, [3, 4, 5]),
    ([7, 8], 2, [9, 1, 30], 3, [2]),
)


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """After each call: texts, images, a text again; a second sequence starts at position 0."""
    model = write_family(name, tmp_path)
    program = delegatec.vision_language(tmp_path, context=_CONTEXT, prefill=_PREFILL)
    module = program.module
    for turn in _TURNS:
        tokens: list[int] = []
        images: list[Tensor] = []
        rows: list[tuple[int, Tensor]] = []
        with torch.no_grad():
            for part in turn:
                if isinstance(part, int):
                    images.append(random_image(part))
                    embeddings = module.vision_encoder(images[-1])
                    added = [IMAGE_TOKEN] * embeddings.shape[1]
                else:
                    embeddings, added = module.token_embedding(torch.tensor([part])), part
                logits = module.text_decoder(embeddings, torch.tensor([len(tokens)]))
                tokens += added
                rows.append((len(tokens) - 1, logits[0, 0]))
            wanted = model.network(**model.inputs(tokens, images)).logits[0]
        for index, found in rows:
            torch.testing.assert_close(found, wanted[index], rtol=0, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize(("dtype", "least"), [("float16", 50), ("int8", 25)])
def test_caches_of_other_dtypes(dtype: str, least: float, tmp_path: Path) -> None:
    model = write_family("Gemma 3", tmp_path)
    settings: dict[str, Any] = {"context": _CONTEXT, "prefill": _PREFILL, "cache": dtype}
    module: Any = delegatec.vision_language(tmp_path, **settings).module
    image, text = random_image(1), [5, 17, 33]
    with torch.no_grad():
        embeddings = module.vision_encoder(image)
        module.text_decoder(embeddings, torch.tensor([0]))
        count = embeddings.shape[1]
        found = module.text_decoder(module.token_embedding(torch.tensor([text])), torch.tensor([count]))
        tokens = [IMAGE_TOKEN] * count + text
        wanted = model.network(**model.inputs(tokens, [image])).logits[0, -1:]
    assert divergence(wanted, found[0]).snr_db > least


def test_names_of_older_checkpoints(tmp_path: Path) -> None:
    """Tensors of the files that were published first, which transformers renames, and positions in them."""
    write_family("LLaVA with CLIP", tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    assert "language_model.model.embed_tokens.weight" in tensors
    before = delegatec.vision_language(tmp_path, context=_CONTEXT, prefill=_PREFILL).module
    tensors = {name.replace("vision_tower.", "vision_tower.vision_model."): x for name, x in tensors.items()}
    tensors["vision_tower.vision_model.embeddings.position_ids"] = torch.arange(17.0)[None]
    save_file(tensors, path)
    after = delegatec.vision_language(tmp_path, context=_CONTEXT, prefill=_PREFILL).module
    image = random_image(1)
    assert torch.equal(before.vision_encoder(image), after.vision_encoder(image))


def test_a_tower_with_the_name_of_its_family(tmp_path: Path) -> None:
    """As in the configuration of SmolVLM-256M."""
    write_family("Idefics3", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["vision_config"]["model_type"] = "idefics3"
    path.write_text(json.dumps(config))
    delegatec.vision_language(tmp_path, context=_CONTEXT, prefill=_PREFILL)
