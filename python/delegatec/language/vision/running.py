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

    def _call(self, tokens: Sequence[int], start_pos: Tensor) -> list[Any]:
        embeddings = torch.cat([*self._embeddings(tokens)], 1)
        return self._executor.run("text_decoder", [embeddings, start_pos])

    def _embeddings(self, tokens: Sequence[int]) -> Iterator[Tensor]:
        for is_image, group in itertools.groupby(tokens, lambda token: token < 0):
            if is_image:
                yield self._rows[:, [embedding_number(token) for token in group]]
            else:
                yield self._executor.run("token_embedding", [torch.tensor([[*group]])])[0].clone()
