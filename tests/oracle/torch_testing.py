# SPDX-License-Identifier: Apache-2.0
"""Imports of `torch.testing._internal`."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn
from unittest.mock import patch

_MODULE = "torch.utils.cpp_extension"


@contextmanager
def without_cpp_extensions() -> Iterator[None]:
    """A scope in which torch has no compiler of C++ extensions.

    `torch.testing._internal` imports it for tests that are not used here, and compiles a file to see whether
    it can; it needs setuptools, which the compiler's wheels do not contain.
    """
    module = types.ModuleType(_MODULE)
    module.__dict__["__getattr__"] = _no_compiler
    with patch.dict(sys.modules):
        sys.modules[_MODULE] = module
        before = set(sys.modules)
        yield
        imported = {name: module for name, module in sys.modules.items() if name not in before}
    sys.modules.update(imported)


def _no_compiler(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    # The error that torch expects from a host without a C++ compiler.
    raise OSError("no compiler of C++ extensions")
