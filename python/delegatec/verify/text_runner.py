# SPDX-License-Identifier: Apache-2.0
"""A runtime's runner of language models, whose failures are diagnostics."""

from __future__ import annotations

from pathlib import Path

from delegatec.verify.executors import runtime_failure
from delegatec.verify.runtime import Runtime, TextRuntime


class RuntimeTextRunner:
    """A language model in a runtime's runner.

    Args:
        runtime: the runtime.
        pte: the program's file.
        ptd: its external weights, if it has any.
        tokenizer: the file of its tokenizer.

    Raises:
        DelegatecError: DC501, the runner rejects one of them.
    """

    def __init__(
        self, runtime: TextRuntime, pte: Path | str, ptd: Path | str | None, tokenizer: Path | str
    ) -> None:
        self._name = runtime.name
        try:
            self._runner = runtime.load_text_runner(
                str(pte), None if ptd is None else str(ptd), str(tokenizer)
            )
        except Exception as error:  # the runtime's, of any type
            what = f"the runner of {self._name} cannot load the program"
            raise runtime_failure("DC501", what, error) from error

    def generate(self, prompt: str, tokens: int, bos: int) -> str:
        """See `TextRunner.generate`.

        Raises:
            DelegatecError: DC505, the runner fails.
        """
        try:
            return self._runner.generate(prompt, tokens, bos)
        except Exception as error:
            raise runtime_failure("DC505", f"the runner of {self._name} fails", error) from error

    def reset(self) -> None:
        """See `TextRunner.reset`."""
        self._runner.reset()


def text_runner_of(
    runtime: Runtime, pte: Path | str, ptd: Path | str | None, tokenizer: Path | str
) -> RuntimeTextRunner | None:
    """Returns a language model in the runner of a runtime; None if it has no runner.

    Args:
        runtime: the runtime.
        pte: as in `RuntimeTextRunner`.
        ptd: as there.
        tokenizer: as there.

    Raises:
        DelegatecError: as `RuntimeTextRunner`.
    """
    return RuntimeTextRunner(runtime, pte, ptd, tokenizer) if isinstance(runtime, TextRuntime) else None
