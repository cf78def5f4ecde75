# SPDX-License-Identifier: Apache-2.0
"""Families of decoders: the module against transformers, on whole sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from delegatec import language_model
from delegatec.language.testing import FAMILIES, write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_CONTEXT: Final = 24
_TOKENS: Final = 20


@pytest.mark.parametrize("name", FAMILIES)
def test_chunks_and_steps_agree_with_the_whole_sequence(name: str, tmp_path: Path) -> None:
    """Prompts in chunks, then single tokens; a second sequence starts at position 0."""
    network = write_family(name, tmp_path)
    module = language_model(str(tmp_path), context=_CONTEXT, prefill=8).module
    for chunks in ((1, 5, 8, 1, 1, 4), (7, 1, 1, 1, 6, 1)):
        tokens = torch.randint(0, 99, (1, _TOKENS))
        with torch.no_grad():
            wanted = network(input_ids=tokens, use_cache=False).logits[0]
            start = 0
            for count in chunks:
                found: Tensor = module(tokens[:, start : start + count], torch.tensor([start]))
                start += count
                torch.testing.assert_close(
                    found[0, 0], wanted[start - 1], rtol=0, atol=1e-4 * wanted.abs().max()
                )


def test_names_of_a_base_model(tmp_path: Path) -> None:
    """GPT-2 is published without its head, with names that lack its prefix, and with unused masks."""
    network = write_family("GPT-2", tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = {name.removeprefix("transformer."): value for name, value in load_file(path).items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 64, 64)
    save_file(tensors, path)
    module = language_model(str(tmp_path), context=_CONTEXT, prefill=8).module
    tokens = torch.randint(0, 99, (1, 5))
    with torch.no_grad():
        wanted = network(input_ids=tokens).logits[:, -1:]
        torch.testing.assert_close(module(tokens, torch.tensor([0])), wanted, rtol=1e-4, atol=1e-4)
