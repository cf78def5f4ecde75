# SPDX-License-Identifier: Apache-2.0
"""What the tests of several scripts need."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def pip_contains_packaging() -> None:
    """The scripts run with the host's Python, where pip contains `packaging`; a test's Python has no pip."""
    for name in ("pip", "pip._vendor"):
        sys.modules.setdefault(name, ModuleType(name))
    for name in ("", ".markers", ".requirements", ".specifiers", ".utils", ".version"):
        sys.modules[f"pip._vendor.packaging{name}"] = importlib.import_module(f"packaging{name}")
    sys.path.insert(0, "third_party/python")
