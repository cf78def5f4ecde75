# SPDX-License-Identifier: Apache-2.0
"""Checks JSON documents against the types that they were written from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints, is_typeddict

# Integers have 64 bits, so that other languages support them, and can be divided.
_LIMIT: Final = 2**63


@dataclass(frozen=True)
class AtLeast:
    """The least valid value of an `Annotated` number."""

    least: int


Size = Annotated[int, AtLeast(0)]
"""A size in bytes, an index, or a count that may be 0."""
Count = Annotated[int, AtLeast(1)]
"""A count of at least 1."""


def decoded(kind: Any, value: Any, where: str = "") -> Any:
    """Converts a plain JSON value to a type.

    Args:
        kind: str, int, float, bool, None, a number with `AtLeast`, a dataclass, a TypedDict, or a tuple,
            list, dict or union of such types.
        value: the value.
        where: its position in the document, for messages, such as ".methods[0].name".

    Returns:
        The value, with dataclasses and tuples as in `kind`.

    Raises:
        ValueError: it has another form.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (tuple, list):
        items = [
            decoded(arguments[0], each, f"{where}[{i}]") for i, each in enumerate(_as(list, value, where))
        ]
        return tuple(items) if origin is tuple else items
    if origin is dict:
        items_of = _as(dict, value, where).items()
        return {_text(key, where): decoded(arguments[1], each, f"{where}.{key}") for key, each in items_of}
    if origin in (Union, UnionType):
        return _one_of(arguments, value, where)
    if origin is Annotated:
        return _at_least(arguments[1], decoded(arguments[0], value, where), where)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        known = _hints(kind)
        optional = {field.name for field in dataclasses.fields(kind) if not _is_required(field)}
        fields = _fields(known, known.keys() - optional, value, where)
        return kind(**fields)
    if is_typeddict(kind):
        return _fields(_hints(kind), kind.__required_keys__, value, where)
    return _as(kind, value, where)


def _one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """Converts to the first type that fits; if none does, the message is about the last."""
    *others, last = sorted(kinds, key=lambda kind: kind is not type(None))
    for kind in others:
        try:
            return decoded(kind, value, where)
        except ValueError:
            continue
    return decoded(last, value, where)


def _fields(known: Mapping[str, Any], required: Any, value: Any, where: str) -> dict[str, Any]:
    given = _as(dict, value, where)
    if missing := sorted(set(required) - given.keys()):
        raise ValueError(f"{where or 'the document'} has no {', '.join(missing)}")
    if unknown := sorted(given.keys() - known.keys()):
        raise ValueError(f"{where or 'the document'} has an unknown {', '.join(map(_shown, unknown))}")
    return {name: decoded(known[name], each, f"{where}.{name}") for name, each in given.items()}


def _as(kind: Any, value: Any, where: str) -> Any:
    # A bool is an int for Python, and an integral float may be written as an int.
    if type(value) is str and kind is str:
        return _text(value, where)
    if type(value) is kind or (kind is float and type(value) is int):
        return _number(value, where) if type(value) in (int, float) else value
    raise ValueError(f"{where or 'the document'} is {type(value).__name__}, expected {kind.__name__}")


def _number(value: float, where: str) -> float:
    """Returns a number that is not too large; JSON of Python may have infinities and NaN."""
    if type(value) is int and not -_LIMIT <= value < _LIMIT:
        raise ValueError(f"{where or 'the document'} is an integer of more than 64 bits")
    if not math.isfinite(value):
        raise ValueError(f"{where or 'the document'} is {value}, expected a finite number")
    return value


def _at_least(limit: AtLeast, value: int, where: str) -> int:
    if value < limit.least:
        raise ValueError(f"{where or 'the document'} is {value}, expected at least {limit.least}")
    return value


def _text(value: str, where: str) -> str:
    """Returns a text that can be written to a file: JSON may have lone surrogates."""
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{where or 'the document'} has a text that is not valid Unicode")
    return value


def _shown(key: str) -> str:
    return key if key.isascii() else ascii(key)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
