# SPDX-License-Identifier: Apache-2.0
"""JSON documents that one verb writes and another reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from delegatec.cli.errors import CommandLineError
from delegatec.files import HEAD_BYTES, kind_of_file

if TYPE_CHECKING:
    from delegatec.program.reader.model import Program

_Document = TypeVar("_Document")


def shown(path: str) -> str:
    """Returns the path of an input for a message: relative to the working directory if it is below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def from_where_the_user_is(path: str) -> str:
    """Returns a path that `bazel run` was given, relative to the user's directory; "" for ""."""
    return os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path) if path else ""


def text_of(path: str) -> str:
    """Returns the text of a file; raises ValueError, with the kind of the file, if it is not text."""
    content = Path(path).read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(kind_of_file(content[:HEAD_BYTES])) from error


def read_document(
    path: str, parse: Callable[[str], _Document], writer: str = "this version of `delegatec lower`"
) -> _Document:
    """Reads a document of `delegatec lower`, or of another program.

    Args:
        path: the file.
        parse: parses its text; raises ValueError if it has another form.
        writer: what should have written it.

    Raises:
        CommandLineError: another file.
    """
    try:
        return parse(text_of(path))
    except (ValueError, RecursionError) as error:
        message = f"{shown(path)} was not written by {writer}: {error}"
        raise CommandLineError(message) from error


def read_debug_map(path: str, program: Program, flag: str) -> dict[str, Any]:
    """Reads the debug map of a program.

    Args:
        path: the file.
        program: the program.
        flag: the flag that the file was passed with.

    Raises:
        CommandLineError: another file, or the debug map of another program.
    """
    from delegatec.report.debug_map import parse_debug_map
    from delegatec.report.debug_match import debug_map_mismatch

    document = read_document(path, parse_debug_map)
    if problem := debug_map_mismatch(document, program):
        raise CommandLineError(f"{flag} is of another program: {problem}")
    return document
