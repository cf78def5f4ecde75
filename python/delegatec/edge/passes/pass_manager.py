# SPDX-License-Identifier: Apache-2.0
"""Runs passes over an edge program, and calls observers after each: to print programs, or to verify them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from delegatec.edge.program import EdgeProgram
from delegatec.edge.rule_names import CURRENT_PASS
from delegatec.edge.verifier import verify

Pass = Callable[[EdgeProgram], bool]
"""Edits a program in place, and returns whether it changed anything."""

Observer = Callable[[str, EdgeProgram, bool], None]
"""Receives the name of a pass, the program after it, and whether it changed the program."""

# In all suites and architectures, four are enough.
_MAX_ITERATIONS: Final = 32

_OBSERVERS: Final[ContextVar[tuple[Observer, ...]]] = ContextVar("observers_of_passes", default=())


@contextmanager
def observed_passes(observer: Observer) -> Iterator[None]:
    """Calls `observer` after each pass over any program in the scope."""
    token = _OBSERVERS.set((*_OBSERVERS.get(), observer))
    try:
        yield
    finally:
        _OBSERVERS.reset(token)


def run_pass(program: EdgeProgram, each: Callable[[EdgeProgram], bool | None]) -> bool:
    """Runs one pass on a program, without its bodies.

    Args:
        program: edited in place.
        each: the pass; one that returns None counts as having changed the program.

    Returns:
        Whether it changed anything.
    """
    name = pass_name(each)
    token = CURRENT_PASS.set(name)
    try:
        changed = each(program) is not False
    finally:
        CURRENT_PASS.reset(token)
    for observer in _OBSERVERS.get():
        observer(name, program, changed)
    return changed


def end_stage(name: str, program: EdgeProgram) -> None:
    """Verifies a program and its bodies after a stage of lowering, and calls observers as after a pass.

    Raises:
        AssertionError: the program is invalid; it names the stage.
    """
    for part in program.walk():
        verify_after(name, part, True)
        for observer in _OBSERVERS.get():
            observer(name, part, True)


def run_passes(program: EdgeProgram, passes: Sequence[Pass]) -> None:
    """Runs `passes` in order on a program and on its bodies, repeatedly until none changes anything.

    A pass that changed nothing runs again only after another one has changed something.

    Args:
        program: edited in place.
        passes: each must keep the program valid.

    Raises:
        AssertionError: they do not converge; it names the passes that still change the program.
    """
    changes = 0
    steady: dict[tuple[str, int], int] = {}  # part and pass -> the number of changes before its last run
    for _ in range(_MAX_ITERATIONS):
        changing = []
        for part, (index, each) in itertools.product(list(program.walk()), enumerate(passes)):
            if steady.get((part.method, index)) == changes:
                continue
            steady[part.method, index] = changes
            if run_pass(part, each):
                changes += 1
                changing.append(each)
        if not changing:
            return
    names = ", ".join(dict.fromkeys(map(pass_name, changing)))
    raise AssertionError(f"{program.method} still changes after {_MAX_ITERATIONS} iterations, by {names}")


def pass_name(each: Callable[..., Any]) -> str:
    """Returns the name of a pass: that of its function or class."""
    function = each.func if isinstance(each, partial) else each
    return str(getattr(function, "__name__", type(function).__name__))


def verify_after(name: str, program: EdgeProgram, changed: bool) -> None:
    """Verifies each program that a pass has changed; an observer.

    Raises:
        AssertionError: the program is invalid; it names the pass.
    """
    if not changed:
        return
    try:
        verify(program)
    except (AssertionError, RuntimeError) as error:
        raise AssertionError(f"invalid program after {name}: {error}") from error
