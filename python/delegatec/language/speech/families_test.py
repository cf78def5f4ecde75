# SPDX-License-Identifier: Apache-2.0
"""Families of speech recognition: the module against transformers, from the samples to the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec import speech_to_text
from delegatec.frontend.model import Model
from delegatec.language.loading import store_checkpoint
from delegatec.language.settings import WeightSettings
from delegatec.language.speech.checks import SpeechChecks
from delegatec.language.speech.network import network_of
from delegatec.language.speech.reference import SpeechReference
from delegatec.language.speech.running import RunningSpeechModel
from delegatec.language.speech.testing import CONTEXT, FAMILIES, sound, write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class Eager:
    """The module as an executor."""

    name = "eager"

    def __init__(self, model: Model) -> None:
        self._model = model

    def run(self, method: str, inputs: Sequence[Any], /) -> list[Any]:
        found = self._model.all_methods().get(method)
        if found is None:
            return [self._model.constant_methods[method]]
        with torch.no_grad():
            return [found.of(self._model.module)(*inputs)]


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """Texts of several lengths of audio, in turn; the last one again is the same."""
    write_family(name, tmp_path)
    checks = SpeechChecks(SpeechReference(str(tmp_path)), RunningSpeechModel(Eager(speech_to_text(tmp_path))))
    recordings = {str(each): sound(each, int(each * 10)) for each in (1.0, 0.3, 2.0)}
    recordings["again"] = recordings["1.0"]
    outcomes = [*checks.recordings(recordings, CONTEXT)]
    assert [each.problem for each in outcomes] == [None] * 4
    assert all(float(each.figures["divergence"].split()[0]) < 1e-7 for each in outcomes)
    assert outcomes[0].figures == outcomes[3].figures


@pytest.mark.parametrize(
    ("name", "settings", "prompt"),
    [
        ("Whisper, multilingual", {"language": "de"}, [92, 94]),
        ("Whisper, multilingual", {"language": "sw", "task": "translate"}, [93, 95]),
        ("Whisper, multilingual", {"task": "translate"}, [None, 95]),
        ("Whisper, older", {"language": "en"}, [91]),
    ],
)
def test_a_text_begins_with_a_language_and_a_task(
    name: str, settings: dict[str, str], prompt: list[int | None], tmp_path: Path
) -> None:
    write_family(name, tmp_path)
    model = RunningSpeechModel(Eager(speech_to_text(tmp_path, **settings)))
    reference = SpeechReference(str(tmp_path), **settings)
    sounds = {str(each): sound(each, int(each * 10)) for each in (1.0, 0.3)}
    assert [each.problem for each in SpeechChecks(reference, model).recordings(sounds, CONTEXT)] == [None] * 2
    tokens = model.transcription(sounds["1.0"], CONTEXT - 1, reference.eos_ids)
    for found, wanted in zip(tokens, prompt, strict=False):
        assert found == wanted or (wanted is None and 91 <= found <= 93)


@pytest.mark.parametrize("name", ["Whisper, multilingual", "Moonshine", "Moonshine, grouped heads"])
@pytest.mark.parametrize(("dtype", "least"), [("float16", 50), ("int8", 25)])
def test_caches_of_other_dtypes(name: str, dtype: str, least: float, tmp_path: Path) -> None:
    write_family(name, tmp_path)
    model = RunningSpeechModel(Eager(speech_to_text(tmp_path, cache=dtype)))
    checks = SpeechChecks(SpeechReference(str(tmp_path)), model, limit=0.05)
    sounds = {str(each): sound(each, int(each * 10)) for each in (1.0, 0.3)}
    for outcome in checks.recordings(sounds, CONTEXT):
        assert outcome.problem is None
        assert float(outcome.figures["SNR"].split()[0]) > least


def test_texts_of_a_small_vocabulary_vary(tmp_path: Path) -> None:
    """Equal tokens show something: they depend on the recording."""
    write_family("Whisper, multilingual", tmp_path)
    reference = SpeechReference(str(tmp_path))
    texts = {tuple(reference.transcription(sound(each, int(each * 10)), 12)) for each in (1.0, 0.3, 2.0)}
    assert len(texts) == 3 and max(len({*text}) for text in texts) > 6


@pytest.mark.parametrize("name", ["Whisper, multilingual", "Moonshine"])
@pytest.mark.parametrize("weights", ["float16", "int8", "int4"])
def test_stored_weights_give_the_same_model(name: str, weights: str, tmp_path: Path) -> None:
    folder, file = tmp_path / "checkpoint", tmp_path / "weights.safetensors"
    write_family(name, folder, torch.bfloat16)
    store_checkpoint(str(folder), str(file), network_of, WeightSettings(weights))
    first, second = (
        RunningSpeechModel(Eager(each))
        for each in (speech_to_text(folder, weights=weights), speech_to_text(file))
    )
    waveform = sound(0.5, 1)
    assert torch.equal(first.logits(waveform, [5, 6]), second.logits(waveform, [5, 6]))
    limits = SpeechChecks(SpeechReference(str(folder)), first, limit=0.2)
    (outcome,) = limits.recordings({"sound": waveform}, 8)
    assert outcome.problem is None, outcome
