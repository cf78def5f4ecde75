# SPDX-License-Identifier: Apache-2.0
"""The wheel's `TextLLMRunner`, for `language_model_test`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch  # noqa: F401 - loads libraries that the bindings need
from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner  # type: ignore[import-untyped]


class ExecutorchTextRunner:
    """A `delegatec.verify.runtime.TextRunner`.

    Args:
        pte: path of the program.
        ptd: path of its external weights, if there are any.
        tokenizer: path of the tokenizer's file, such as tokenizer.json.
    """

    def __init__(self, pte: str, ptd: str | None, tokenizer: str) -> None:
        with _quiet():
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

        with _quiet():
            self._runner.generate(prompt, config, take)
        return "".join(pieces)

    def reset(self) -> None:
        """Forgets what it was given."""
        self._runner.reset()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what native code prints, text and logs, and prints it if it fails."""
    streams = (1, 2)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {stream: os.dup(stream) for stream in streams}
    with tempfile.TemporaryFile() as log:
        for stream in streams:
            os.dup2(log.fileno(), stream)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(kept[2], log.read())
            raise
        finally:
            for stream, copy in kept.items():
                os.dup2(copy, stream)
                os.close(copy)
