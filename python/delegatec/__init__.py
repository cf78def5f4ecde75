# SPDX-License-Identifier: Apache-2.0
"""Compiles PyTorch models to on-device delegates.

Importing the package imports nothing else: its members are loaded on first use. docs/python.md shows them.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from delegatec.version import VERSION

if TYPE_CHECKING:
    from delegatec.delegating import to_backend as to_backend
    from delegatec.delegation.partitioning.rules import PartitionRules as PartitionRules
    from delegatec.diagnostics.diagnostic import DelegatecError as DelegatecError
    from delegatec.diagnostics.diagnostic import Diagnostic as Diagnostic
    from delegatec.edge.convert import to_edge as to_edge
    from delegatec.extracting import extract as extract
    from delegatec.frontend.checkpoint import load_checkpoint as load_checkpoint
    from delegatec.frontend.data import data_path as data_path
    from delegatec.frontend.export import export as export
    from delegatec.frontend.model import Method as Method
    from delegatec.frontend.model import Model as Model
    from delegatec.inspecting import inspect as inspect
    from delegatec.language.build import language_model as language_model
    from delegatec.language.speech.build import speech_to_text as speech_to_text
    from delegatec.language.vision.build import vision_language as vision_language
    from delegatec.lowering import Program as Program
    from delegatec.lowering import lower as lower
    from delegatec.quantizing import quantize as quantize
    from delegatec.report.inspection import ProgramContents as ProgramContents
    from delegatec.verify.verification import Verification as Verification
    from delegatec.verifying import verify as verify

__all__ = [
    "DelegatecError",
    "Diagnostic",
    "Method",
    "Model",
    "PartitionRules",
    "Program",
    "ProgramContents",
    "Verification",
    "data_path",
    "export",
    "extract",
    "inspect",
    "language_model",
    "load_checkpoint",
    "lower",
    "quantize",
    "speech_to_text",
    "to_backend",
    "to_edge",
    "verify",
    "vision_language",
]
__version__ = VERSION

_MODULES = {
    "DelegatecError": "delegatec.diagnostics.diagnostic",
    "Diagnostic": "delegatec.diagnostics.diagnostic",
    "Method": "delegatec.frontend.model",
    "Model": "delegatec.frontend.model",
    "PartitionRules": "delegatec.delegation.partitioning.rules",
    "Program": "delegatec.lowering",
    "ProgramContents": "delegatec.report.inspection",
    "Verification": "delegatec.verify.verification",
    "data_path": "delegatec.frontend.data",
    "export": "delegatec.frontend.export",
    "extract": "delegatec.extracting",
    "inspect": "delegatec.inspecting",
    "language_model": "delegatec.language.build",
    "load_checkpoint": "delegatec.frontend.checkpoint",
    "lower": "delegatec.lowering",
    "quantize": "delegatec.quantizing",
    "speech_to_text": "delegatec.language.speech.build",
    "to_backend": "delegatec.delegating",
    "to_edge": "delegatec.edge.convert",
    "verify": "delegatec.verifying",
    "vision_language": "delegatec.language.vision.build",
}


# Functions with the names of packages: `delegatec.verify` is both, a package that can be called.
_PACKAGES = ("quantize", "verify")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _function(name)


def _function(name: str) -> Any:
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


class _Callable(ModuleType):
    """A package with the name of a function."""

    @property
    def __wrapped__(self) -> Any:
        """The function, for `inspect.signature`."""
        return _function(self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _PACKAGES:
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
