# SPDX-License-Identifier: Apache-2.0
"""Type checks of arguments of the public functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, cast

from delegatec.diagnostics.diagnostic import DelegatecError, Diagnostic


def wrong_argument(function: str, argument: str, value: Any, expected: str, help: str = "") -> DelegatecError:
    """Returns DC415 for an argument of the wrong type.

    Args:
        function: name of the function as the user calls it, such as "delegatec.lower".
        argument: name of the argument.
        value: the value passed.
        expected: the expected type, in words.
        help: what to do instead.
    """
    message = f"{argument} of {function} has type {type(value).__name__}"
    return DelegatecError([Diagnostic("DC415", message, expected=expected, help=help)])


def check_types(
    function: str, arguments: Mapping[str, tuple[Any, type | UnionType | tuple[type, ...], str]]
) -> None:
    """Raises DC415 for every argument of the wrong type.

    Args:
        function: name of the function as the user calls it.
        arguments: name -> the value, the accepted types, and these in words.
    """
    problems = [
        diagnostic
        for name, (value, types, expected) in arguments.items()
        if not isinstance(value, types)
        for diagnostic in wrong_argument(function, name, value, expected).diagnostics
    ]
    if problems:
        raise DelegatecError(problems)


def check_items(
    function: str, argument: str, values: Any, containers: type | tuple[type, ...], kind: type, expected: str
) -> None:
    """Raises DC415 for an argument that is not a container of values of one type.

    Args:
        function: name of the function as the user calls it.
        argument: name of the argument.
        values: the value passed.
        containers: the accepted types of the argument; of a mapping, the values are checked.
        kind: the accepted type of its items.
        expected: the argument, in words.
    """
    if not isinstance(values, containers):
        raise wrong_argument(function, argument, values, expected)
    items = cast("Iterable[Any]", values.values() if isinstance(values, Mapping) else values)
    for item in items:
        if not isinstance(item, kind):
            raise wrong_argument(function, f"an item of {argument}", item, expected)
