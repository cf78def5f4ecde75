# SPDX-License-Identifier: Apache-2.0
"""A runtime's runners of language models, whose failures are diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from delegatec.verify.executors import runtime_failure
from delegatec.verify.runtime import MultimodalRuntime, Runtime, TextRuntime


class RuntimeTextRunner:
    """A language model in a runtime's runner.

    Args:
        name: name of the runtime.
        load: loads the program and the file of its tokenizer; its result is the runtime's runner.
        prompt: turns a prompt into what the runner takes.

    Raises:
        DelegatecError: DC501, the runner rejects one of them.
    """

    def __init__(self, name: str, load: Callable[[], Any], prompt: Callable[[str], Any] = str) -> None:
        self._name, self._prompt = name, prompt
        try:
            self._runner = load()
        except Exception as error:  # the runtime's, of any type
            raise runtime_failure("DC501", f"the runner of {name} cannot load the program", error) from error

    def generate(self, prompt: str, tokens: int, bos: int) -> str:
        """See `TextRunner.generate`.

        Raises:
            DelegatecError: DC505, the runner fails.
        """
        given = self._prompt(prompt)
        try:
            result: str = self._runner.generate(given, tokens, bos)
        except Exception as error:
            raise runtime_failure("DC505", f"the runner of {self._name} fails", error) from error
        return result

    def reset(self) -> None:
        """See `TextRunner.reset`."""
        self._runner.reset()


def text_runner_of(
    runtime: Runtime, pte: Path | str, ptd: Path | str | None, tokenizer: Path | str
) -> RuntimeTextRunner | None:
    """Returns a language model in the runner of a runtime; None if it has no runner.

    Args:
        runtime: the runtime.
        pte: the program's file.
        ptd: its external weights, if it has any.
        tokenizer: the file of its tokenizer.

    Raises:
        DelegatecError: as `RuntimeTextRunner`.
    """
    if not isinstance(runtime, TextRuntime):
        return None
    files = _files(pte, ptd, tokenizer)
    return RuntimeTextRunner(runtime.name, lambda: runtime.load_text_runner(*files))


def multimodal_runner_of(
    runtime: Runtime,
    pte: Path | str,
    ptd: Path | str | None,
    tokenizer: Path | str,
    parts: Callable[[str], Sequence[str | torch.Tensor]],
) -> RuntimeTextRunner | None:
    """Returns a language model of images and text in the runner of a runtime; None if it has no runner.

    Args:
        runtime: the runtime.
        pte: as in `text_runner_of`.
        ptd: as there.
        tokenizer: as there.
        parts: returns the texts and the images of a prompt.

    Raises:
        DelegatecError: as `RuntimeTextRunner`.
    """
    if not isinstance(runtime, MultimodalRuntime):
        return None
    files = _files(pte, ptd, tokenizer)
    return RuntimeTextRunner(runtime.name, lambda: runtime.load_multimodal_runner(*files), parts)


def _files(pte: Path | str, ptd: Path | str | None, tokenizer: Path | str) -> tuple[str, str | None, str]:
    return str(pte), None if ptd is None else str(ptd), str(tokenizer)
