# SPDX-License-Identifier: Apache-2.0
"""Differences of two programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_MARKS: Final = {"added": "+", "removed": "-", "changed": "~"}
# Smaller numbers are shown unchanged.
_LEAST_FOR_PERCENT: Final = 100
_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Change:
    """A difference.

    Attributes:
        path: where it is, from the root of the tree of facts.
        before: the former value: an int, a string or a tree; None if it was added.
        after: the new value; None if it was removed.
    """

    path: tuple[str, ...]
    before: Any
    after: Any

    @property
    def kind(self) -> str:
        """Either "added", "removed" or "changed"."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    def is_size(self) -> bool:
        """Whether it is another number of bytes."""
        return isinstance(self.before, int) and isinstance(self.after, int) and "bytes" in self.path[-1]


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[Change]:
    """Yields the differences of two trees of `report.facts`, in their order.

    Args:
        before: one tree.
        after: the other one.
        path: where both are.
    """
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        where = (*path, name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from changes(old, new, where)
        elif old != new and not (old in (None, {}) and new in (None, {})):
            yield Change(where, old, new)


def format_changes(found: Sequence[Change]) -> str:
    """Returns differences as text: a line each, below the names of the trees that they are in."""
    lines: list[str] = []
    shown: tuple[str, ...] = ()
    for change in found:
        parents = change.path[:-1]
        common = next(
            (i for i, (a, b) in enumerate(zip(parents, shown, strict=False)) if a != b),
            min(len(parents), len(shown)),
        )
        lines += ["  " * depth + "  " + parents[depth] for depth in range(common, len(parents))]
        shown = parents
        lines += _lines(change, len(parents))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _lines(change: Change, depth: int) -> list[str]:
    mark, name = _MARKS[change.kind], change.path[-1]
    if change.kind == "changed":
        return [
            _line(mark, depth, name, f"{_text(change.before)} -> {_text(change.after)}{_percent(change)}")
        ]
    return list(_tree(mark, depth, name, change.after if change.before is None else change.before))


def _tree(mark: str, depth: int, name: str, value: Any) -> Iterator[str]:
    """Yields the lines of additions and removals."""
    if not isinstance(value, dict):
        yield _line(mark, depth, name, _text(value))
        return
    yield _line(mark, depth, name, "")
    for key, each in value.items():
        if each != {}:
            yield from _tree(mark, depth + 1, key, each)


def _line(mark: str, depth: int, name: str, text: str) -> str:
    return f"{mark} {'  ' * depth}{_text(name)}" + (f": {text}" if text else "")


def _text(value: Any) -> str:
    text = str(value)
    return text[:16] if _HASH.fullmatch(text) else text


def _percent(change: Change) -> str:
    if not isinstance(change.before, int) or not isinstance(change.after, int):
        return ""
    if min(change.before, change.after) < _LEAST_FOR_PERCENT:
        return ""
    return f" ({100 * (change.after - change.before) / change.before:+.1f}%)"
