# SPDX-License-Identifier: Apache-2.0
"""The program of a language model of images and text in an executor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from delegatec.language.running import METADATA as RUNNER_METADATA
from delegatec.language.running import RunningModel
from delegatec.language.vision.prompts import embedding_number
from delegatec.verify.executors import Executor

METHODS: Final = ("vision_encoder", "token_embedding", "text_decoder", *RUNNER_METADATA)
"""Methods that the stock runner calls."""


class RunningImageTextModel(RunningModel):
    """A loaded language model of images and text; its tokens are those of `ImageTokenizer`.

    Args:
        executor: the program; its state persists between calls.
        images: uint8 [3, height, width].
    """

    def __init__(self, executor: Executor, images: Sequence[Tensor]) -> None:
        super().__init__(executor)
        # embeddings of all images, in their order
        encoded = [executor.run("vision_encoder", [image])[0].clone() for image in images]
        self._rows = torch.cat(encoded, 1) if encoded else torch.empty(1, 0, 0)
        self._size = max(1, self._rows.shape[1] // max(1, len(images)))

    def _parts(self, tokens: Sequence[int]) -> Iterator[Sequence[int]]:
        for _, part in itertools.groupby(
            tokens, lambda token: token < 0 and 1 + embedding_number(token) // self._size
        ):
            yield [*part]

    def _call(self, tokens: Sequence[int], start_pos: Tensor) -> list[Any]:
        if tokens[0] < 0:
            embeddings = self._rows[:, [embedding_number(token) for token in tokens]]
        else:
            embeddings = self._executor.run("token_embedding", [torch.tensor([[*tokens]])])[0].clone()
        return self._executor.run("text_decoder", [embeddings, start_pos])
