# SPDX-License-Identifier: Apache-2.0
"""Detection of edits by plug-ins, which may only read a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from delegatec.edge.program import EdgeProgram

_CHECKED: Final = ContextVar("plug_ins_are_checked_for_edits", default=True)


@contextmanager
def unchecked_edits() -> Iterator[None]:
    """Disables the check that plug-ins do not edit programs, for very large graphs.

    The check compares every node before and after, which takes about as long as grouping.
    """
    token = _CHECKED.set(False)
    try:
        yield
    finally:
        _CHECKED.reset(token)


class Snapshot:
    """All parts of a program that a plug-in could edit, by identity."""

    def __init__(self, program: EdgeProgram) -> None:
        self._program = program
        self._state = _state(program) if _CHECKED.get() else None

    def differs(self) -> bool:
        """Whether the program was edited since; False if checks are disabled."""
        return self._state is not None and not _same(self._state, _state(self._program))


def _state(program: EdgeProgram) -> list[Sequence[Any]]:
    state: list[Sequence[Any]] = []
    for part in program.walk():
        state += [
            (node, node.target, node.args, node.kwargs, node.meta.get("val")) for node in part.graph.nodes
        ]
        state += [tuple(part.input_specs), tuple(part.output_specs), tuple(part.constants.values())]
    return state


def _same(before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]) -> bool:
    return len(before) == len(after) and all(
        len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
        for old, new in zip(before, after, strict=True)
    )
