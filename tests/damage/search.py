# SPDX-License-Identifier: Apache-2.0
"""Reads damaged files, guided by coverage: copies that reach new lines of readers are damaged further."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import traceback
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final

import delegatec
from delegatec.cli.command import parse
from delegatec.cli.errors import CommandLineError
from delegatec.diagnostics import DelegatecError
from tests.damage.kinds import FILE, Kind, Reader
from tests.damage.mutations import edits

# A reader that takes more CPU time hangs.
SECONDS: Final = 20
# Codes of faults of plug-ins: built-in backends have none.
_FAULTS: Final = frozenset({"DC410", "DC411"})
_PACKAGE: Final = os.path.dirname(delegatec.__file__) + os.sep
# Every n-th copy is traced, which takes several times as long.
_TRACED: Final = 3
_LONGEST: Final = 2000


@dataclass(frozen=True)
class Failure:
    """A damaged file that a command does not read as it should.

    Attributes:
        kind: its kind.
        reader: index of the reader.
        edits: seeds of the edits of the good file, in order.
        what: the exception and its location.
        trace: the traceback.
    """

    kind: Kind
    reader: int
    edits: tuple[int, ...]
    what: str
    trace: str = field(compare=False)


class _HangError(BaseException):
    """A reader takes too long."""


class Search:
    """The search of one kind of files.

    Args:
        kind: the kind.
        seed: determines all copies.

    Attributes:
        counts: outcome -> number of copies.
        failures: exception and location -> the first failure, minimized.
        failed: exception and location -> number of copies.
    """

    def __init__(self, kind: Kind, seed: str) -> None:
        self.kind = kind
        self.counts = {"read": 0, "refused": 0}
        self.failures: dict[str, Failure] = {}
        self.failed: dict[str, int] = {}
        with open(kind.file, "rb") as file:
            self._good = file.read()
        self._seed = seed
        self._corpus: list[tuple[int, ...]] = [()]
        self._lines: set[tuple[CodeType, int]] = set()
        self._path = f"damaged{os.path.splitext(kind.file)[1]}"

    def run(self, copies: range, skipped: Container[int] = ()) -> Iterator[int]:
        """Reads copies by number, in order, but for some; yields each number before it is read."""
        for number in copies:
            if number in skipped:
                continue
            yield number
            rng = random.Random(f"{self._seed} {self.kind.name} {number}")
            chosen = (*rng.choice(self._corpus[-200:] if rng.random() < 0.5 else [()]), *edits(rng))
            reader = rng.randrange(len(self.kind.readers))
            traced = number % _TRACED == 0
            before = len(self._lines)
            failure = self._read(chosen, reader, traced)
            if failure is not None:
                self.failed[failure.what] = self.failed.get(failure.what, 0) + 1
                if failure.what not in self.failures:
                    self.failures[failure.what] = self._minimized(failure)
            elif traced and len(self._lines) > before and len(chosen) < 12:
                self._corpus.append(chosen)

    def damaged(self, chosen: tuple[int, ...]) -> bytes:
        """Returns a copy of the good file with some edits."""
        data = self._good
        for seed in chosen:
            data = self.kind.mutation(data, random.Random(seed))
        return data

    def _read(self, chosen: tuple[int, ...], reader: int, traced: bool = False) -> Failure | None:
        with open(self._path, "wb") as file:
            file.write(self.damaged(chosen))
        outcome, what, trace = outcome_of(
            self.kind.readers[reader], self._path, self._trace if traced else None
        )
        if outcome != "failed":
            self.counts[outcome] += 1
            return None
        return Failure(self.kind, reader, chosen, what, trace)

    def _minimized(self, failure: Failure) -> Failure:
        """Removes edits while the failure stays the same."""
        smallest = failure
        for index in reversed(range(len(failure.edits))):
            fewer = (*smallest.edits[:index], *smallest.edits[index + 1 :])
            found = self._read(fewer, failure.reader)
            if found is not None and found.what == failure.what:
                smallest = found
        return smallest

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._trace_lines if frame.f_code.co_filename.startswith(_PACKAGE) else None

    def _trace_lines(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._lines.add((frame.f_code, frame.f_lineno))
        return self._trace_lines


def outcome_of(reader: str | Reader, path: str, trace: Any = None) -> tuple[str, str, str]:
    """Reads a file.

    Returns:
        "read", "refused" or "failed"; for a failure, the exception and its location, and the traceback.
    """
    signal.signal(signal.SIGPROF, _hang)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    sys.settrace(trace)
    try:
        with (
            contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            _call(reader, path)
        return "read", "", ""
    except DelegatecError as error:
        faults = [each for each in error.diagnostics if each.code in _FAULTS]
        long = [each for each in error.diagnostics if len(each.message) > _LONGEST]
        if not faults and not long:
            return "refused", "", ""
        return _failed(error, (faults or long)[0].message[:120])
    except (CommandLineError, FileNotFoundError):
        return "refused", "", ""
    except (Exception, _HangError) as error:  # noqa: BLE001 - any exception is a finding
        return _failed(error, type(error).__name__)
    finally:
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0)


def _call(reader: str | Reader, path: str) -> None:
    if not isinstance(reader, str):
        reader(path)
        return
    command = parse([part.replace(FILE, path) for part in reader.split()])
    assert command is not None
    command.run()


def _failed(error: BaseException, text: str) -> tuple[str, str, str]:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_PACKAGE)]
    cause = error.__cause__
    if cause is not None and isinstance(error, DelegatecError):
        ours += [f for f in traceback.extract_tb(cause.__traceback__) if f.filename.startswith(_PACKAGE)]
    where = (
        f"{ours[-1].filename.removeprefix(_PACKAGE)}:{ours[-1].lineno}" if ours else "outside of the compiler"
    )
    return "failed", f"{text} at {where}", "".join(traceback.format_exception(error))


def _hang(number: int, frame: FrameType | None) -> None:
    raise _HangError
