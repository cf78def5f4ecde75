# SPDX-License-Identifier: Apache-2.0
"""Checks of a program of speech, with the module in place of a program: right, and wrong in each way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec import speech_to_text
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend.model import Model
from delegatec.language.comparison import divergence
from delegatec.language.speech.checks import SpeechChecks
from delegatec.language.speech.reference import SpeechReference
from delegatec.language.speech.running import RunningSpeechModel
from delegatec.language.speech.testing import CONTEXT, RATE, sound, write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_family("Whisper, multilingual", path)
    return path


class _Eager:
    """The module as an executor; `change` edits what a method returns.

    Args:
        model: the model.
        change: the name of the method and its output to the output.
        is_bounded: whether it rejects tokens beyond its context.
    """

    name = "eager"

    def __init__(
        self,
        model: Model,
        change: Callable[[str, Tensor], Tensor] = lambda method, output: output,
        is_bounded: bool = True,
    ) -> None:
        self.model, self._change, self._is_bounded = model, change, is_bounded

    def run(self, method: str, inputs: Sequence[Any], /) -> list[Any]:
        found = self.model.all_methods().get(method)
        if found is None:
            return [self.model.constant_methods[method]]
        if method == "text_decoder" and int(inputs[2]) >= CONTEXT:
            if self._is_bounded:
                raise DelegatecError([Diagnostic("DC505", "beyond the context")])
            inputs = [*inputs[:2], inputs[2] * 0]
        with torch.no_grad():
            return [self._change(method, found.of(self.model.module)(*inputs))]


def _checks(folder: Path, limit: float | None = None, **settings: Any) -> SpeechChecks:
    executor = _Eager(speech_to_text(folder), **settings)
    return SpeechChecks(SpeechReference(str(folder)), RunningSpeechModel(executor), limit)


def test_a_right_program_passes(folder: Path) -> None:
    checks = _checks(folder)
    outcomes = [*checks.recordings({"a": sound(1, 1), "b": sound(2, 2)}, 12), checks.bounds(sound(1, 1))]
    assert [each.problem for each in outcomes] == [None] * 3
    assert outcomes[0].figures["agreement"] == "100.0%" and outcomes[0].figures["seconds"] == "1.00"


def test_other_tokens_are_a_problem(folder: Path) -> None:
    """An encoder that hears nothing."""
    checks = _checks(folder, change=lambda method, output: output * 0 if method == "encoder" else output)
    (outcome,) = checks.recordings({"a.wav": sound(1, 1)}, 12)
    assert outcome.problem is not None and outcome.problem.code == "DC517"
    assert "the program transcribes a.wav as tokens [" in outcome.problem.message
    assert "the greedy tokens of the model in float" in outcome.problem.expected


@pytest.mark.parametrize(("factor", "is_wrong"), [(1.001, False), (2.0, True), (torch.nan, True)])
def test_divergence_has_a_limit(factor: float, is_wrong: bool, folder: Path) -> None:
    checks = _checks(folder, 1e-4, change=lambda method, output: output * factor)
    (outcome,) = checks.recordings({"a": sound(1, 1)}, 8)
    assert (outcome.problem is not None) is is_wrong


def test_recordings_that_do_not_fit_are_problems(folder: Path) -> None:
    first, second = _checks(folder).recordings({"long": torch.zeros(3 * RATE), "a": sound(1, 1)}, 8)
    assert first.problem is not None and first.problem.code == "DC504"
    assert second.problem is None


def test_a_token_beyond_the_context_is_an_error(folder: Path) -> None:
    problem = _checks(folder, is_bounded=False).bounds(sound(1, 1)).problem
    assert problem is not None and "token 25 of a context of 24 is accepted" in problem.message


class _Corrupting(_Eager):
    """Writes to its cache before it rejects a token beyond its context."""

    def run(self, method: str, inputs: Sequence[Any], /) -> list[Any]:
        try:
            return super().run(method, inputs)
        except DelegatecError:
            cache: Any = self.model.module.tokens
            cache.key_0[:, :, 7] += 1
            raise


def test_an_error_changes_nothing(folder: Path) -> None:
    executor = _Corrupting(speech_to_text(folder))
    checks = SpeechChecks(SpeechReference(str(folder)), RunningSpeechModel(executor))
    problem = checks.bounds(sound(1, 1)).problem
    assert problem is not None and "changes later results" in problem.message


def test_predictions_of_impossible_tokens() -> None:
    """Tokens that the model excludes do not count, unless the program has another opinion."""
    model = torch.tensor([[1.0, 2.0, -torch.inf]])
    same = divergence(model, model)
    assert same.mean == 0 and same.agreement == 1 and same.snr_db == torch.inf
    assert divergence(model, torch.tensor([[1.0, 2.0, 0.0]])).mean > 0
    assert divergence(model, torch.tensor([[-torch.inf, 2.0, -torch.inf]])).mean == torch.inf
