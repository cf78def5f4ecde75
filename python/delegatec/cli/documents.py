# SPDX-License-Identifier: Apache-2.0
"""JSON documents that one verb writes and another reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from delegatec.cli.errors import CommandLineError

_Document = TypeVar("_Document")


def read_document(path: str, parse: Callable[[str], _Document]) -> _Document:
    """Reads a document of `delegatec lower`.

    Args:
        path: the file.
        parse: parses its text; raises one of the exceptions of a wrong form.

    Raises:
        CommandLineError: another file.
    """
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (ValueError, TypeError, KeyError, AttributeError, AssertionError) as error:
        raise CommandLineError(f"{path} was not written by this version of `delegatec lower`") from error
