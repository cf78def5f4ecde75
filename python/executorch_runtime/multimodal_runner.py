# SPDX-License-Identifier: Apache-2.0
"""The wheel's `MultimodalRunner`, for `language_model_test`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch  # also loads libraries that the bindings need
from executorch.extension.llm.runner import (  # type: ignore[import-untyped]
    GenerationConfig,
    MultimodalRunner,
    make_image_input,
    make_text_input,
)

from executorch_runtime.streams import quiet


class ExecutorchMultimodalRunner:
    """A `delegatec.verify.runtime.MultimodalRunner`.

    Args:
        pte: path of the program.
        ptd: path of its external weights, if there are any.
        tokenizer: path of the tokenizer's file, such as tokenizer.json.
    """

    def __init__(self, pte: str, ptd: str | None, tokenizer: str) -> None:
        with quiet():
            self._runner = MultimodalRunner(pte, tokenizer, *([ptd] if ptd else []))

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
        config = GenerationConfig(echo=False, max_new_tokens=tokens, temperature=temperature, num_bos=bos)
        inputs = [
            make_text_input(part) if isinstance(part, str) else make_image_input(part) for part in parts
        ]
        pieces: list[str] = []

        def take(piece: str) -> None:
            pieces.append(piece)
            on_text(piece)

        with quiet():
            self._runner.generate(inputs, config, take)
        return "".join(pieces)

    def reset(self) -> None:
        """Forgets what it was given."""
        self._runner.reset()
