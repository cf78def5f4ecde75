# SPDX-License-Identifier: Apache-2.0
"""Folders of checkpoints for tests: small networks that take speech, and sounds."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any, Final

import numpy
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSpeechSeq2Seq, WhisperFeatureExtractor
from transformers.models.wav2vec2 import Wav2Vec2FeatureExtractor

RATE: Final = 16000
START: Final = 1
END: Final = 2
CONTEXT: Final = 24
_WHISPER: Final[dict[str, Any]] = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_source_positions": 100,
    "max_target_positions": CONTEXT,
    "num_mel_bins": 16,
    "decoder_start_token_id": START,
    "bos_token_id": START,
    "eos_token_id": END,
    "pad_token_id": END,
}
_MOONSHINE: Final[dict[str, Any]] = {
    "vocab_size": 99,
    "hidden_size": 36,
    "intermediate_size": 64,
    "encoder_num_hidden_layers": 2,
    "decoder_num_hidden_layers": 2,
    "encoder_num_attention_heads": 4,
    "decoder_num_attention_heads": 4,
    "pad_head_dim_to_multiple_of": 8,
    "max_position_embeddings": CONTEXT,
    "decoder_start_token_id": START,
    "bos_token_id": START,
    "eos_token_id": END,
}
# the last one: those after it would be timestamps
_SILENT: Final = 98
_LANGUAGES: Final = {"<|en|>": 91, "<|de|>": 92, "<|sw|>": 93}
# name -> model_type, its configuration, and what its generation_config.json has besides
FAMILIES: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "Whisper": ("whisper", _WHISPER, {}),
    "Whisper, multilingual": (
        "whisper",
        _WHISPER,
        {
            "lang_to_id": _LANGUAGES,
            "task_to_id": {"transcribe": 94, "translate": 95},
            "task": "transcribe",
            "no_timestamps_token_id": _SILENT,
            "is_multilingual": True,
            "suppress_tokens": [91, 92, 93, 94, 95, _SILENT, 58, 73],
            "begin_suppress_tokens": [65, END],
        },
    ),
    "Whisper, English only": (
        "whisper",
        _WHISPER,
        {
            "no_timestamps_token_id": _SILENT,
            "is_multilingual": False,
            "suppress_tokens": [58, _SILENT],
            "begin_suppress_tokens": [END],
        },
    ),
    "Whisper, older": (
        "whisper",
        _WHISPER,
        {
            "forced_decoder_ids": [[1, None], [2, 94]],
            "lang_to_id": _LANGUAGES,
            "no_timestamps_token_id": _SILENT,
        },
    ),
    "Moonshine": ("moonshine", _MOONSHINE, {}),
    "Moonshine, grouped heads": (
        "moonshine",
        _MOONSHINE | {"encoder_num_key_value_heads": 4, "tie_word_embeddings": False},
        {},
    ),
}


def write_family(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Writes the folder of a network with random weights; returns the network, in float32."""
    kind, sizes, generation = FAMILIES[name]
    torch.manual_seed(0)
    network: Any = AutoModelForSpeechSeq2Seq.from_config(AutoConfig.for_model(kind, **sizes))
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            # large enough that the next token depends on the audio, and on all tokens before it
            scale = 0.2 if "embed" in key else 0.5
            parameter.copy_(torch.randn_like(parameter) * scale + (parameter == 1))
    network.to(dtype).save_pretrained(folder)
    tokens = {name: sizes[name] for name in ("decoder_start_token_id", "eos_token_id", "bos_token_id")}
    (folder / "generation_config.json").write_text(json.dumps(tokens | generation))
    extractor_of(kind).save_pretrained(folder)
    loaded: Any = AutoModelForSpeechSeq2Seq.from_pretrained(folder, dtype=torch.float32)
    return loaded.eval()


def extractor_of(kind: str) -> Any:
    """Returns the feature extractor of a family."""
    if kind == "whisper":
        return WhisperFeatureExtractor(feature_size=_WHISPER["num_mel_bins"], chunk_length=2)
    return Wav2Vec2FeatureExtractor(do_normalize=False)


def sound(seconds: float, seed: int) -> Tensor:
    """Returns tones and noise, float32 [samples], exactly representable in 16 bits."""
    generator = torch.Generator().manual_seed(seed)
    time = torch.arange(int(seconds * RATE)) / RATE
    pitch, rate = (torch.rand(2, generator=generator) * torch.tensor([2000.0, 8.0]) + 80).tolist()
    tone = (time * pitch * 6.283).sin() * (time * rate).sin()
    noise = torch.randn(len(time), generator=generator)
    result: Tensor = ((tone * 0.4 + noise * 0.05).clamp(-1, 1) * 32767).round() / 32768
    return result


def write_wave(path: Path, samples: Tensor, rate: int = RATE, channels: int = 1, width: int = 2) -> None:
    """Writes samples as a .wav of PCM, with equal channels."""
    values = (samples * 32768).round().clamp(-32768, 32767).to(torch.int16)
    data = numpy.repeat(values.numpy(), channels).astype(f"<i{width}")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data.tobytes())
