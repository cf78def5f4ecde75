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
from delegatec.diagnostics.exceptions import exception_text, is_out_of_memory, printable

EXIT_USER_ERROR: Final = 1
EXIT_COMMAND_LINE: Final = 2
EXIT_BUG: Final = 70
# As of a shell: 128 and the number of the signal.
EXIT_SIGNAL: Final = 128

_LIBRARIES: Final = frozenset({"delegatec_schemas", "flatbuffers", "numpy", "safetensors", "sympy", "torch"})
_ENDING: Final = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal was closed",
}
# Errors that do not depend on the file.
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# Error of the system -> what failed, if no file is known, and what to do.
_SYSTEM: Final = {
    errno.EACCES: ("", "change the permissions of the file, or of its directory"),
    errno.EAGAIN: ("cannot start a process", "raise the limit on processes (ulimit -u)"),
    errno.EBADF: ("cannot write the output", "open standard output"),
    errno.EDQUOT: ("cannot write the output", "free some of your quota of the disk"),
    errno.EFBIG: ("cannot write the output", "raise the limit on the size of files (ulimit -f)"),
    errno.EIO: ("cannot read or write a file", "check the disk"),
    errno.EISDIR: ("", "name a file"),
    errno.EMFILE: ("cannot open a file", "raise the limit on open files (ulimit -n)"),
    errno.ENAMETOOLONG: ("", "shorten the path"),
    errno.ENFILE: ("cannot open a file", "close some files on this machine"),
    errno.ENOENT: ("the working directory has been deleted", "change to another directory"),
    errno.ENOMEM: ("out of memory", "run on a machine with more memory"),
    errno.ENOSPC: ("cannot write the output", "free some space on the disk"),
    errno.EPIPE: ("the reader of the output has closed it", "read all of the output"),
    errno.EROFS: ("cannot write the output", "write to a file system that is not read-only"),
}


def report_failure(error: BaseException, label: str, given: Callable[[object], str]) -> int:
    """Prints why a command failed, and returns its exit code.

    Args:
        error: the exception that ended the command.
        label: name of the target; may be empty.
        given: returns a path as the user wrote it.
    """
    text, code = _text(error, printable(label), given)
    text = text.encode(errors="backslashreplace").decode()
    with contextlib.suppress(Exception):  # nobody reads stderr, or it is full, or user code replaced it
        print(text, file=sys.stderr or sys.__stderr__, flush=True)
    return code


def _text(error: BaseException, label: str, given: Callable[[object], str]) -> tuple[str, int]:
    prefix = f"{label}: " if label else ""
    if isinstance(error, CommandLineError):
        verb = f"{error.verb} " if error.verb else ""
        text = f"{prefix or 'delegatec: '}error DC001: {printable(str(error))}"
        return f"{text}\n  help: run python -m delegatec {verb}--help", EXIT_COMMAND_LINE
    signum = error.signal if isinstance(error, ChildKilledError) else signal.SIGINT
    if isinstance(error, (KeyboardInterrupt, ChildKilledError)) and signum in _ENDING:
        return f"delegatec: {_ENDING[signum]}", EXIT_SIGNAL + signum
    if isinstance(error, DelegatecError):
        return render(error.diagnostics, label), EXIT_USER_ERROR
    if isinstance(error, OSError) and (problem := _file_problem(error, given)):
        return render([problem], label), EXIT_USER_ERROR
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _LIBRARIES:
        return render([_no_library(error.name or "")], label), EXIT_USER_ERROR
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        return render([_broken_library(error)], label), EXIT_USER_ERROR
    if isinstance(error, SystemExit):
        return render([_exit_called(error)], label), EXIT_USER_ERROR
    if is_out_of_memory(error):
        return render([_no_memory(error)], label), EXIT_USER_ERROR
    if isinstance(error, ChildKilledError):
        return render([_killed(error.signal)], label), EXIT_BUG
    trace = "".join(traceback.format_exception(error))
    return f"{trace}{prefix}this is a bug in delegatec, not in the model: please report it", EXIT_BUG


def _file_problem(error: OSError, given: Callable[[object], str]) -> Diagnostic | None:
    reason = error.strerror or os.strerror(error.errno or errno.EIO)
    what, help = _SYSTEM.get(error.errno or 0, ("", ""))
    if error.filename is not None and error.errno not in _EXHAUSTED:
        path = printable(given(error.filename)) or '""'
        help = "check the path" if error.errno == errno.ENOENT else help or "check the path"
        return Diagnostic("DC002", f"{path}: {reason}", help=help)
    return Diagnostic("DC002", f"{what}: {reason}", help=help) if what else None


def _no_library(name: str) -> Diagnostic:
    return Diagnostic(
        "DC006",
        f"no module named {name!r}, which the compiler needs, in Python {sys.version.split()[0]}",
        expected="the compiler's locked wheels, and the modules generated from its schemas",
        help="run the compiler with Bazel, or add their directories to PYTHONPATH",
    )


def _broken_library(error: ImportError) -> Diagnostic:
    return Diagnostic(
        "DC006",
        f"a library of the compiler cannot be imported: {exception_text(error)}",
        expected="the compiler's locked wheels",
        help="run the compiler with Bazel; a file or wheel of another version may hide the library",
    )


def _no_memory(error: BaseException) -> Diagnostic:
    return Diagnostic(
        "DC007", exception_text(error), help="compile a smaller model, or run on a machine with more memory"
    )


def _killed(signum: signal.Signals) -> Diagnostic:
    if signum in (signal.SIGKILL, signal.SIGXCPU):
        what = "memory" if signum is signal.SIGKILL else "CPU time (ulimit -t)"
        help = f"raise the limit on {what}, if it was exceeded, or compile a smaller model"
        return Diagnostic("DC007", f"the compiler's process was killed by {signum.name}", help=help)
    return Diagnostic(
        "DC008",
        f"the compiler's process was killed by {signum.name}",
        expected="native code that does not crash",
        help="check native code of the model and of plug-ins; python -X faulthandler prints where it crashed",
    )


def _exit_called(error: SystemExit) -> Diagnostic:
    return Diagnostic(
        "DC005",
        f"the model or a plug-in called sys.exit({error.code!r})",
        expected="code that returns or raises an exception",
        help="raise an exception that says what is wrong",
    )
