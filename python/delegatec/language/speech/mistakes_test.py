# SPDX-License-Identifier: Apache-2.0
"""Mistakes in checkpoints of speech, in settings and in recordings: one message each, with a code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig

import delegatec
from delegatec.diagnostics import DelegatecError, render
from delegatec.language.loading import store_checkpoint
from delegatec.language.settings import WeightSettings
from delegatec.language.speech.network import network_of
from delegatec.language.speech.recording import check_length, read_recording
from delegatec.language.speech.testing import RATE, sound, write_family, write_wave
from delegatec.language.testing import write_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_PREPROCESSOR = "preprocessor_config.json"


@pytest.fixture(params=["Whisper", "Moonshine"])
def family(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write_family(request.param, tmp_path)
    return tmp_path


@pytest.fixture
def whisper(tmp_path: Path) -> Path:
    write_family("Whisper", tmp_path)
    return tmp_path


def _refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DelegatecError) as error:
        call()
    (problem,) = error.value.diagnostics
    return render([problem])


def _change(folder: Path, **values: Any) -> None:
    path = folder / _PREPROCESSOR
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_folder_without_preprocessor(family: Path) -> None:
    (family / _PREPROCESSOR).unlink()
    message = _refusal(lambda: delegatec.speech_to_text(family))
    assert f"error DC115: the checkpoint has no {_PREPROCESSOR}" in message
    assert "help: list all files of the published folder" in message


def test_the_preprocessor_of_another_checkpoint(whisper: Path) -> None:
    _change(whisper, feature_size=80)
    message = _refusal(lambda: delegatec.speech_to_text(whisper))
    assert f"error DC117: {_PREPROCESSOR} has 80 mel bins, and config.json 16" in message
    _change(whisper, feature_size=16, chunk_length=30)
    message = _refusal(lambda: delegatec.speech_to_text(whisper))
    assert f"error DC117: {_PREPROCESSOR} has 3000 frames, and config.json 200" in message


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("Whisper", {"dither": 0.1}, "dither = 0.1"),
        ("Moonshine", {"do_normalize": True}, "do_normalize = True"),
        (
            "Moonshine",
            {"feature_extractor_type": "WhisperFeatureExtractor"},
            'type "WhisperFeatureExtractor"',
        ),
    ],
)
def test_features_that_are_not_supported(
    name: str, values: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write_family(name, tmp_path)
    _change(tmp_path, **values)
    message = _refusal(lambda: delegatec.speech_to_text(tmp_path))
    assert "error DC138: " in message and f"{words} of {_PREPROCESSOR} is not supported" in message


def test_the_processor_of_later_versions_contains_the_preprocessor(family: Path) -> None:
    contents = json.loads((family / _PREPROCESSOR).read_text())
    (family / _PREPROCESSOR).unlink()
    (family / "processor_config.json").write_text(json.dumps({"feature_extractor": contents}))
    assert delegatec.speech_to_text(family).constant_methods["get_sampling_rate"] == RATE


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"context": 25}, "context = 25 is beyond the 24 positions"),
        ({"context": -1}, "context = -1 is not a number of tokens"),
        ({"seconds": -1}, "seconds = -1 is not a length of audio"),
    ],
)
def test_sizes_beyond_the_model(settings: dict[str, Any], words: str, family: Path) -> None:
    message = _refusal(lambda: delegatec.speech_to_text(family, **settings))
    assert "error DC138: " in message and words in message


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        (
            "Whisper, multilingual",
            {"language": "dee"},
            (
                'DC130: language = "dee" is not one of the model',
                'expected: "en" or "de" or "sw"',
                "did you mean 'de'",
            ),
        ),
        ("Whisper, multilingual", {"task": "translation"}, ("DC130: task", '"transcribe" or "translate"')),
        (
            "Whisper, English only",
            {"language": "de"},
            ('DC138: language = "de" has no effect', "a multilingual model, with lang_to_id"),
        ),
        ("Moonshine", {"task": "translate"}, ('DC138: task = "translate" has no effect',)),
        ("Moonshine", {"cache": "int4"}, ('DC130: cache = "int4" is not a setting of a model of speech',)),
    ],
)
def test_languages_tasks_and_caches(
    name: str, settings: dict[str, str], words: tuple[str, ...], tmp_path: Path
) -> None:
    write_family(name, tmp_path)
    message = _refusal(lambda: delegatec.speech_to_text(tmp_path, **settings))
    assert all(each in message for each in words), message


def test_windows_have_the_length_of_the_model(whisper: Path) -> None:
    message = _refusal(lambda: delegatec.speech_to_text(whisper, seconds=20))
    assert "error DC138: seconds = 20 is not the 2 seconds that the model takes" in message


def test_a_language_model_is_not_one_of_speech(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    message = _refusal(lambda: delegatec.speech_to_text(tmp_path))
    assert 'error DC138: model_type "qwen3" of config.json is not a model of speech' in message
    assert "expected: a checkpoint of whisper or moonshine" in message


def test_a_model_of_speech_is_not_a_language_model(family: Path, tmp_path: Path) -> None:
    message = _refusal(lambda: delegatec.language_model(family))
    assert "error DC138: " in message and "speech_to_text" in message
    path = tmp_path / "weights.safetensors"
    store_checkpoint(str(family), str(path), network_of, WeightSettings())
    assert "error DC138: " in _refusal(lambda: delegatec.language_model(path))


@pytest.mark.parametrize("kind", ["speech_to_text", "wav2vec2", "speecht5", "hubert", "moonshine_streaming"])
def test_a_family_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    """Without weights: before anything else."""
    AutoConfig.for_model(kind).save_pretrained(tmp_path)
    save_file({}, tmp_path / "model.safetensors")
    message = _refusal(lambda: delegatec.speech_to_text(tmp_path))
    assert "error DC138: " in message and f'"{kind}"' in message
    assert "expected: a checkpoint of whisper or moonshine" in message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"no_timestamps_token_id": 99}, "has token 99, and the vocabulary 99 tokens"),
        (
            {"language": "klingon", "lang_to_id": {"<|en|>": 3}},
            'has language "klingon", and its lang_to_id <|en|>',
        ),
    ],
)
def test_tokens_of_another_vocabulary(values: dict[str, Any], words: str, whisper: Path) -> None:
    path = whisper / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    message = _refusal(lambda: delegatec.speech_to_text(whisper))
    assert f"error DC117: generation_config.json {words}" in message


def test_recordings(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    samples = sound(0.1, 1)
    write_wave(path, samples)
    assert torch.equal(read_recording(str(path), RATE), samples)
    for settings, words in (
        ({"rate": 8000}, "a.wav has a sampling rate of 8000 Hz"),
        ({"channels": 2}, "a.wav has 2 channels of 16 bits"),
        ({"width": 4}, "a.wav has 1 channels of 32 bits"),
    ):
        write_wave(path, samples, **settings)
        message = _refusal(lambda: read_recording(str(path), RATE))
        assert f"error DC504: {words}" in message and "help: convert it, such as by ffmpeg" in message
    write_wave(path, samples)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    message = _refusal(lambda: read_recording(str(path), RATE))
    assert "error DC504: a.wav ends inside a sample" in message
    # A part before the samples that is longer than the file.
    path.write_bytes(whole[:12] + b"LIST\xff\xff\xff\x7f" + whole[12:])
    message = _refusal(lambda: read_recording(str(path), RATE))
    assert "error DC504: a.wav cannot be read: it ends early" in message
    write_wave(path, samples[:0])
    assert "error DC504: a.wav has no samples" in _refusal(lambda: read_recording(str(path), RATE))
    for contents in (b"", b"ID3\x04", b"RIFF\x00\x00\x00\x00WAVE", path.read_bytes()[:20]):
        path.write_bytes(contents)
        assert re.search(
            "error DC504: a.wav cannot be read: .+", _refusal(lambda: read_recording(str(path), RATE))
        )


def test_recordings_that_do_not_fit() -> None:
    assert check_length("a.wav", torch.zeros(100), 100, 100, RATE) is None
    long = check_length("a.wav", torch.zeros(3 * RATE), 1, 2 * RATE, RATE)
    assert long is not None
    assert long.message == "a.wav has 48000 samples, 3.00 seconds" and long.help == "cut it into parts"
    assert long.expected == "1 to 32000 samples, up to 2 seconds"
    short = check_length("a.wav", torch.zeros(99), 100, 2 * RATE, RATE)
    assert short is not None and short.help == "add silence"
