# SPDX-License-Identifier: Apache-2.0
"""JSON documents that one verb writes and another reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from delegatec.cli.errors import CommandLineError
from delegatec.files import HEAD_BYTES, kind_of_file

_Document = TypeVar("_Document")


def shown(path: str) -> str:
    """Returns the path of an input for a message: relative to the working directory if it is below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def text_of(path: str) -> str:
    """Returns the text of a file; raises ValueError, with what the file is, if it is none."""
    content = Path(path).read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(kind_of_file(content[:HEAD_BYTES])) from error


def read_document(path: str, parse: Callable[[str], _Document]) -> _Document:
    """Reads a document of `delegatec lower`.

    Args:
        path: the file.
        parse: parses its text; raises ValueError if it has another form.

    Raises:
        CommandLineError: another file.
    """
    try:
        return parse(text_of(path))
    except (ValueError, RecursionError) as error:
        message = f"{shown(path)} was not written by this version of `delegatec lower`: {error}"
        raise CommandLineError(message) from error
