# SPDX-License-Identifier: Apache-2.0
"""Mistakes in checkpoints of images and text, in settings and in images: one message each, with a code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from safetensors.torch import save_file
from transformers import AutoConfig

import delegatec
from delegatec.diagnostics import DelegatecError
from delegatec.language.oracles import oracle_of
from delegatec.language.testing import SIZES, write_checkpoint
from delegatec.language.vision.images import ImageFormat
from delegatec.language.vision.ppm import read_image
from delegatec.language.vision.testing import PREPROCESSOR, SIDE, random_image, write_family, write_image

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_PREPROCESSOR: Final = "preprocessor_config.json"
_METHODS: Final = ("vision_encoder", "token_embedding", "text_decoder")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_family("LLaVA with CLIP", path)
    return path


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "small"))


def _refusal(folder: Path, **settings: Any) -> str:
    with pytest.raises(DelegatecError) as raised:
        delegatec.vision_language(folder, **{"context": 32, "prefill": 20, **settings})
    return str(raised.value)


def _change(name: str, **changes: Any) -> Callable[[Path], None]:
    """Returns a function that changes a file of a folder; None removes a value."""

    def change(folder: Path) -> None:
        path = folder / name
        values = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))

    return change


def _change_tower(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        values = json.loads(path.read_text())
        values["vision_config"] |= changes
        path.write_text(json.dumps(values))

    return change


# name -> what is done to the folder, and parts of the message
_FOLDERS: Final[dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]]] = {
    "no preprocessor": (
        lambda folder: (folder / _PREPROCESSOR).unlink(),
        ("DC115", "the checkpoint has no preprocessor_config.json"),
    ),
    "images of another size": (
        _change(_PREPROCESSOR, size={"height": 8, "width": 24}),
        ("DC117", "makes images of 8 x 24 pixels, and the configuration says 16 x 16"),
    ),
    "images that are cut to another size": (
        _change(_PREPROCESSOR, do_center_crop=True, crop_size=12, size={"shortest_edge": 16}),
        ("DC117", "makes images of 12 x 12 pixels"),
    ),
    "no mean": (_change(_PREPROCESSOR, image_mean=None), ("DC117", "image_mean", "None")),
    "two means": (_change(_PREPROCESSOR, image_mean=[0.5, 0.5]), ("DC117", "image_mean", "[0.5, 0.5]")),
    "no deviation": (_change(_PREPROCESSOR, image_std=[1, 0, 1]), ("DC117", "image_std")),
    "a damaged preprocessor": (
        lambda folder: (folder / _PREPROCESSOR).write_text("{"),
        ("DC116", _PREPROCESSOR),
    ),
    "an unknown family": (_change("config.json", model_type="lava"), ("DC138", "did you mean 'llava'?")),
    "images with tokens between rows": (
        _change_tower(model_type="pixtral"),
        ("DC138", 'the family "llava" of config.json is not supported: its images are those of "pixtral"'),
    ),
    "an unknown tower": (
        _change_tower(model_type="pixtral_vision"),
        ("DC138", "rejects config.json"),
    ),
}
_SETTINGS: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "less than an image": (
        {"prefill": 15},
        ("DC138", "prefill = 15 is less than the 16 tokens of an image", "at least 16"),
    ),
    "a context of less than an image": ({"context": 15, "prefill": 15}, ("DC138", "less than the 16 tokens")),
    "more than the model's positions": ({"context": 65}, ("DC138", "context = 65", "64")),
    "a longer call than the context": ({"prefill": 33}, ("DC138", "prefill = 33")),
    "an unknown dtype": ({"vision_weights": "int7"}, ("DC130", 'vision_weights = "int7"', "int8")),
    "a group that does not divide": (
        {"weights": "int4", "group_size": 24, "vision_weights": "int4"},
        ("DC134", 'features of "model.vision_tower.', 'features of "model.language_model.'),
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


def test_a_folder_of_text_only_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    message = _refusal(tmp_path)
    assert 'DC138: the family "qwen3" of config.json is not supported: it has no vision_config' in message
    assert "use language_model" in message


# family -> its configuration besides that of text, and the reason
_REFUSED: Final[dict[str, str]] = {
    "paligemma": "an image attends to the text after it",
    "qwen2_vl": "consecutive positions",
    "llava_next": "consecutive positions",
    "mistral3": "consecutive positions",
}


@pytest.mark.parametrize("family", _REFUSED)
def test_a_family_is_refused_by_name(family: str, tmp_path: Path) -> None:
    AutoConfig.for_model(family).save_pretrained(tmp_path)
    save_file({}, tmp_path / "model.safetensors")
    message = _refusal(tmp_path)
    assert f'DC138: the family "{family}" of config.json is not supported: ' in message
    assert _REFUSED[family] in message


def test_a_decoder_that_is_not_supported_is_named(tmp_path: Path) -> None:
    vision = {"model_type": "clip_vision_model", "hidden_size": 8, "image_size": SIDE, "patch_size": 4}
    config = AutoConfig.for_model(
        "llava",
        text_config={"model_type": "kimi_linear", **SIZES},
        vision_config={**vision, "num_attention_heads": 2, "intermediate_size": 8},
    )
    config.save_pretrained(tmp_path)
    (tmp_path / _PREPROCESSOR).write_text(json.dumps(PREPROCESSOR))
    save_file({}, tmp_path / "model.safetensors")
    assert 'DC138: the decoder "kimi_linear" is not supported' in _refusal(tmp_path)


_FORMAT: Final = ImageFormat(SIDE, SIDE, (1.0,) * 3, (0.0,) * 3)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "it is empty"),
        (b"\x89PNG\r\n\x1a\n", "in an unknown format"),
        (b"P6\n8 16\n255\n" + bytes(8 * 16 * 3), "has 8 x 16 pixels"),
        (b"P6\n16 16\n65535\n" + bytes(16 * 16 * 6), "1536 bytes of pixels up to 65535"),
        (b"P6\n16 16\n255\n" + bytes(16), "has 16 bytes of pixels"),
        (b"P6\n" + b"1" * 5000 + b" 16\n255\n", "in an unknown format"),
    ],
)
def test_an_image_is_refused(content: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ppm"
    path.write_bytes(content)
    with pytest.raises(DelegatecError) as raised:
        read_image(str(path), _FORMAT)
    assert all(each in str(raised.value) for each in ("DC504", "a.ppm", part, "16 x 16", "magick"))


def test_a_prompt_has_more_images_than_there_are(folder: Path, tmp_path: Path) -> None:
    write_image(tmp_path / "a.ppm", random_image(1))
    tokenizer = oracle_of(_METHODS, str(folder), [str(tmp_path / "a.ppm")]).tokenizer
    assert len(tokenizer.encode("azb")) == 18
    with pytest.raises(DelegatecError, match="DC504: prompt 'zz' has 2 images"):
        tokenizer.encode("zz")


def test_a_prompt_begins_with_an_image(folder: Path, tmp_path: Path) -> None:
    """The runner adds the token that begins a text to a text only."""
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "A", "add_bos_token": True}))
    write_image(tmp_path / "a.ppm", random_image(1))
    tokenizer = oracle_of(_METHODS, str(folder), [str(tmp_path / "a.ppm")]).tokenizer
    assert len(tokenizer.encode("az")) == 17
    with pytest.raises(DelegatecError, match="DC504: prompt 'za' begins with an image"):
        tokenizer.encode("za")


def test_a_tokenizer_of_another_model_has_no_image_token(folder: Path) -> None:
    _change("config.json", image_token_id=500, image_token_index=None)(folder)
    with pytest.raises(DelegatecError, match=r"DC117: tokenizer\.json has no token 500"):
        oracle_of(_METHODS, str(folder), [])


def test_images_of_a_program_of_text_only_are_refused(folder: Path) -> None:
    with pytest.raises(DelegatecError, match="DC507: the program has the methods forward"):
        oracle_of(["forward"], str(folder), ["a.ppm"])
