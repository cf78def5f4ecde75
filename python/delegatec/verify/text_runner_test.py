# SPDX-License-Identifier: Apache-2.0
"""Runners of language models: runtimes without one, and failures as diagnostics."""

from __future__ import annotations

import pytest

from delegatec.diagnostics import DelegatecError
from delegatec.verify.text_runner import text_runner_of


class _Runtime:
    """A runtime that runs no programs."""

    name, backends = "tiny 1.0", ()

    def load(self, pte: str, ptd: str | None, shares_state: bool) -> None:
        raise NotImplementedError


class _Runner:
    def generate(self, prompt: str, tokens: int, bos: int) -> str:
        if not prompt:
            raise RuntimeError("error 0x12")
        return prompt[:tokens]

    def reset(self) -> None:
        pass


class _TextRuntime(_Runtime):
    def load_text_runner(self, pte: str, ptd: str | None, tokenizer: str) -> _Runner:
        if tokenizer != "tokenizer.json":
            raise ValueError("no tokenizer")
        return _Runner()


def test_a_runtime_may_have_no_runner() -> None:
    assert text_runner_of(_Runtime(), "a.pte", None, "tokenizer.json") is None  # type: ignore[arg-type]


def test_failures_are_diagnostics() -> None:
    runner = text_runner_of(_TextRuntime(), "a.pte", None, "tokenizer.json")  # type: ignore[arg-type]
    assert runner is not None and runner.generate("the sea", 3, 0) == "the"
    with pytest.raises(DelegatecError, match=r"DC505: the runner of tiny 1\.0 fails: .*0x12"):
        runner.generate("", 3, 0)
    with pytest.raises(DelegatecError, match=r"DC501: the runner of tiny 1\.0 cannot load the program"):
        text_runner_of(_TextRuntime(), "a.pte", None, "other")  # type: ignore[arg-type]
