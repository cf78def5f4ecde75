# SPDX-License-Identifier: Apache-2.0
"""Families of speech recognition in the stock runtime: from the samples to the tokens of transformers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec import speech_to_text
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend.export import export
from delegatec.language.speech.checks import SpeechChecks
from delegatec.language.speech.reference import SpeechReference
from delegatec.language.speech.running import RunningSpeechModel
from delegatec.language.speech.testing import CONTEXT, FAMILIES, RATE, sound, write_family
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.oracle import mapped

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class _Executor:
    """A program in the stock runtime, whose methods share nothing, as in ExecuTorch's runner of speech."""

    name = "executorch"

    def __init__(self, folder: Path, **settings: Any) -> None:
        model = speech_to_text(folder, **settings)
        file = io.BytesIO()
        lowered = lower(export(model), "xnnpack", constant_methods=model.constant_methods)
        write_program(lowered.emitted, file)
        self._program = mapped(file.getvalue())

    def run(self, method: str, inputs: Sequence[Any], /) -> list[Any]:
        try:
            return self._program.run(inputs, method)
        except RuntimeError as error:
            raise DelegatecError([Diagnostic("DC505", str(error))]) from error


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """Texts of several lengths of audio, in turn, up to the end of the context, and one after it."""
    write_family(name, tmp_path)
    model = RunningSpeechModel(_Executor(tmp_path))
    checks = SpeechChecks(SpeechReference(str(tmp_path)), model)
    recordings = {str(each): sound(each, int(each * 10)) for each in (1.0, 0.3, 2.0)}
    outcomes = [*checks.recordings(recordings, CONTEXT), checks.bounds(recordings["1.0"])]
    outcomes += checks.recordings({"again": recordings["1.0"]}, CONTEXT)
    assert [each.problem for each in outcomes] == [None] * 5
    assert all(float(each.figures["SNR"].split()[0]) > 90 for each in outcomes if "SNR" in each.figures)


@pytest.mark.parametrize("name", ["Whisper, multilingual", "Moonshine"])
@pytest.mark.parametrize("settings", [{"weights": "int8"}, {"weights": "float16"}], ids=str)
def test_quantized_weights_in_the_runtime(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    write_family(name, tmp_path)
    checks = SpeechChecks(
        SpeechReference(str(tmp_path)), RunningSpeechModel(_Executor(tmp_path, **settings)), limit=0.05
    )
    recordings = {str(each): sound(each, int(each * 10)) for each in (0.5, 2.0)}
    assert [each.problem for each in checks.recordings(recordings, CONTEXT)] == [None] * 2


def test_audio_of_many_lengths(tmp_path: Path) -> None:
    """Of Moonshine, the number of frames depends on the samples, from the fewest to the most."""
    network = write_family("Moonshine", tmp_path)
    model = RunningSpeechModel(_Executor(tmp_path, seconds=4))
    assert model.most == 4 * RATE
    for count in (model.least, model.least + 1, 3000, 16001, 4 * RATE - 1, 4 * RATE):
        waveform = sound(4, 1)[:count]
        with torch.no_grad():
            wanted = network.model.encoder(waveform[None]).last_hidden_state
        torch.testing.assert_close(model.encode(waveform), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["Whisper", "Moonshine"])
def test_audio_that_is_too_long_is_an_error(name: str, tmp_path: Path) -> None:
    """After it, the program works as before."""
    write_family(name, tmp_path)
    model = RunningSpeechModel(_Executor(tmp_path, seconds=2))
    waveform = sound(1, 1)
    before = model.encode(waveform)
    for count in (model.most + 1, 2 * model.most):
        with pytest.raises(DelegatecError):
            model.encode(torch.zeros(count))
        assert torch.equal(model.encode(waveform), before)
