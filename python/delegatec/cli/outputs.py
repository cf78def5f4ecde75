# SPDX-License-Identifier: Apache-2.0
"""The output files of a command."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from types import TracebackType

from delegatec.cli.command import Command
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import printable
from delegatec.files import replaceable, temporary_beside


class Outputs:
    """Output files, written to temporary files and moved to their paths together when all are complete.

    In the command's arguments, replaces paths of outputs with those of temporary files, and the path of a
    single input with an absolute one: user code may change the working directory. The end of its context
    deletes the temporary files that are left.

    Raises:
        DelegatecError: DC004, all outputs that cannot be written, or would replace an input or another one.
    """

    def __init__(self, command: Command) -> None:
        self._given: dict[str, str] = {}
        self._targets: dict[str, str] = {}
        arguments = vars(command.arguments)
        inputs = dict(_paths(command, "INPUTS"))
        os.getcwd()  # Raises OSError if it has been deleted.
        problems = []
        # Real path -> the flag of the argument that has it.
        taken = {os.path.realpath(path): flag for path, flag in inputs.items()}
        for path, flag in _paths(command, "OUTPUTS"):
            problem = _unwritable(path) or _conflict(path, taken)
            if problem:
                problems.append(
                    Diagnostic("DC004", f"{flag}={printable(path)}: {problem[0]}", help=problem[1])
                )
            taken.setdefault(os.path.realpath(path), flag)
        if problems:
            raise DelegatecError(problems)
        for name in getattr(command.module, "OUTPUTS", ()):
            if path := arguments[name]:
                target = replaceable(path)
                arguments[name] = temporary = temporary_beside(target)
                self._given[temporary], self._targets[temporary] = path, target
        for name in getattr(command.module, "INPUTS", ()):
            if isinstance(path := arguments[name], str) and path:
                arguments[name] = absolute = os.path.abspath(path)
                self._given[absolute] = path

    def given(self, path: object) -> str:
        """Returns a path of the arguments as the user wrote it; other paths unchanged."""
        text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else str(path)
        return self._given.get(text, text)

    def missing(self) -> list[str]:
        """Returns the requested outputs, as the user wrote them, that have not been written."""
        return [self._given[temporary] for temporary in self._targets if not os.path.isfile(temporary)]

    def commit(self) -> None:
        """Moves all outputs to their paths."""
        for temporary, target in self._targets.items():
            os.replace(temporary, target)

    def __enter__(self) -> Outputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for temporary in self._targets:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _paths(command: Command, table: str) -> Iterator[tuple[str, str]]:
    """Yields each path in the arguments that a table of the verb names, and its flag."""
    for name in getattr(command.module, table, ()):
        for path in _listed(getattr(command.arguments, name)):
            yield path, f"--{name.replace('_', '-')}"


def _listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def _unwritable(path: str) -> tuple[str, str] | None:
    try:
        target = replaceable(path)
    except OSError as error:
        long = error.errno == errno.ENAMETOOLONG
        return str(error.strerror), "shorten the name" if long else "write to a regular file"
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        return "its directory does not exist", "create the directory, or correct the path"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "its directory is not writable", "write to another directory"
    return None


def _conflict(path: str, taken: dict[str, str]) -> tuple[str, str] | None:
    for other, flag in taken.items():
        same = os.path.realpath(path) == other
        with contextlib.suppress(OSError):
            same = same or os.path.samefile(path, other)
        if same:
            return f"the same file as {flag}", "write each output to a separate file"
    return None
