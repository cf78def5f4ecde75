# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding, with modules in place of programs: the tokens are those without drafts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import torch

import delegatec
from delegatec.diagnostics import DelegatecError
from delegatec.language.reference import TextTokenizer
from delegatec.language.running import RunningModel
from delegatec.language.speculation import speculate
from delegatec.language.testing import LETTERS, write_family, write_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_CONTEXT: Final = 40


class _Eager:
    """A module as an executor, which counts its calls."""

    name = "eager"

    def __init__(self, model: delegatec.Model) -> None:
        self._model, self.calls = model, 0

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        if method != "forward":
            return [self._model.constant_methods[method]]
        tokens, start = inputs
        assert int(start) + tokens.shape[1] <= _CONTEXT
        self.calls += 1
        with torch.no_grad():
            return [self._model.module(tokens, start)]


def _running(folder: Path, context: int = _CONTEXT, **settings: Any) -> tuple[RunningModel, _Eager]:
    executor = _Eager(delegatec.language_model(folder, context=context, prefill=8, **settings))
    return RunningModel(executor), executor


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of a model, and of one with other weights and more tokens."""
    result = []
    for size, rows in ((64, 99), (32, 120)):
        folder = tmp_path_factory.mktemp("checkpoint")
        torch.manual_seed(size)
        write_family("Qwen3", folder, intermediate_size=size, vocab_size=rows)
        result.append(folder)
    return result


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 20, _CONTEXT - 7])
def test_tokens_are_those_without_drafts(limit: int, count: int, folders: list[Path]) -> None:
    model, executor = _running(folders[0], draft_tokens=limit)
    plain, _ = _running(folders[0])
    text = list(range(7))
    wanted = plain.continuation(text, count, ())
    for folder, context in ((folders[0], _CONTEXT), (folders[1], _CONTEXT), (folders[1], 12)):
        draft, _ = _running(folder, context)
        executor.calls = 0
        found = speculate(model, draft, text, count, ())
        assert found.tokens == wanted and found.limit == limit
        assert executor.calls == found.calls + 1
        # each call adds its own token to those that it accepts
        assert len(wanted) == 1 + found.calls + found.accepted
        if folder == folders[0]:
            assert found.accepted == found.drafted
            assert found.calls == -(-(count - 1) // (limit + 1))


def test_a_token_that_ends_a_text_ends_it_inside_of_a_call(folders: list[Path]) -> None:
    model, _ = _running(folders[0], draft_tokens=3)
    draft, _ = _running(folders[0])
    tokens = draft.continuation([5, 6], 20, ())
    for end in {*tokens}:
        found = speculate(model, draft, [5, 6], 20, {end})
        assert found.tokens == tokens[: tokens.index(end) + 1]


@pytest.mark.parametrize("draft_tokens", [-1, 8])
def test_numbers_of_drafts_are_refused(draft_tokens: int, folders: list[Path]) -> None:
    with pytest.raises(DelegatecError, match=rf"DC138: draft_tokens = {draft_tokens} is not between 0 and"):
        _running(folders[0], draft_tokens=draft_tokens)


@pytest.mark.parametrize("family", ["LFM2", "Mamba"])
def test_a_state_without_a_way_back_is_refused(family: str, tmp_path: Path) -> None:
    write_family(family, tmp_path)
    with pytest.raises(DelegatecError, match="DC138: draft_tokens needs a model whose state is a cache"):
        _running(tmp_path, draft_tokens=2)


def test_another_tokenizer_is_named(tmp_path: Path) -> None:
    for name, count in (("one", LETTERS), ("two", LETTERS), ("other", LETTERS - 1)):
        (tmp_path / name).mkdir()
        write_tokenizer(tmp_path / name, count)
    one, two, other = (TextTokenizer(str(tmp_path / name)) for name in ("one", "two", "other"))
    one.check_same(two)
    with pytest.raises(DelegatecError, match=r"DC117: token .* of the draft model is None, and"):
        one.check_same(other)
