# SPDX-License-Identifier: Apache-2.0
"""Runtimes that a user names as "module:attribute"."""

from __future__ import annotations

from functools import partial

from delegatec.delegation.plugin_import import DEPS, import_attribute
from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import exception_text
from delegatec.verify.runtime import Runtime

_MEMBERS = ("name", "backends", "load")


def find_runtime(selector: str) -> Runtime:
    """Returns a runtime.

    Args:
        selector: "module:attribute".

    Raises:
        DelegatecError: DC516 for a plug-in that is missing, raises while it is imported, or is not a runtime.
    """
    refuse = partial(_refuse, selector)
    found = import_attribute(selector, refuse, "executorch_runtime:RUNTIME")
    try:
        missing = [name for name in _MEMBERS if not hasattr(found, name)]
        if missing:
            raise refuse(f"it lacks {', '.join(missing)}", "add these members")
        if not isinstance(found.name, str) or not found.name:
            raise refuse(f"its name is {found.name!r}", "name it with a string")
        if isinstance(found.backends, str) or not all(isinstance(each, str) for each in found.backends):
            raise refuse(f"its backends are {found.backends!r}", "list their ids")
    except DelegatecError:
        raise
    except Exception as error:  # of a property
        raise refuse(f"it raises {exception_text(error)}", "correct it") from error
    assert isinstance(found, Runtime)
    return found


def _refuse(
    selector: str, message: str, help: str = DEPS, location: SourceLocation | None = None
) -> DelegatecError:
    return DelegatecError(
        [
            Diagnostic(
                "DC516",
                f"runtime {selector!r} cannot be loaded: {message}",
                location=location,
                expected="module:attribute, where attribute is a delegatec.verify.runtime.Runtime",
                help=help,
            )
        ]
    )
