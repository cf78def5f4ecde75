# SPDX-License-Identifier: Apache-2.0
"""The input of an encoder: the samples that it takes, and the features that it computes of them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.folder import CONFIG, PREPROCESSOR_CONFIG, Description
from delegatec.language.library import family_of, unsupported
from delegatec.language.speech.features import LogMelSpectrogram

# Of a model that takes audio of any length.
_SECONDS: Final = 30
# Output frames of the shortest audio: a size of 1 is a constant for torch.export.
_LEAST_FRAMES: Final = 2


@dataclass(frozen=True)
class Audio:
    """The input of an encoder.

    Attributes:
        features: the waveform [1, 1, samples] to the encoder's input.
        sampling_rate: samples of a second.
        least: the fewest samples.
        most: the most samples.
        frames: the fewest and the most frames of the encoder's output.
    """

    features: nn.Module
    sampling_rate: int
    least: int
    most: int
    frames: tuple[int, int]


def audio_of(network: Any, description: Description, seconds: int) -> Audio:
    """Returns the input of a network's encoder.

    Args:
        network: a network of `network_of`.
        description: the model.
        seconds: the longest audio; 0 for the model's own, or 30.

    Raises:
        DelegatecError: DC115, DC117 and DC138, preprocessor_config.json is missing, does not match
            config.json, or is not supported; DC138, a number of seconds that the model does not take.
    """
    if seconds < 0:
        raise unsupported(
            f"seconds = {seconds} is not a length of audio", "1 or more, or 0 for the model's own"
        )
    return _FAMILIES[family_of(description)](network, _preprocessor(description), seconds)


def _preprocessor(description: Description) -> Mapping[str, Any]:
    config: Mapping[str, Any] = description.preprocessor
    config = config.get("feature_extractor", config)
    if not config:
        problem = Diagnostic(
            "DC115",
            f"the checkpoint has no {PREPROCESSOR_CONFIG}",
            expected=f"{PREPROCESSOR_CONFIG}, the sampling rate and the features of its audio",
            help="list all files of the published folder",
        )
        raise DelegatecError([problem])
    return config


def _whisper(network: Any, config: Mapping[str, Any], seconds: int) -> Audio:
    extractor = _extractor(config, "WhisperFeatureExtractor", "dither")
    expected = network.config
    for name, found, wanted in (
        ("mel bins", extractor.feature_size, expected.num_mel_bins),
        ("frames", extractor.nb_max_frames, 2 * expected.max_source_positions),
    ):
        if found != wanted:
            problem = f"{PREPROCESSOR_CONFIG} has {found} {name}, and {CONFIG} {wanted}"
            help = "use files that were published together"
            raise DelegatecError([Diagnostic("DC117", problem, help=help)])
    if seconds not in (0, extractor.chunk_length):
        raise unsupported(
            f"seconds = {seconds} is not the {extractor.chunk_length} seconds that the model takes",
            f"seconds = {extractor.chunk_length}, or none: silence follows shorter audio",
            "omit seconds",
        )
    frames = expected.max_source_positions
    features = LogMelSpectrogram(extractor)
    return Audio(features, extractor.sampling_rate, 1, features.samples, (frames, frames))


def _moonshine(network: Any, config: Mapping[str, Any], seconds: int) -> Audio:
    extractor = _extractor(config, "Wav2Vec2FeatureExtractor", "do_normalize")
    encoder = network.model.encoder
    layers = [(each.kernel_size[0], each.stride[0]) for each in (encoder.conv1, encoder.conv2, encoder.conv3)]
    least, most = _LEAST_FRAMES, (seconds or _SECONDS) * extractor.sampling_rate
    frames = most
    for kernel, stride in layers:
        frames = (frames - kernel) // stride + 1
    for kernel, stride in reversed(layers):
        least = (least - 1) * stride + kernel
    encoder.conv3.register_forward_hook(functools.partial(_with_counted_frames, most=frames))
    return Audio(_Waveform(), extractor.sampling_rate, least, most, (_LEAST_FRAMES, frames))


def _with_counted_frames(module: nn.Module, arguments: Any, output: Tensor, *, most: int) -> Tensor:
    """Makes the number of frames a separate variable: torch.export guards functions of the samples.

    Args:
        module: the last convolution.
        arguments: those of its call.
        output: its result, [1, channels, frames].
        most: the most frames.
    """
    count: Any = torch.full((1,), output.shape[2]).item()
    check_size(count, _LEAST_FRAMES, most)
    check_size(count, _LEAST_FRAMES, output.shape[2])
    return output[:, :, :count]


def check_size(size: Any, least: int, most: Any) -> None:
    """Tells torch.export the bounds of a size that it cannot know.

    Args:
        size: the size.
        least: its least value.
        most: its largest value.
    """
    check: Any = torch._check
    check(size >= least)
    check(size <= most)


class _Waveform(nn.Module):
    """The features of an encoder that takes samples."""

    def forward(self, waveform: Tensor) -> Tensor:
        """Returns [1, samples] of a waveform [1, 1, samples]."""
        return waveform[:, 0]


_FAMILIES: Final[Mapping[str, Callable[[Any, Mapping[str, Any], int], Audio]]] = {
    "whisper": _whisper,
    "moonshine": _moonshine,
}


def _extractor(config: Mapping[str, Any], kind: str, refused: str) -> Any:
    """Returns a feature extractor of transformers.

    Args:
        config: the contents of preprocessor_config.json.
        kind: its class.
        refused: a setting that is not supported.
    """
    found = config.get("feature_extractor_type", kind)
    if found != kind:
        text = f'feature_extractor_type "{found}" of {PREPROCESSOR_CONFIG} is not supported'
        raise unsupported(text, f'"{kind}", as the family has it')
    if config.get(refused):
        text = f"{refused} = {config[refused]} of {PREPROCESSOR_CONFIG} is not supported"
        raise unsupported(text, f"features without {refused}, as they were published")
    extractor: Any = getattr(importlib.import_module("transformers"), kind)
    return extractor(**config)
