# SPDX-License-Identifier: Apache-2.0
"""The wheel's `TextLLMRunner`, for `language_model_test`."""

from __future__ import annotations

from collections.abc import Callable

from executorch.extension.llm.runner import TextLLMRunner  # type: ignore[import-untyped]

from executorch_runtime.runner import Runner


class ExecutorchTextRunner(Runner):
    """A `delegatec.verify.runtime.TextRunner`.

    Args:
        pte: path of the program.
        ptd: path of its external weights, if there are any.
        tokenizer: path of the tokenizer's file, such as tokenizer.json.
    """

    def __init__(self, pte: str, ptd: str | None, tokenizer: str) -> None:
        super().__init__(TextLLMRunner, pte, ptd, tokenizer)

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
        return self._continuation(prompt, tokens, bos, temperature, on_text)
