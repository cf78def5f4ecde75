# SPDX-License-Identifier: Apache-2.0
"""Diagnostics for exceptions of the user's source file, while it is imported or its entry runs."""

from __future__ import annotations

import os
import re
import subprocess
import traceback
from socket import gaierror
from typing import Final, NoReturn
from urllib.error import URLError

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import did_you_mean, exception_text, first_line, is_out_of_memory
from delegatec.frontend.session import Session
from delegatec.frontend.workspace import preferred

LIBRARIES: Final = frozenset(
    {"delegatec", "delegatec_schemas", "flatbuffers", "numpy", "safetensors", "sympy", "torch"}
)
_NOT_IN_DIRECTORY: Final = re.compile(r"cannot import name '(\w+)' from '([\w.]+)' \(unknown location\)")
_GPU: Final = re.compile(r"\bCUDA\b|\bNVIDIA\b|\bMPS (?:device|backend)\b")
_NO_NETWORK: Final = re.compile(r"no internet connection|couldn't connect to|offline mode", re.IGNORECASE)


def raise_user_error(session: Session, error: BaseException, code: str, what: str) -> NoReturn:
    """Raises the diagnostic for an exception of the user's code.

    Args:
        session: the running export.
        error: the exception; a DelegatecError is raised unchanged.
        code: of the diagnostic if the cause has no code.
        what: precedes the text of the exception, such as "build() raises".

    Raises:
        DelegatecError: DC102, DC103, DC115, `code`, or `error` itself.
    """
    if isinstance(error, DelegatecError):
        raise error
    workspace = session.workspace
    location = preferred(workspace.frames(error.__traceback__))
    if isinstance(error, SyntaxError):
        location = workspace.line(error.filename or session.source, error.lineno or 1)
        _fail(
            "DC102", f"syntax error in {location.file}: {error.msg}", location, help_text="correct this line"
        )
    if missing := missing_module(error, location):
        raise DelegatecError([missing])
    if isinstance(error, FileNotFoundError) and error.filename and not _is_program(error):
        name = os.fspath(error.filename)
        name = name if isinstance(name, str) else os.fsdecode(name)
        _fail(
            "DC115",
            f'no such file: "{workspace.relative(name) if os.path.isabs(name) else name}"',
            location,
            expected="a file declared in `data` and located with delegatec.data_path(name)",
            help_text="add the file to `data` of the target and open delegatec.data_path(name)",
        )
    help_text = "fix this line or its inputs"
    if is_out_of_memory(error):
        help_text = "make the model smaller"
    elif _GPU.search(first_line(error)):
        help_text = (
            "create the model and its inputs on the CPU: backends choose devices when the program runs"
        )
    elif _needs_network(error):
        help_text = "a build has no network: add the file to `data`, and open delegatec.data_path(name)"
    elif _is_program(error):
        help_text = "a build has no such program: run it before, and add what it writes to `data`"
    _fail(code, f"{what}: {exception_text(error)}", location, help_text=help_text)


def _is_program(error: BaseException) -> bool:
    """Whether a program that user code starts does not exist."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        isinstance(error, FileNotFoundError) and bool(frames) and frames[-1].filename == subprocess.__file__
    )


def _needs_network(error: BaseException) -> bool:
    """Whether an exception, or one that it was raised for, is about a connection."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        # torch.hub, transformers and other libraries raise exceptions of any type in the end.
        if isinstance(cause, (ConnectionError, gaierror, URLError)) or _NO_NETWORK.search(first_line(cause)):
            return True
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return False


def missing_module(error: BaseException, location: SourceLocation | None) -> Diagnostic | None:
    """Returns DC103 for an import of a module that does not exist; None for other errors."""
    missing = _missing_module(error)
    if not missing:
        return None
    # So close that "torchvision" is not taken for "torch".
    near = f"{did_you_mean(missing, LIBRARIES, cutoff=0.9)} ".lstrip()
    return Diagnostic(
        code="DC103",
        message=f'no module named "{missing}"',
        location=location,
        expected="a module provided by `deps` of the target",
        help=f'{near}add the py_library that provides "{missing}" to `deps`',
    )


def _missing_module(error: BaseException) -> str:
    """Returns the name of the module that an import lacks; empty for other errors."""
    if isinstance(error, ModuleNotFoundError):
        return error.name or ""
    # From a directory without an __init__.py: any missing attribute would be a module.
    found = _NOT_IN_DIRECTORY.search(str(error)) if isinstance(error, ImportError) else None
    return f"{found[2]}.{found[1]}" if found else ""


def _fail(
    code: str, message: str, location: SourceLocation | None, *, expected: str = "", help_text: str = ""
) -> NoReturn:
    raise DelegatecError(
        [Diagnostic(code=code, message=message, location=location, expected=expected, help=help_text)]
    )
