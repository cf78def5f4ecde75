# SPDX-License-Identifier: Apache-2.0
"""Objects that a user names as "module:attribute", and the exceptions of their code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from delegatec.delegation.faults import raised_at
from delegatec.delegation.plugin_import import import_attribute
from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import exception_text


def refusal(
    problem: str, help: str = "", location: SourceLocation | None = None, *, expected: str = ""
) -> DelegatecError:
    """Returns the error for a dataset or a metric.

    Args:
        problem: the message.
        help: how to correct it.
        location: the user's line.
        expected: what would be valid.
    """
    return DelegatecError([Diagnostic("DC521", problem, location=location, expected=expected, help=help)])


def imported(kind: str, selector: str, example: str, expected: str) -> Any:
    """Returns what a selector names.

    Args:
        kind: "dataset" or "metric".
        selector: "module:attribute".
        example: a selector of this kind.
        expected: the attributes that are valid.

    Raises:
        DelegatecError: DC521, it cannot be imported, or is a class.
    """

    def refuse(problem: str, help: str, location: SourceLocation | None) -> DelegatecError:
        text = f"{kind} {selector!r} cannot be loaded: {problem}"
        return refusal(text, help, location, expected=f"module:attribute, where attribute is {expected}")

    return import_attribute(selector, refuse, example)


@contextmanager
def user_code(selector: str, what: str) -> Iterator[None]:
    """Turns exceptions of the user's code into DC521.

    Args:
        selector: "module:attribute".
        what: the code that runs, such as "metric 'my.metrics:top1'".
    """
    try:
        yield
    except (DelegatecError, KeyboardInterrupt):
        raise
    except BaseException as error:
        text = f"{what} raises {exception_text(error)}"
        raise refusal(
            text, "correct it", raised_at(error, selector.partition(".")[0].partition(":")[0])
        ) from error
