# SPDX-License-Identifier: Apache-2.0
"""The wheel's `MultimodalRunner`, for `language_model_test`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from executorch.extension.llm.runner import (  # type: ignore[import-untyped]
    MultimodalRunner,
    make_image_input,
    make_text_input,
)

from executorch_runtime.runner import Runner


class ExecutorchMultimodalRunner(Runner):
    """A `delegatec.verify.runtime.MultimodalRunner`.

    Args:
        pte: path of the program.
        ptd: path of its external weights, if there are any.
        tokenizer: path of the tokenizer's file, such as tokenizer.json.
    """

    def __init__(self, pte: str, ptd: str | None, tokenizer: str) -> None:
        super().__init__(MultimodalRunner, pte, ptd, tokenizer)

    def generate(
        self,
        parts: Sequence[str | torch.Tensor],
        tokens: int,
        bos: int,
        temperature: float = 0.0,
        on_text: Callable[[str], None] = lambda _: None,
    ) -> str:
        """Returns the continuation of what it was given so far, and of texts and images.

        Args:
            parts: texts, and images, uint8 [3, height, width], in their order.
            tokens: the most tokens to generate.
            bos: number of tokens that begin the text.
            temperature: 0 for the most probable tokens, more for random ones.
            on_text: is called with each token's text. The standard streams are redirected meanwhile.
        """
        inputs = [
            make_text_input(part) if isinstance(part, str) else make_image_input(part) for part in parts
        ]
        return self._continuation(inputs, tokens, bos, temperature, on_text)
