# SPDX-License-Identifier: Apache-2.0
"""The wheel's `TextLLMRunner`, for `language_model_test`."""

from __future__ import annotations

from collections.abc import Callable

import torch  # noqa: F401 - loads libraries that the bindings need
from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner  # type: ignore[import-untyped]

from executorch_runtime.streams import quiet


class ExecutorchTextRunner:
    """A `delegatec.verify.runtime.TextRunner`.

    Args:
        pte: path of the program.
        ptd: path of its external weights, if there are any.
        tokenizer: path of the tokenizer's file, such as tokenizer.json.
    """

    def __init__(self, pte: str, ptd: str | None, tokenizer: str) -> None:
        with quiet():
            self._runner = TextLLMRunner(pte, tokenizer, *([ptd] if ptd else []))

    def generate(
        self,
        prompt: str,
        tokens: int,
        bos: int,
        temperature: float = 0.0,
        on_text: Callable[[str], None] = lambda _: None,
    ) -> str:
        """Returns the continuation of what it was given so far, and a prompt.

        Args:
            prompt: the text.
            tokens: the most tokens to generate.
            bos: number of tokens that begin the text.
            temperature: 0 for the most probable tokens, more for random ones.
            on_text: is called with each token's text. The standard streams are redirected meanwhile.
        """
        config = GenerationConfig(echo=False, max_new_tokens=tokens, temperature=temperature, num_bos=bos)
        pieces: list[str] = []

        def take(piece: str) -> None:
            pieces.append(piece)
            on_text(piece)

        with quiet():
            self._runner.generate(prompt, config, take)
        return "".join(pieces)

    def reset(self) -> None:
        """Forgets what it was given."""
        self._runner.reset()
