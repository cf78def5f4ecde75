# SPDX-License-Identifier: Apache-2.0
"""The built-in backends."""

from __future__ import annotations

from delegatec.backends.mps import MPS
from delegatec.delegation.registry import BackendRegistry


def builtin_backends() -> BackendRegistry:
    """A fresh registry of the backends that come with the compiler."""
    return BackendRegistry([MPS])
