# SPDX-License-Identifier: Apache-2.0
"""The built-in backends: every package in this one that has a `BACKEND`, or `BACKENDS`.

A build has those of `rules/private/builtin_backends.bzl`, which alone lists them; an action uses those that
it declares, and has no others among its inputs.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Iterable
from types import ModuleType

from delegatec.delegation import Backend
from delegatec.delegation.registry import BackendRegistry

# The declared packages, if they are: one set.
_DECLARED: list[frozenset[str]] = []


def declare_packages(names: Iterable[str]) -> None:
    """Limits `builtin_backends` to some packages, in this process."""
    _DECLARED[:] = [frozenset(names)]


def builtin_backends() -> BackendRegistry:
    """Returns a new registry of the backends that come with the compiler, and that are declared."""
    names = {module.name for module in pkgutil.iter_modules(__path__) if module.ispkg}
    names = names.intersection(*_DECLARED)
    packages = [importlib.import_module(f"{__name__}.{name}") for name in sorted(names)]
    return BackendRegistry(itertools.chain.from_iterable(map(_backends_of, packages)))


def _backends_of(package: ModuleType) -> Iterable[Backend]:
    return getattr(package, "BACKENDS", None) or filter(None, [getattr(package, "BACKEND", None)])
