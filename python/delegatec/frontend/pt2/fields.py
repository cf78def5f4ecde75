# SPDX-License-Identifier: Apache-2.0
"""Typed access to the JSON of an untrusted archive."""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable
from typing import Any, Final, NoReturn

_LEAST: Final = -(2**63)
_GREATEST: Final = 2**63 - 1
# json.loads recurses; torch nests each body of control flow about ten deep.
_NUMBERS: Final = {"Infinity": float("inf"), "-Infinity": -float("inf"), "NaN": float("nan")}


class MalformedError(ValueError):
    """A part of an archive that is not as its format requires."""


def fail(message: str) -> NoReturn:
    """Raises MalformedError."""
    raise MalformedError(message)


def parsed(content: bytes | memoryview, what: str) -> dict[str, Any]:
    """Parses a JSON object."""
    try:
        return record(json.loads(bytes(content)), what)
    except MalformedError:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{what} is not JSON") from error


def record(value: Any, what: str) -> dict[str, Any]:
    """Returns a JSON object."""
    return value if type(value) is dict else fail(f"{what} is not an object")


def items(value: Any, what: str) -> list[Any]:
    """Returns a JSON array."""
    return value if type(value) is list else fail(f"{what} is not a list")


def text(value: Any, what: str) -> str:
    """Returns a string that is valid Unicode."""
    if type(value) is not str:
        fail(f"{what} is not a string")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        fail(f"{what} is not valid Unicode")
    return value


def flag(value: Any, what: str) -> bool:
    """Returns a bool; integers are not bools."""
    return value if type(value) is bool else fail(f"{what} is not true or false")


def integer(value: Any, what: str, least: int = _LEAST, greatest: int = _GREATEST) -> int:
    """Returns an integer within bounds; bools are not integers."""
    if type(value) is not int or not least <= value <= greatest:
        fail(f"{what} is not an integer from {least} to {greatest}")
    return value


def number(value: Any, what: str) -> float:
    """Returns a float; torch writes infinities and NaN as strings."""
    if type(value) is float:
        return value
    if type(value) is str and value in _NUMBERS:
        return _NUMBERS[value]
    return float(integer(value, what))


def union(value: Any, what: str) -> tuple[str, Any]:
    """Returns kind and content of a union: an object with one entry."""
    if type(value) is not dict or len(value) != 1:
        fail(f"{what} is not an object with one entry")
    return next(iter(value.items()))


def name(value: Any, what: str) -> str:
    """Returns a Python identifier: torch generates code with the names of a graph."""
    found = text(value, what)
    if not is_identifier(found):
        fail(f"{what} is not an identifier: {found}")
    return found


def is_identifier(text: str) -> bool:
    """Whether a text can be a name in generated code."""
    return text.isidentifier() and not keyword.iskeyword(text)


def qualified_name(value: Any, what: str) -> str:
    """Returns the dotted name of a tensor of a module, which may become part of generated code."""
    found = text(value, what)
    if not is_qualified_name(found):
        fail(f"{what} is not the name of a tensor of a module: {found}")
    return found


def is_qualified_name(text: str) -> bool:
    """Whether a text can be a part of a quoted text in generated code."""
    return bool(text) and text.isprintable() and '"' not in text and "\\" not in text


def entries(value: Any, what: str, convert: Callable[[Any, str], Any]) -> list[Any]:
    """Returns a JSON array with converted items."""
    return [convert(item, what) for item in items(value, what)]
