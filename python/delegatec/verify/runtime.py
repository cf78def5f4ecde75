# SPDX-License-Identifier: Apache-2.0
"""The protocol of runtimes: executors of programs that are not the compiler's own.

The compiler imports no runtime. One is a plug-in, an object with these members, named as "module:attribute".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import torch


class LoadedProgram(Protocol):
    """A program that a runtime has loaded."""

    def run(self, method: str, inputs: Sequence[Any], /) -> Sequence[Any]:
        """Runs a method once.

        State lasts from one call to the next, and is the same for all methods: loading the program has
        initialized it, for each method, in their order in the file.

        Args:
            method: its name.
            inputs: one for each input of the method, in their order in the file: tensors, in the order of
                dimensions that the file declares, and scalars. If the program writes to an input, the runtime
                writes to this tensor.

        Returns:
            One for each output, in their order in the file: tensors, which the next call may overwrite,
            scalars, strings and None.

        Raises:
            Exception: the runtime rejects the inputs, or an instruction fails.
        """
        ...


@runtime_checkable
class Runtime(Protocol):
    """A runtime."""

    @property
    def name(self) -> str:
        """Its name in tables, with its version, such as "executorch 1.4.1"."""
        ...

    @property
    def backends(self) -> Collection[str]:
        """Ids of the delegates that it runs, such as "XnnpackBackend"."""
        ...

    def load(self, pte: str, ptd: str | None, shares_state: bool, /) -> LoadedProgram:
        """Loads a program from files, which it maps as an app does.

        A runtime that reads the bytes of a copy in memory hides that data is used after it was freed.

        Args:
            pte: path of the program.
            ptd: path of its external weights, if there are any.
            shares_state: whether several methods use the same state.

        Raises:
            Exception: the runtime rejects the program, for example because a kernel is missing.
        """
        ...


class TextRunner(Protocol):
    """A runner of language models that has loaded a program and a tokenizer."""

    def generate(self, prompt: str, tokens: int, bos: int, /) -> str:
        """Returns the greedy continuation of what it was given so far, and a prompt.

        Args:
            prompt: the text.
            tokens: the most tokens to generate.
            bos: number of tokens that begin the text.
        """
        ...

    def reset(self) -> None:
        """Forgets what it was given."""
        ...


@runtime_checkable
class TextRuntime(Runtime, Protocol):
    """A runtime with a runner of language models, which `language_model_test` compares as well."""

    def load_text_runner(self, pte: str, ptd: str | None, tokenizer: str, /) -> TextRunner:
        """Loads a program and the file of its tokenizer.

        Raises:
            Exception: the runner rejects one of them.
        """
        ...


class MultimodalRunner(Protocol):
    """A runner of language models of images and text that has loaded a program and a tokenizer."""

    def generate(self, parts: Sequence[str | torch.Tensor], tokens: int, bos: int, /) -> str:
        """Returns the greedy continuation of what it was given so far, and of texts and images.

        Args:
            parts: texts, and images, uint8 [3, height, width], in their order.
            tokens: the most tokens to generate.
            bos: number of tokens that begin the text.
        """
        ...

    def reset(self) -> None:
        """Forgets what it was given."""
        ...


@runtime_checkable
class MultimodalRuntime(Runtime, Protocol):
    """A runtime with a runner of images and text, which `language_model_test` compares as well."""

    def load_multimodal_runner(self, pte: str, ptd: str | None, tokenizer: str, /) -> MultimodalRunner:
        """Loads a program and the file of its tokenizer.

        Raises:
            Exception: the runner rejects one of them.
        """
        ...
