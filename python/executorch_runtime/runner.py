# SPDX-License-Identifier: Apache-2.0
"""What the wheel's runners of language models have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch  # noqa: F401 - loads libraries that the bindings need
from executorch.extension.llm.runner import GenerationConfig  # type: ignore[import-untyped]

from executorch_runtime.streams import quiet


class Runner:
    """A loaded program.

    Args:
        kind: the wheel's class.
        pte: path of the program.
        ptd: path of its external weights, if there are any.
        tokenizer: path of the tokenizer's file, such as tokenizer.json.
    """

    def __init__(self, kind: Any, pte: str, ptd: str | None, tokenizer: str) -> None:
        with quiet():
            self._runner = kind(pte, tokenizer, *([ptd] if ptd else []))

    def reset(self) -> None:
        """Forgets what it was given."""
        self._runner.reset()

    def _continuation(
        self, prompt: Any, tokens: int, bos: int, temperature: float, on_text: Callable[[str], None]
    ) -> str:
        """Returns the continuation of a prompt, as the wheel's class takes it; see `generate`."""
        config = GenerationConfig(echo=False, max_new_tokens=tokens, temperature=temperature, num_bos=bos)
        pieces: list[str] = []

        def take(piece: str) -> None:
            pieces.append(piece)
            on_text(piece)

        with quiet():
            self._runner.generate(prompt, config, take)
        return "".join(pieces)
