# SPDX-License-Identifier: Apache-2.0
"""Checks a user's options against a backend's declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from delegatec.delegation.protocol.backend import OptionSpec, OptionValue
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean


def resolve_options(
    name: str, declared: Mapping[str, OptionSpec], given: Mapping[str, object]
) -> dict[str, Any]:
    """Returns the value of every declared option, as `OptionValue`.

    Args:
        name: the backend's name, for messages.
        declared: the backend's options.
        given: the user's values: a string, or a list or tuple of strings. For an option that is a list, one
            string is a list of one, and empty strings are ignored.

    Raises:
        DelegatecError: DC402 for each unknown option and each invalid value; DC423 for each value that has no
            effect with the others.
    """
    problems = [
        problem for key, value in sorted(given.items()) for problem in _problems(name, declared, key, value)
    ]
    if problems:
        raise DelegatecError(problems)
    found = {key: _value(spec, given.get(key, spec.default)) for key, spec in declared.items()}
    problems = [
        _idle(name, key, spec, found)
        for key, spec in declared.items()
        if spec.needs and found[key] != spec.default and found[spec.needs[0]] != spec.needs[1]
    ]
    if problems:
        raise DelegatecError(problems)
    return found


def _idle(name: str, key: str, spec: OptionSpec, found: Mapping[str, OptionValue]) -> Diagnostic:
    other, value = spec.needs
    return Diagnostic(
        "DC423",
        f"option {key!r} of backend {name} has no effect with {other} {found[other]!r}",
        expected=f"{other} {value!r}, or {key} {spec.default!r}",
        help=spec.doc,
    )


def _problems(name: str, declared: Mapping[str, OptionSpec], key: str, value: object) -> Iterator[Diagnostic]:
    spec = declared.get(key)
    if spec is None:
        yield Diagnostic(
            "DC402",
            f"backend {name} has no option {key!r}",
            expected=", ".join(sorted(declared)) or "no options",
            help=did_you_mean(key, declared),
        )
        return
    kind = "strings" if spec.is_list else "one string"
    expected = " or ".join(spec.values) or kind
    if not (isinstance(value, str) or (spec.is_list and _is_strings(value))):
        message = f"option {key!r} of backend {name} must be {kind}, not {value!r}"
        yield Diagnostic("DC402", message, expected=expected, help=spec.doc)
        return
    found = _value(spec, value)
    for string in (found,) if isinstance(found, str) else found:
        if spec.values and not spec.is_file and string not in spec.values:
            message = f"option {key!r} of backend {name} cannot be {string!r}"
            near = did_you_mean(string, spec.values)
            help = " ".join(filter(None, (near, spec.doc)))
            yield Diagnostic("DC402", message, expected=expected, help=help)


def _is_strings(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(string, str) for string in value)


def _value(spec: OptionSpec, given: Any) -> OptionValue:
    if not spec.is_list:
        return str(given)
    return tuple(string for string in ([given] if isinstance(given, str) else given) if string)
