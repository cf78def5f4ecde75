# SPDX-License-Identifier: Apache-2.0
"""The log-mel spectrogram, compared with transformers' own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import WhisperFeatureExtractor

from delegatec.language.speech.features import LogMelSpectrogram
from delegatec.language.speech.testing import RATE, sound

_SOUNDS = {
    "sound": sound(1.3, 1),
    "a whole window": sound(2.0, 2),
    "loud at the end": sound(2.0, 3) * torch.linspace(0, 1, 2 * RATE) ** 8,
    "a tone": (torch.arange(RATE) * 0.3).sin(),
    "one sample": torch.ones(1),
    "less than a frame": sound(0.01, 4),
    "silence": torch.zeros(1000),
}


@pytest.mark.parametrize("name", _SOUNDS)
@pytest.mark.parametrize("bins", [80, 128])
def test_features_are_those_of_transformers(name: str, bins: int) -> None:
    """Values are between -1.5 and 1.5. Next to a tone, transformers' own implementations differ by 6e-5."""
    extractor = WhisperFeatureExtractor(feature_size=bins, chunk_length=2)
    waveform = _SOUNDS[name]
    wanted = extractor(waveform.numpy(), sampling_rate=RATE, return_tensors="pt")["input_features"]
    _assert_close(
        LogMelSpectrogram(extractor)(waveform[None, None]), wanted, 4e-4 if name == "a tone" else 1e-4
    )


@pytest.mark.parametrize(("size", "hop"), [(400, 160), (512, 128), (480, 200)])
def test_frames_of_other_sizes(size: int, hop: int) -> None:
    extractor = WhisperFeatureExtractor(feature_size=40, chunk_length=1, n_fft=size, hop_length=hop)
    waveform = sound(0.9, 5)
    wanted = extractor(waveform.numpy(), sampling_rate=RATE, return_tensors="pt")["input_features"]
    _assert_close(LogMelSpectrogram(extractor)(waveform[None, None]), wanted)


def _assert_close(found: Tensor, wanted: Tensor, atol: float = 1e-4) -> None:
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=0, atol=atol)
