# SPDX-License-Identifier: Apache-2.0
"""`delegatec.speech_to_text`: from a checkpoint to a model."""

from __future__ import annotations

import os
from typing import Any, Final

import torch
from torch.export import Dim

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.method import Method
from delegatec.frontend.model import Model
from delegatec.language.library import unsupported
from delegatec.language.loading import load_network, located
from delegatec.language.network import context_limit
from delegatec.language.settings import CACHES, WeightSettings, choice_problems
from delegatec.language.speech.audio import Audio, audio_of
from delegatec.language.speech.module import SpeechToText
from delegatec.language.speech.network import network_of
from delegatec.language.speech.rules import addends, generation_of, with_prompt

# Of the example, in Hz: the loudness and the pitch of speech.
_TONE: Final = 200.0
_LOUDNESS: Final = 0.2


def speech_to_text(
    checkpoint: str | os.PathLike[str],
    *,
    context: int = 0,
    seconds: int = 0,
    weights: str = "float32",
    group_size: int = 0,
    embedding: str = "",
    activation: str = "",
    cache: str = "float32",
    language: str = "",
    task: str = "",
) -> Model:
    """Returns an encoder of speech and a decoder with state, as ExecuTorch's runner of speech calls them.

    `encoder` takes a waveform, float32 [1, 1, samples], and returns float32 [1, frames, size]. `text_decoder`
    takes a token, int64 [1, 1], this output, and the number of tokens before it, int64 [1], and returns the
    logits of the next one, float32 [1, 1, vocabulary].

    Args:
        checkpoint: the folder of a checkpoint as Hugging Face publishes it, or a file that `delegatec
            checkpoint` wrote, which has the settings of weights. It is a declared data file (`data_path`).
        context: tokens of a text; 0 for as many as the model can have.
        seconds: the longest audio; 0 for that of Whisper's windows, and otherwise 30.
        weights: as in `WeightSettings`.
        group_size: as there.
        embedding: as there.
        activation: as there.
        cache: dtype of keys and values: "float32", "float16", or "int8" with a scale for each row of a head.
        language: of the audio, for a multilingual Whisper, as in generation_config.json, such as "de"; empty
            for that of the file, or the most probable one.
        task: what such a model writes, "transcribe", or "translate" for a text in English; empty for that of
            the file.

    Raises:
        DelegatecError: DC103, transformers is missing; DC115 to DC117, the checkpoint is missing, cannot be
            read, or does not match its configuration; DC130, DC134, DC136, settings of weights; DC138, a
            family or a size that is not supported.
    """
    try:
        settings = WeightSettings(weights, group_size, embedding, activation)
        network, description = load_network(checkpoint, network_of, settings)
        if problems := [*choice_problems("cache", cache, CACHES, "a model of speech")]:
            raise DelegatecError(problems)
        description = with_prompt(description, language, task)
        audio = audio_of(network, description, seconds)
        context = _context(network, context)
        rules = addends(description, network.config.vocab_size)
    except DelegatecError as error:
        raise located(error) from error
    config, generation = network.config, generation_of(description)
    methods: dict[str, Any] = {
        "get_decoder_start_token_id": generation.get("decoder_start_token_id", config.decoder_start_token_id),
        "get_max_context_len": context,
        "get_max_samples": audio.most,
        "get_min_samples": audio.least,
        "get_sampling_rate": audio.sampling_rate,
        "get_vocab_size": config.vocab_size,
    }
    if description.eos_ids:
        methods["get_eos_ids"] = description.eos_ids
    module = SpeechToText(network, audio.features, rules, context, audio.frames[1], cache)
    return Model(module, methods=_methods(audio, config), constant_methods=methods)


def _methods(audio: Audio, config: Any) -> dict[str, Method]:
    seconds = torch.arange(max(audio.least, audio.most // 3)) / audio.sampling_rate
    waveform = (seconds * (2 * torch.pi * _TONE)).sin() * _LOUDNESS
    samples = Dim("samples", min=audio.least, max=audio.most)
    least, most = audio.frames
    frames = least if least == most else max(least + 1, most // 3)
    output = torch.linspace(-1, 1, config.hidden_size * frames).view(1, frames, config.hidden_size)
    is_static = least == most
    return {
        "encoder": Method("encode", (waveform[None, None],), dynamic_shapes=({2: samples},)),
        "text_decoder": Method(
            "decode",
            (torch.tensor([[config.vocab_size // 2]]), output, torch.tensor([0])),
            dynamic_shapes=None if is_static else (None, {1: Dim("frames", min=least, max=most)}, None),
        ),
    }


def _context(network: Any, context: int) -> int:
    """Returns the number of tokens of a text."""
    limit: Any = getattr(network.config, "max_target_positions", None) or context_limit(network)
    if 1 <= context <= limit or not context:
        return context or limit
    if context < 1:
        raise unsupported(f"context = {context} is not a number of tokens", f"1 to {limit}, or 0 for {limit}")
    raise unsupported(
        f"context = {context} is beyond the {limit} positions of the model",
        f"at most {limit} tokens",
        "set a smaller context",
    )
