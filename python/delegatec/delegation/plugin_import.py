# SPDX-License-Identifier: Apache-2.0
"""Import of plug-ins, which a user names as "module:attribute"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from delegatec.delegation.faults import raised_at
from delegatec.diagnostics import DelegatecError, SourceLocation
from delegatec.diagnostics.exceptions import did_you_mean, exception_text

Refuse = Callable[[str, str, SourceLocation | None], DelegatecError]
"""Returns the error for a plug-in: the problem, the help, and the plug-in's line if known."""

DEPS: Final = "add its py_library to deps, or its directory to --import-path"


def import_attribute(selector: str, refuse: Refuse, example: str) -> Any:
    """Returns the instance that a selector names.

    Args:
        selector: "module:attribute".
        refuse: makes the error.
        example: a selector of this kind of plug-in.

    Raises:
        DelegatecError: from `refuse`: the selector has another form, the module is missing or raises, or it
            has no such attribute, or a class of this name.
    """
    module_name, _, attribute = selector.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise refuse("it is not of the form module:attribute", f"such as {example}", None)
    module = import_module(module_name, refuse)
    if attribute not in vars(module) and not hasattr(module, attribute):
        near = did_you_mean(attribute, vars(module)) or DEPS
        raise refuse(f"module {module_name!r} has no attribute {attribute!r}", near, None)
    found = getattr(module, attribute)
    if found is None:
        help = f"assign an instance to it when the module is imported: {attribute} = Npu()"
        raise refuse(f"{attribute!r} of module {module_name!r} is None", help, None)
    if isinstance(found, type):
        help = f"name an instance: {example.partition(':')[2]} = {attribute}()"
        raise refuse(f"{attribute!r} is a class, not an instance", help, None)
    return found


def import_module(name: str, refuse: Refuse) -> ModuleType:
    """Imports a module of a user's.

    Args:
        name: such as "dsp.operators".
        refuse: makes the error.

    Raises:
        DelegatecError: from `refuse`: it is missing or raises.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise refuse(f"no module named {error.name!r}", DEPS, None) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = f"its import raises {exception_text(error)}"
        raise refuse(reason, "correct it", raised_at(error)) from error
