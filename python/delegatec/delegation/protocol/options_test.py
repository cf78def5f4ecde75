# SPDX-License-Identifier: Apache-2.0
"""Options: one of several strings, any string, or a list of strings."""

from __future__ import annotations

import pytest

from delegatec.delegation import OptionSpec, resolve_options
from delegatec.diagnostics import DelegatecError, Diagnostic

DECLARED = {
    "precision": OptionSpec(("fp32", "fp16"), "fp32", "how"),
    "system": OptionSpec((), "", "name of a configuration"),
    "flags": OptionSpec((), ("--fast",), "handed on"),
    "passes": OptionSpec(("fold", "fuse"), (), "what to run"),
}


def rejected(given: dict[str, object]) -> list[Diagnostic]:
    with pytest.raises(DelegatecError) as error:
        resolve_options("b", DECLARED, given)
    assert {diagnostic.code for diagnostic in error.value.diagnostics} == {"DC402"}
    return list(error.value.diagnostics)


def test_unset_options_have_their_defaults() -> None:
    defaults = {"precision": "fp32", "system": "", "flags": ("--fast",), "passes": ()}
    assert resolve_options("b", DECLARED, {}) == defaults
    assert resolve_options("b", DECLARED, defaults) == defaults


def test_strings_and_lists() -> None:
    given = {"system": "U55 = high, end", "flags": ["--a=1,2", "--b"], "passes": "fuse"}
    assert resolve_options("b", DECLARED, given) == {
        "precision": "fp32",
        "system": "U55 = high, end",
        "flags": ("--a=1,2", "--b"),
        "passes": ("fuse",),
    }
    # An empty list on the command line.
    assert resolve_options("b", DECLARED, {"flags": ""})["flags"] == ()


def test_options_are_checked_all_at_once() -> None:
    passes, second, first = rejected({"precison": "fp16", "precision": "fp61", "passes": ["fold", "fsue"]})
    assert (first.message, first.help) == ("backend b has no option 'precison'", "did you mean 'precision'?")
    assert (second.message, second.expected) == (
        "option 'precision' of backend b cannot be 'fp61'",
        "fp32 or fp16",
    )
    assert second.help == "did you mean 'fp16'? how"
    assert (passes.message, passes.expected) == (
        "option 'passes' of backend b cannot be 'fsue'",
        "fold or fuse",
    )


@pytest.mark.parametrize(
    ("given", "message", "expected"),
    [
        ({"precision": ["fp32", "fp16"]}, "must be one string, not ['fp32', 'fp16']", "fp32 or fp16"),
        ({"system": ["a", "b"]}, "must be one string, not ['a', 'b']", "one string"),
        ({"system": 5}, "must be one string, not 5", "one string"),
        ({"flags": ["--a", 5]}, "must be strings, not ['--a', 5]", "strings"),
    ],
)
def test_an_option_of_the_wrong_kind(given: dict[str, object], message: str, expected: str) -> None:
    (problem,) = rejected(given)
    (option,) = given
    assert (problem.message, problem.expected) == (f"option {option!r} of backend b {message}", expected)
