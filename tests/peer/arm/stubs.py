# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the TOSA libraries that the peer's Arm package imports and its quantizer does not use."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any, Final

# Its serializer, and the schema module of its text dumps.
_NAMES: Final = {"tosa_serializer": (), "tosa": ("tosa.TosaGraph",)}


class _Anything(types.ModuleType):
    """A module, class or enumeration of which every attribute exists."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Anything(name)
        setattr(self, name, value)
        return value

    def __or__(self, _: object) -> _Anything:
        return self

    __ror__ = __or__


def conftest() -> types.ModuleType:
    """Returns the module that some of the peer's tests ask for options of the command line: all are set."""
    module = types.ModuleType("conftest")
    vars(module)["is_option_enabled"] = lambda option: True  # Such as to run the reference model.
    return module


def install_stubs() -> None:
    """Makes the peer's Arm package importable without Arm's TOSA tools, unless they are installed."""
    for package, modules in _NAMES.items():
        if package not in sys.modules and importlib.util.find_spec(package) is None:
            sys.modules.update({name: _Anything(name) for name in (package, *modules)})
