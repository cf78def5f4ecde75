# SPDX-License-Identifier: Apache-2.0
"""Files of stored weights: the same model as from the folder, the same bytes each time, tied weights once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors import safe_open

import delegatec
from delegatec.diagnostics import DelegatecError
from delegatec.language.loading import store_checkpoint
from delegatec.language.network import network_of
from delegatec.language.settings import WeightSettings
from delegatec.language.testing import small_config, write_checkpoint

_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "float32": {},
    "float16": {"weights": "float16"},
    "int8": {"weights": "int8"},
    "int4 in groups": {"weights": "int4", "group_size": 32},
    "int4, activations in float": {"weights": "int4", "activation": "float", "embedding": "float16"},
}
_CALL: Final = (torch.tensor([[5, 17, 93]]), torch.tensor([0]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(path)
    return path


@pytest.mark.parametrize("name", _SETTINGS)
def test_the_model_is_the_same_as_from_the_folder(name: str, folder: Path, tmp_path: Path) -> None:
    settings = _SETTINGS[name]
    for file in ("a", "b"):
        store_checkpoint(str(folder), str(tmp_path / file), network_of, WeightSettings(**settings))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    models = [
        delegatec.language_model(tmp_path / "a", context=16, prefill=4),
        delegatec.language_model(folder, context=16, prefill=4, **settings),
    ]
    stored, direct = (model.module(*_CALL) for model in models)
    assert torch.equal(stored, direct)
    assert models[0].constant_methods == models[1].constant_methods
    assert models[0].constant_methods["get_eos_ids"] == (0,)


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({}, "F32"),
        ({"weights": "int8", "group_size": 16}, "I8"),
        ({"weights": "int4", "group_size": 16}, "I8"),
        ({"weights": "int4", "group_size": 16, "embedding": "int4"}, "I8"),
        ({"weights": "int4", "embedding": "float16"}, "F16"),
    ],
)
def test_tied_weights_are_stored_once(
    settings: dict[str, Any], dtype: str, folder: Path, tmp_path: Path
) -> None:
    """The embedding of tokens and the layer of logits, in the form of embeddings."""
    store_checkpoint(str(folder), str(tmp_path / "w"), network_of, WeightSettings(**settings))
    suffix = "_quantized" if dtype == "I8" else ""
    with safe_open(tmp_path / "w", "pt") as file:
        assert not [name for name in file.keys() if name.startswith("lm_head")]  # noqa: SIM118 - not a dict
        assert file.get_slice(f"model.embed_tokens.weight{suffix}").get_dtype() == dtype


def test_untied_weights_stay_apart(tmp_path: Path) -> None:
    network = write_checkpoint(tmp_path, small_config(tie_word_embeddings=False))
    model = delegatec.language_model(tmp_path, context=16, prefill=4)
    with torch.no_grad():
        wanted = network(_CALL[0]).logits[:, -1:]
    torch.testing.assert_close(model.module(*_CALL), wanted, rtol=1e-4, atol=1e-5)


def test_settings_of_a_stored_file_cannot_be_changed(folder: Path, tmp_path: Path) -> None:
    store_checkpoint(str(folder), str(tmp_path / "w"), network_of, WeightSettings("int8"))
    with pytest.raises(DelegatecError, match="has the settings of its weights"):
        delegatec.language_model(tmp_path / "w", weights="int4")


@pytest.mark.parametrize("content", [b"", b"{}", b"\x02\0\0\0\0\0\0\0{}"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(DelegatecError, match="DC116"):
        delegatec.language_model(tmp_path / "w")
