# SPDX-License-Identifier: Apache-2.0
"""Attributes errors to plug-ins, and reports them with the plug-in's line."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Iterator, Mapping, ValuesView
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import exception_text

_OURS: Final = "delegatec"


@contextmanager
def attribute_errors(plugin: Any, action: str) -> Iterator[None]:
    """Turns an exception from a plug-in into DC410.

    An exception from a built-in backend is a bug in the compiler, and is not caught.

    Args:
        plugin: the object whose code runs: a backend or a partitioner.
        action: such as "backend npu: partitioner()".
    """
    home = type(plugin).__module__.partition(".")[0]
    try:
        yield
    except DelegatecError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if home == _OURS:
            raise
        raise DelegatecError(
            [
                Diagnostic(
                    "DC410",
                    f"{action} raises {exception_text(error)}",
                    location=raised_at(error, home),
                    expected="a result, or a DelegatecError with the problems of the model",
                    help="this is a bug in the backend: correct it, or report it to its authors",
                )
            ]
        ) from error


def wrong_result(what: str, found: str, expected: str) -> DelegatecError:
    """Returns the DC411 for a result that does not follow the protocol."""
    return DelegatecError(
        [Diagnostic("DC411", f"{what} returned {found}", expected=expected, help="correct the backend")]
    )


def kind_of(value: object) -> str:
    """Returns the type of a value, such as "a list of str"."""
    if value is None or isinstance(value, bytes):
        return "None" if value is None else "bytes"
    items = value.values() if isinstance(value, Mapping) else value
    several = (list, tuple, set, frozenset, ValuesView)
    kinds = sorted({type(item).__name__ for item in items}) if isinstance(items, several) else []
    return f"a {type(value).__name__}" + (f" of {', '.join(kinds)}" if kinds else "")


def raised_at(error: BaseException, home: str = "") -> SourceLocation | None:
    """Returns the line of an exception, relative to the current directory; None if it is outside of it.

    Args:
        error: the exception.
        home: top-level package in which to find the innermost line; by default, any file below the current
            directory that is not the compiler's.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return _location(error.filename, error.lineno or 1, "", error.text or "")
    frames = list(traceback.walk_tb(error.__traceback__))
    is_own = partial(_is_of, home) if home else _is_below
    own = [(frame, line) for frame, line in frames if is_own(frame)]
    frame, lineno = (own or frames)[-1]
    code = frame.f_code
    text = linecache.getline(code.co_filename, lineno, frame.f_globals)
    return _location(code.co_filename, lineno, code.co_name, text)


def _is_of(package: str, frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == package


def _is_below(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return not (_is_of(_OURS, frame) or _is_generated(path) or os.path.relpath(path).startswith(os.pardir))


def _is_generated(path: str) -> bool:
    """Whether a path is that of a module without a file, such as "<frozen os>"."""
    return path.startswith("<")


def _location(path: str, line: int, function: str, text: str) -> SourceLocation | None:
    if _is_generated(path):
        return None
    path = os.path.relpath(path)
    return None if path.startswith(os.pardir) else SourceLocation(path, line, function, text.strip())
