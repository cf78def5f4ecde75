# SPDX-License-Identifier: Apache-2.0
"""The program of a language model in an executor: chunks of a prompt, then a token at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from delegatec.verify.executors import Executor

METADATA: Final = ("get_max_seq_len", "get_max_context_len")
"""Methods that the stock runner calls before the first token."""


class RunningModel:
    """A loaded language model.

    Args:
        executor: the program; its state persists between calls.

    Attributes:
        prefill: the most tokens of one call.
        context: tokens that the cache holds.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.prefill, self.context = (int(executor.run(name, [])[0]) for name in METADATA)

    def after(self, tokens: Sequence[int], start: int) -> Tensor:
        """Returns the logits after tokens, float32 [vocabulary], as the stock runner computes them.

        Args:
            tokens: at least one, of any number.
            start: the number of tokens before them.
        """
        return self.rows_after(tokens, start)[-1]

    def rows_after(self, tokens: Sequence[int], start: int) -> Tensor:
        """Returns the logits that the last call for tokens returns, float32 [rows, vocabulary].

        Args:
            tokens: at least one, of any number.
            start: the number of tokens before them.
        """
        offset = 0
        for part in self._parts(tokens):
            for begin in range(0, len(part), self.prefill):
                chunk = part[begin : begin + self.prefill]
                outputs = self._call(chunk, torch.tensor([start + offset]))
                offset += len(chunk)
        logits: Tensor = outputs[0].reshape(-1, outputs[0].shape[-1]).float()
        return logits

    def _parts(self, tokens: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yields tokens that are passed apart from others."""
        yield tokens

    def _call(self, tokens: Sequence[int], start_pos: Tensor) -> list[Any]:
        """Passes a chunk to the program; its output is logits."""
        return self._executor.run("forward", [torch.tensor([list(tokens)]), start_pos])

    def continuation(self, tokens: Sequence[int], count: int, eos_ids: Collection[int]) -> list[int]:
        """Returns the greedy continuation of a text, up to the first token that ends it."""
        found = [int(self.after(tokens, 0).argmax())]
        while len(found) < count and found[-1] not in eos_ids:
            found.append(int(self.after(found[-1:], len(tokens) + len(found) - 1).argmax()))
        return found

    def logits(self, tokens: Sequence[int], first: int) -> Tensor:
        """Returns the logits after the first tokens, and after each one that follows, in steps.

        Args:
            tokens: the text.
            first: number of tokens that are passed at first, in chunks.

        Returns:
            float32 [tokens - first + 1, vocabulary].
        """
        rows = [self.after(tokens[:first], 0)]
        rows += [self.after(tokens[index : index + 1], index) for index in range(first, len(tokens))]
        return torch.stack(rows)
