# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding: a small model drafts tokens, of which a call of the program checks several."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from delegatec.language.running import RunningModel


@dataclass
class Speculation:
    """A continuation with drafts.

    Attributes:
        tokens: the continuation.
        limit: the most drafted tokens that a call of the program checks.
        calls: calls of the program after the one for the text.
        drafted: tokens of the draft model.
        accepted: those of them that are the program's.
    """

    tokens: list[int]
    limit: int
    calls: int = 0
    drafted: int = 0
    accepted: int = 0


class Drafts:
    """A draft model whose cache follows a text.

    Args:
        model: its program.
        vocabulary: tokens of the program that checks; the draft model may have more, without use.
    """

    def __init__(self, model: RunningModel, vocabulary: int) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._cached = 0

    def after(self, text: Sequence[int], count: int) -> list[int]:
        """Returns the greedy continuation of a text; none beyond the model's context.

        Args:
            text: that of the last call, continued, or with other tokens at its end.
            count: number of tokens.
        """
        result: list[int] = []
        start = self._cached
        for position in range(len(text), min(len(text) + count, self._model.context)):
            tokens = [*text, *result][start:]
            result.append(int(self._model.after(tokens, start)[: self._vocabulary].argmax()))
            start = position
        return result

    def keep(self, count: int) -> None:
        """Forgets all but the first tokens of a text: its next rows of the cache are written again."""
        self._cached = count


def speculate(
    model: RunningModel, draft: RunningModel, tokens: Sequence[int], count: int, eos_ids: Collection[int]
) -> Speculation:
    """Returns the greedy continuation of a text by a program, up to the first token that ends it.

    Args:
        model: the program, which returns logits of several tokens.
        draft: the draft model, which returns those of one or several.
        tokens: the text.
        count: the most tokens to return.
        eos_ids: ids of tokens that end a text.
    """
    logits = model.rows_after(tokens, 0)
    drafts = Drafts(draft, logits.shape[1])
    result = Speculation([int(logits[-1].argmax())], len(logits) - 1)
    while len(result.tokens) < count and result.tokens[-1] not in eos_ids:
        text = [*tokens, *result.tokens]
        room = min(count - len(result.tokens), model.context - len(text) + 1)
        drafted = drafts.after(text, min(result.limit, room - 1))
        checked = [text[-1], *drafted]
        found = model.rows_after(checked, len(text) - 1)[-len(checked) :].argmax(-1).tolist()
        accepted = next((i for i, each in enumerate(drafted) if each != found[i]), len(drafted))
        new = found[: accepted + 1]
        end = next((i for i, each in enumerate(new) if each in eos_ids), len(new) - 1)
        result.tokens += new[: end + 1]
        result.calls += 1
        result.drafted += len(drafted)
        result.accepted += min(accepted, end + 1)
        if drafted:
            # the last one was not passed to the draft model
            drafts.keep(len(text) + min(accepted, len(drafted) - 1))
    return result
