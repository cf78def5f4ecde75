# SPDX-License-Identifier: Apache-2.0
"""The float model of a checkpoint's folder, from the samples to the tokens, as transformers runs it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from delegatec.language.folder import read_folder
from delegatec.language.speech.rules import addends, generation_of, prompt_of, with_prompt


class SpeechReference:
    """The float model, with the feature extractor of its folder.

    Args:
        directory: the folder of its checkpoint.
        language: as in `with_prompt`.
        task: as there.

    Raises:
        DelegatecError: DC115, DC116, the folder is incomplete or damaged; DC130, DC138, `with_prompt`.
    """

    def __init__(self, directory: str, language: str = "", task: str = "") -> None:
        transformers: Any = importlib.import_module("transformers")
        transformers.utils.logging.disable_progress_bar()
        # it warns of each combination of settings that generate is called with
        transformers.utils.logging.set_verbosity_error()
        description = with_prompt(read_folder(directory).description, language, task)
        self.eos_ids = frozenset(description.eos_ids)
        self._extractor: Any = transformers.AutoFeatureExtractor.from_pretrained(
            directory, local_files_only=True
        )
        self._network: Any = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(
            directory, dtype=torch.float32, local_files_only=True, use_safetensors=True
        ).eval()
        config = self._network.config
        self._rules = addends(description, config.vocab_size)
        self._start = generation_of(description).get("decoder_start_token_id", config.decoder_start_token_id)
        self._prompt = len(prompt_of(description))
        self._settings = {name: value for name, value in (("language", language), ("task", task)) if value}

    def transcription(self, waveform: Tensor, count: int) -> list[int]:
        """Returns the tokens after the start token, without one that ends the text.

        Those of the prompt, such as the language, are the most probable ones; the others are those of
        `generate` of transformers.

        Args:
            waveform: float32 [samples].
            count: the most tokens, at least those of the prompt and one.
        """
        prompt: list[int] = []
        for _ in range(self._prompt):
            prompt.append(int(self.logits(waveform, prompt)[-1].argmax()))
        silent: dict[str, Any] = {"return_timestamps": False, **self._settings} if self._prompt else {}
        with torch.no_grad():
            found = self._network.generate(
                **self._features(waveform), do_sample=False, max_new_tokens=count - len(prompt), **silent
            )[0].tolist()
        # generate of Whisper returns neither the start token nor the prompt
        text: list[int] = found[1:] if found[:1] == [self._start] else found
        while text and text[-1] in self.eos_ids:
            text.pop()
        return prompt + text

    def logits(self, waveform: Tensor, tokens: Sequence[int]) -> Tensor:
        """Returns the logits of tokens, and of the one after them, float32 [tokens + 1, vocabulary]."""
        inputs = torch.tensor([[self._start, *tokens]])
        with torch.no_grad():
            result: Tensor = self._network(**self._features(waveform), decoder_input_ids=inputs).logits[0]
        if self._rules is not None:
            rows = torch.arange(len(result)).clamp(max=len(self._rules) - 1)
            result = result + self._rules[rows]
        return result

    def _features(self, waveform: Tensor) -> Mapping[str, Tensor]:
        rate = self._extractor.sampling_rate
        features: Mapping[str, Tensor] = self._extractor(
            waveform.numpy(), sampling_rate=rate, return_tensors="pt"
        )
        return features
