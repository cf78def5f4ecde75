# SPDX-License-Identifier: Apache-2.0
"""The wheel's `TextLLMRunner`, for `language_model_test`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

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

    def generate(self, prompt: str, tokens: int, bos: int) -> str:
        """Returns the greedy continuation of what it was given so far, and a prompt."""
        config = GenerationConfig(echo=False, max_new_tokens=tokens, temperature=0.0, num_bos=bos)
        pieces: list[str] = []
        with _quiet():
            self._runner.generate(prompt, config, pieces.append)
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
