# SPDX-License-Identifier: Apache-2.0
"""Caches of other dtypes: what they hold, and how far predictions depart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from delegatec import language_model
from delegatec.diagnostics import DelegatecError
from delegatec.language.cache import Cache
from delegatec.language.comparison import divergence
from delegatec.language.layer_kinds import AttentionLayer
from delegatec.language.testing import write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_rows_are_those_that_were_stored(dtype: str) -> None:
    cache = Cache({0: (AttentionLayer(2, 8, 4, 0),)}, 6, 3, dtype)
    key, value = torch.randn(1, 2, 3, 8) * torch.tensor([1e-2, 1.0, 1e2])[:, None], torch.randn(1, 2, 3, 4)
    value[:, :, 1] = 0
    with cache.at(torch.tensor([2, 3, 4])):
        found = cache.update(key, value, 0)
    for rows, wanted in zip(found, (key, value), strict=True):
        assert rows.dtype == torch.float32
        assert not rows[:, :, [0, 1, 5]].any()
        relative = {"float32": 0.0, "float16": 2.0**-11, "int8": 0.5001 / 127}[dtype]
        error = (rows[:, :, 2:5] - wanted).abs()
        assert bool((error <= relative * wanted.abs().amax(-1, keepdim=True)).all())


def test_bytes_of_the_state() -> None:
    sizes = {}
    for dtype in ("float32", "float16", "int8"):
        cache = Cache({0: (AttentionLayer(2, 64, 64, 0),)}, 256, 256, dtype)
        sizes[dtype] = sum(each.nbytes for each in cache.buffers())
    assert sizes["float16"] * 2 == sizes["float32"]
    assert sizes["int8"] * 4 == sizes["float32"] * (1 + 4 / 64)


def test_rows_of_a_window_do_not_grow_with_the_context() -> None:
    kinds = {index: (AttentionLayer(2, 8, 8, window),) for index, window in enumerate((0, 32, 60))}
    cache = Cache(kinds, 64, 16)
    assert [cache.rows(index) for index in kinds] == [64, 48, 64]
    assert cache.key_1.shape == cache.value_1.shape == (1, 2, 48, 8)


@pytest.mark.parametrize("family", ["Mistral", "Gemma 3", "gpt-oss"])
def test_a_text_is_taken_back_by_a_call(family: str, tmp_path: Path) -> None:
    """Tokens of a call that failed, or that an app drops, are written over."""
    write_family(family, tmp_path)
    module = language_model(str(tmp_path), context=40, prefill=6).module
    tokens, other = torch.randint(0, 99, (2, 1, 40))
    with torch.no_grad():
        wanted = {at: module(tokens[:, at : at + 1], torch.tensor([at])) for at in range(40)}
        for at in range(24):
            module(tokens[:, at : at + 1], torch.tensor([at]))
        module(other[:, 24:30], torch.tensor([24]))
        for at in (24, 25):
            found = module(tokens[:, at : at + 1], torch.tensor([at]))
            torch.testing.assert_close(found, wanted[at], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dtype", "least"), [("float16", 60), ("int8", 30)])
@pytest.mark.parametrize("family", ["Qwen3", "Gemma 2", "gpt-oss", "LFM2"])
def test_predictions(family: str, dtype: str, least: float, tmp_path: Path) -> None:
    network = write_family(family, tmp_path)
    module = language_model(str(tmp_path), context=24, prefill=8, cache=dtype).module
    tokens = torch.randint(0, 99, (1, 20))
    with torch.no_grad():
        wanted = network(input_ids=tokens, use_cache=False).logits[0, -4:]
        for start in (0, 8):
            module(tokens[:, start : start + 8], torch.tensor([start]))
        found = [module(tokens[:, at : at + 1], torch.tensor([at]))[0, 0] for at in range(16, 20)]
    assert divergence(wanted, torch.stack(found)).snr_db > least


def test_other_dtypes_are_refused(tmp_path: Path) -> None:
    write_family("Qwen3", tmp_path)
    with pytest.raises(DelegatecError, match='DC130: cache = "int4" is not a setting of a language model'):
        language_model(str(tmp_path), context=24, prefill=8, cache="int4")
