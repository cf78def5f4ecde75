# SPDX-License-Identifier: Apache-2.0
"""Checks of a program, with the module itself in place of a program: right, and wrong in each way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig

import delegatec
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.checks import LanguageModelChecks, Limits, Outcome
from delegatec.language.comparison import divergence, perplexity
from delegatec.language.reference import Reference, TextTokenizer
from delegatec.language.running import RunningModel
from delegatec.language.testing import BYTES, SIZES, write_checkpoint

_CONTEXT: Final = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(path)
    return path


class _Eager:
    """The module as an executor; `change` edits its logits.

    Args:
        folder: the checkpoint.
        change: applied to the logits.
        is_bounded: whether it rejects tokens beyond its context.
        settings: of weights.
    """

    name = "eager"

    def __init__(
        self,
        folder: Path,
        change: Callable[[Tensor], Tensor] = lambda logits: logits,
        is_bounded: bool = True,
        **settings: Any,
    ) -> None:
        self._model = delegatec.language_model(folder, context=_CONTEXT, prefill=5, **settings)
        self._change, self._is_bounded = change, is_bounded

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        if method != "forward":
            return [self._model.constant_methods[method]]
        tokens, start = inputs
        if int(start) + tokens.shape[1] > _CONTEXT:
            if self._is_bounded:
                raise DelegatecError([Diagnostic("DC505", "beyond the context")])
            start = start * 0
        with torch.no_grad():
            return [self._change(self._model.module(tokens, start))]


class _Runner:
    """A runner that answers as a program does, or with `text`."""

    def __init__(self, model: RunningModel, tokenizer: TextTokenizer, text: str | None = None) -> None:
        self._model, self._tokenizer, self._text = model, tokenizer, text
        self._tokens: list[int] = []

    def generate(self, prompt: str, tokens: int, bos: int) -> str:
        self._tokens += self._tokenizer.encode(prompt)
        answer = self._model.continuation(self._tokens, tokens, {0})
        self._tokens += answer[:-1]
        return self._tokenizer.decode(answer) if self._text is None else self._text

    def reset(self) -> None:
        self._tokens = []


def _checks(folder: Path, executor: _Eager, limits: Limits, text: str | None = None) -> LanguageModelChecks:
    tokenizer, model = TextTokenizer(str(folder)), RunningModel(executor)
    return LanguageModelChecks(
        Reference(str(folder)), tokenizer, model, _Runner(model, tokenizer, text), limits
    )


def test_a_right_program_passes(folder: Path) -> None:
    checks = _checks(folder, _Eager(folder), Limits(perplexity=1.001))
    outcomes = [*checks.prompts(["sea", "a longer prompt"], 6), checks.bounds("sea")]
    outcomes.append(checks.perplexity("The sea is blue.", 12))
    assert [each.problem for each in outcomes] == [None] * 6
    assert outcomes[0].figures["agreement"] == "100.0%"
    assert [each.figures.get("turns") for each in outcomes[:4]] == [None, "2", None, "2"]


# name of a family -> its configuration besides sizes
_UNBOUNDED: Final[dict[str, dict[str, Any]]] = {
    "mamba": {},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "mistral": {"sliding_window": 4},
}


@pytest.mark.parametrize("family", _UNBOUNDED)
def test_states_and_windows_have_no_bound(family: str, tmp_path: Path) -> None:
    sizes = _UNBOUNDED[family]
    write_checkpoint(
        tmp_path, AutoConfig.for_model(family, **SIZES | {"vocab_size": BYTES, "hidden_size": 64} | sizes)
    )
    checks = _checks(tmp_path, _Eager(tmp_path, is_bounded=False), Limits(perplexity=1.001))
    outcomes = [*checks.prompts(["sea", "a longer prompt"], 6), checks.bounds("sea")]
    outcomes.append(checks.perplexity("The sea is blue.", 12))
    assert [each.problem for each in outcomes] == [None] * 6
    assert outcomes[0].figures["agreement"] == "100.0%"


def test_other_tokens_are_a_problem(folder: Path) -> None:
    checks = _checks(folder, _Eager(folder, lambda logits: -logits), Limits())
    first, _ = checks.prompts(["sea"], 4)
    assert first.problem is not None and first.problem.code == "DC517"
    assert "the greedy tokens of the model in float" in first.problem.expected


def test_divergence_has_a_limit(folder: Path) -> None:
    executor = _Eager(folder, weights="int4", group_size=32)
    for limit, is_wrong in ((1e-9, True), (1.0, False)):
        first, _ = _checks(folder, executor, Limits(divergence=limit)).prompts(["sea"], 4)
        assert bool(first.problem) is is_wrong
    noisy = _Eager(folder, lambda logits: logits * torch.nan)
    first, _ = _checks(folder, noisy, Limits(divergence=1.0)).prompts(["sea"], 4)
    assert first.problem is not None


def test_perplexity_has_a_limit(folder: Path) -> None:
    checks = _checks(folder, _Eager(folder, lambda logits: logits * 8), Limits(perplexity=1.01))
    problem = checks.perplexity("The sea is blue.", 12).problem
    assert problem is not None and "perplexity" in problem.message


def test_an_answer_of_the_runner_is_compared(folder: Path) -> None:
    checks = _checks(folder, _Eager(folder), Limits(), "something else")
    _, runner = checks.prompts(["sea"], 4)
    assert runner.problem is not None and "'something else' in turn 1" in runner.problem.message


def test_a_token_beyond_the_context_is_an_error(folder: Path) -> None:
    problem = _checks(folder, _Eager(folder, is_bounded=False), Limits()).bounds("sea").problem
    assert problem is not None and "token 49 of a context of 48 is accepted" in problem.message


class _Corrupting(_Eager):
    """Writes to its cache before it rejects a token beyond its context."""

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        try:
            return super().run(method, inputs)
        except DelegatecError:
            self._model.module.cache.key_0[:, :, 7] += 1
            raise


def test_an_error_changes_nothing(folder: Path) -> None:
    problem = _checks(folder, _Corrupting(folder), Limits()).bounds("sea").problem
    assert problem is not None and "changes later results" in problem.message


class _Failing(_Runner):
    def generate(self, prompt: str, tokens: int, bos: int) -> str:
        raise DelegatecError([Diagnostic("DC505", "the runner of eager fails: 0x12")])


def test_a_failure_of_the_runner_is_a_problem(folder: Path) -> None:
    checks = _checks(folder, _Eager(folder), Limits())
    _, runner = replace(checks, runner=_Failing(checks.model, checks.tokenizer)).prompts(["sea"], 4)
    assert runner.problem is not None and runner.problem.code == "DC505"


def test_a_text_of_one_token_has_no_perplexity(folder: Path) -> None:
    problem = _checks(folder, _Eager(folder), Limits(perplexity=1.0)).perplexity("a", 12).problem
    assert problem is not None and problem.code == "DC504"


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_tokenizer_is_named(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / name).write_text("[1, 2")
    with pytest.raises(DelegatecError, match=rf"DC116: cannot read {name} of the checkpoint"):
        TextTokenizer(str(tmp_path))


def test_a_prompt_beyond_the_context_is_a_problem(folder: Path) -> None:
    checks = _checks(folder, _Eager(folder), Limits())
    (outcome,) = checks.prompts(["x" * _CONTEXT], 4)
    assert outcome.problem is not None and outcome.problem.code == "DC504"


def _with_draft(folder: Path, limits: Limits, draft_tokens: int) -> list[Outcome]:
    checks = _checks(folder, _Eager(folder, draft_tokens=draft_tokens), limits)
    draft = RunningModel(_Eager(folder, lambda logits: -logits))
    return [*replace(checks, draft=draft).prompts(["sea"], 6)]


def test_the_acceptance_of_drafts_has_a_limit(folder: Path) -> None:
    _, found, _ = _with_draft(folder, Limits(), 3)
    assert found.problem is None and found.figures["accepted"] == "0.0%"
    assert found.figures["tokens in a call"] == "1.00"
    _, found, _ = _with_draft(folder, Limits(acceptance=0.5), 3)
    assert found.problem is not None and "at least minimum_acceptance = 0.5" in found.problem.expected


def test_a_program_that_checks_no_drafts_is_named(folder: Path) -> None:
    _, found, _ = _with_draft(folder, Limits(), 0)
    assert found.problem is not None and found.problem.code == "DC514"
    assert "returns the logits of one token" in found.problem.message


def test_figures_of_known_predictions() -> None:
    model = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    program = torch.tensor([[0.0, torch.tensor(3.0).log()], [0.0, 1.0]])
    found = divergence(model, program)
    # 0.5 ln(0.5 / 0.25) + 0.5 ln(0.5 / 0.75), of two predictions
    assert found.mean == pytest.approx(0.5 * 0.5 * (torch.tensor(4 / 3).log().item()))
    assert found.tokens == 2
    assert perplexity(torch.zeros(3, 7), torch.tensor([1, 2, 3])) == pytest.approx(7)
