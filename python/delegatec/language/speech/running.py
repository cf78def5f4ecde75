# SPDX-License-Identifier: Apache-2.0
"""The program of a model of speech in an executor, called as ExecuTorch's runner of speech calls it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import torch
from torch import Tensor

from delegatec.verify.executors import Executor

METADATA: Final = (
    "get_decoder_start_token_id",
    "get_max_context_len",
    "get_max_samples",
    "get_min_samples",
    "get_sampling_rate",
)
"""Methods that an app calls before the first recording."""
METHODS: Final = ("encoder", "text_decoder")
"""Those that compute."""


class RunningSpeechModel:
    """A loaded model of speech.

    Args:
        executor: the program; its state persists between calls.

    Attributes:
        start: the token before all others.
        context: tokens of a text, with the start token.
        most: the most samples of a recording.
        least: the fewest.
        sampling_rate: that of recordings.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        values = (int(executor.run(name, [])[0]) for name in METADATA)
        self.start, self.context, self.most, self.least, self.sampling_rate = values

    def encode(self, waveform: Tensor) -> Tensor:
        """Returns the encoder's output for float32 [samples]."""
        output: Tensor = self._executor.run("encoder", [waveform[None, None]])[0]
        return output

    def after(self, token: int, position: int, output: Tensor) -> Tensor:
        """Returns the logits after a token, float32 [vocabulary].

        Args:
            token: the token.
            position: the number of tokens before it.
            output: that of `encode`.
        """
        inputs = [torch.tensor([[token]]), output, torch.tensor([position])]
        logits: Tensor = self._executor.run("text_decoder", inputs)[0]
        return logits.reshape(-1).float()

    def transcription(self, waveform: Tensor, count: int, eos_ids: Collection[int]) -> list[int]:
        """Returns the tokens after the start token, up to the first one that ends the text.

        Args:
            waveform: float32 [samples].
            count: the most tokens.
            eos_ids: tokens that end a text.
        """
        output, tokens = self.encode(waveform), [self.start]
        while len(tokens) <= count and (len(tokens) == 1 or tokens[-1] not in eos_ids):
            tokens.append(int(self.after(tokens[-1], len(tokens) - 1, output).argmax()))
        return tokens[1:]

    def logits(self, waveform: Tensor, tokens: Sequence[int]) -> Tensor:
        """Returns the logits of tokens, and of the one after them, float32 [tokens + 1, vocabulary]."""
        output = self.encode(waveform)
        return torch.stack(
            [self.after(token, position, output) for position, token in enumerate((self.start, *tokens))]
        )
