# SPDX-License-Identifier: Apache-2.0
"""Reports of failed commands: the message on stderr, and the exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final

from delegatec.cli.errors import CommandLineError
from delegatec.cli.supervisor import ChildKilledError
from delegatec.diagnostics import DelegatecError, Diagnostic, render

EXIT_USER_ERROR: Final = 1
EXIT_COMMAND_LINE: Final = 2
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130

_LIBRARIES: Final = frozenset({"delegatec_schemas", "flatbuffers", "numpy", "safetensors", "sympy", "torch"})
# Errors of writing to an open file: Python does not know its name.
_WRITE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EIO})


def report_failure(error: BaseException, label: str, given: Callable[[object], str]) -> int:
    """Prints why a command failed, and returns its exit code.

    Args:
        error: the exception that ended the command.
        label: name of the target; may be empty.
        given: returns a path as the user wrote it.
    """
    text, code = _text(error, label, given)
    with contextlib.suppress(OSError, ValueError):  # nobody reads stderr, or it is full
        print(text, file=sys.stderr, flush=True)
    return code


def _text(error: BaseException, label: str, given: Callable[[object], str]) -> tuple[str, int]:
    if isinstance(error, CommandLineError):
        text = f"delegatec: error DC001: {error}\n  help: run python -m delegatec --help"
        return text, EXIT_COMMAND_LINE
    if isinstance(error, KeyboardInterrupt):
        return "delegatec: interrupted", EXIT_INTERRUPTED
    if isinstance(error, DelegatecError):
        return render(error.diagnostics, label), EXIT_USER_ERROR
    if isinstance(error, OSError) and (problem := _file_problem(error, given)):
        return render([problem], label), EXIT_USER_ERROR
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _LIBRARIES:
        return render([_no_library(error.name or "")], label), EXIT_USER_ERROR
    if isinstance(error, SystemExit):
        return render([_exit_called(error)], label), EXIT_USER_ERROR
    prefix = f"{label}: " if label else ""
    if isinstance(error, ChildKilledError):
        hint = " (out of memory?)" if error.signal is signal.SIGKILL else ""
        return f"{prefix}the compiler's process was killed by {error.signal.name}{hint}", EXIT_BUG
    trace = "".join(traceback.format_exception(error))
    return f"{trace}{prefix}this is a bug in delegatec, not in the model: please report it", EXIT_BUG


def _file_problem(error: OSError, given: Callable[[object], str]) -> Diagnostic | None:
    reason = error.strerror or os.strerror(error.errno or errno.EIO)
    if error.filename is not None:
        return Diagnostic("DC002", f"{given(error.filename)}: {reason}", help="check the path")
    if error.errno in _WRITE_ERRORS:
        return Diagnostic("DC002", f"cannot write the outputs: {reason}", help="make room for them")
    if error.errno == errno.EPIPE:
        return Diagnostic("DC002", "the reader of the output has closed it", help="read all of the output")
    return None


def _no_library(name: str) -> Diagnostic:
    return Diagnostic(
        "DC006",
        f"no module named {name!r}, which the compiler needs",
        expected="the compiler's locked wheels, and the modules generated from its schemas",
        help="run the compiler with Bazel, or add their directories to PYTHONPATH",
    )


def _exit_called(error: SystemExit) -> Diagnostic:
    return Diagnostic(
        "DC005",
        f"the model or a plug-in called sys.exit({error.code!r})",
        expected="code that returns or raises an exception",
        help="raise an exception that says what is wrong",
    )
