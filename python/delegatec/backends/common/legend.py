# SPDX-License-Identifier: Apache-2.0
"""The legend of a page of operators: constraints that several rows have, each with a short name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from delegatec.edge.legalize.constraint import Constraint

_FILLERS: Final = re.compile(r"an?|and|are|as|at|be|by|does|each|has|have|in|is|it|of|or|that|the")
_SHORT: Final = {
    r"float8_e4m3fn, float8_e5m2": "f8",
    r"\b(b?f)loat(\d+)": r"\1\2",
    r"\b(u?)int(\d+)": r"\1i\2",
    r"\bui(?=\d)": "u",
    r"i8, i16, i32(?:,| or) i64": "ints",
}
_DTYPE: Final = r"(?:bool|ints|b?f\d+|[iu]\d+)"
_DTYPES: Final = re.compile(rf"{_DTYPE}(?:(?:, | or ){_DTYPE})+")
_WORDS: Final = 4
"""Words of a name; more if other names begin with the same ones."""


class Legend:
    """Names for constraints, such as `dtype:operands-f16/f32`: the rule, then words from its requirement."""

    def __init__(self, constraints: Iterable[Constraint[Any]]) -> None:
        """Names each constraint that occurs more than once.

        Args:
            constraints: those of all rows of a page.
        """
        listed = [*constraints]
        counts = Counter(_statement(each) for each in listed)
        shared = sorted(key for key, count in counts.items() if count > 1)
        self._names = {key: _name(key, shared) for key in shared}
        self._reasons: dict[tuple[str, str], dict[str, None]] = {key: {} for key in shared}
        for each in listed:
            if (key := _statement(each)) in self._names and (reason := _reason(each)):
                self._reasons[key][reason] = None

    def cite(self, constraint: Constraint[Any]) -> str:
        """Returns the name of a constraint that several rows have, or the text of any other."""
        name = self._names.get(_statement(constraint))
        return f"`{name}`" if name else f"`{constraint.rule}`: {constraint.doc}"

    def lines(self) -> Iterator[str]:
        """Yields a line per name: its requirement, and the reason. Rows may have different reasons."""
        for key, name in self._names.items():
            reasons = "; ".join(self._reasons[key])
            yield f"| `{name}` | {key[1]}{f': {reasons}' if reasons else ''}. |"


def _statement(constraint: Constraint[Any]) -> tuple[str, str]:
    """Returns the rule and its requirement."""
    return constraint.rule, constraint.doc.partition(": ")[0].removesuffix(".")


def _reason(constraint: Constraint[Any]) -> str:
    return constraint.doc.partition(": ")[2].removesuffix(".")


def _name(key: tuple[str, str], others: Iterable[tuple[str, str]]) -> str:
    """Returns the rule and the first words of a statement, with which no other one of the rule begins."""
    rule, statement = key
    words = _words(statement, rule)
    taken = [_words(text, rule) for name, text in others if name == rule and text != statement]
    count = _WORDS
    while count < len(words) and any(each[:count] == words[:count] for each in taken):
        count += 1
    return f"{rule}:{'-'.join(words[:count])}"


def _words(statement: str, rule: str) -> list[str]:
    """Returns the words of a statement after its rule. A list of dtypes is one word: `f16/f32`."""
    for pattern, short in _SHORT.items():
        statement = re.sub(pattern, short, statement)
    joined = _DTYPES.sub(lambda match: re.sub(", | or ", "/", match[0]), statement)
    words = [word for word in re.findall(r"[\w/]+", joined.lower()) if not _FILLERS.fullmatch(word)]
    return words[words[0] == rule :]
