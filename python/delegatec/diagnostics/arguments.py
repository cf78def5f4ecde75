# SPDX-License-Identifier: Apache-2.0
"""Arguments of the compiler's own functions that are something else than what these take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delegatec.diagnostics.diagnostic import DelegatecError, Diagnostic


def wrong_argument(function: str, argument: str, value: Any, expected: str, help: str = "") -> DelegatecError:
    """DC415 for a value of the wrong type.

    Args:
        function: as the user calls it, such as "delegatec.lower".
        argument: its name.
        value: what was given.
        expected: what it takes.
        help: what to write instead.
    """
    message = f"{argument} of {function} has type {type(value).__name__}"
    return DelegatecError([Diagnostic("DC415", message, expected=expected, help=help)])


def check_types(function: str, arguments: Mapping[str, tuple[Any, type | tuple[type, ...], str]]) -> None:
    """DC415 for every argument that is of another type than it should; None passes for all of them.

    Args:
        function: as the user calls it.
        arguments: name -> value, the types that it may have, and these in words.
    """
    problems = [
        diagnostic
        for name, (value, types, expected) in arguments.items()
        if value is not None and not isinstance(value, types)
        for diagnostic in wrong_argument(function, name, value, expected).diagnostics
    ]
    if problems:
        raise DelegatecError(problems)
