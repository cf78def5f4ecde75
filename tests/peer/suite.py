# SPDX-License-Identifier: Apache-2.0
"""The cases of the peer's own MPS test suite: recorded where its tests would lower them, never copied.

Its test classes are used unchanged, except for the three methods that lower a module and run it, which
all its tests end in. Importing it has effects on the whole process, which are undone here: it turns on debug
output of everything, and warns of its deprecation.
"""

from __future__ import annotations

import importlib
import logging
import random
import unittest
import warnings
import zlib
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

import torch

_PACKAGE: Final = "executorch.backends.apple.mps.test"
_MODULES: Final = (
    "test_mps",
    "test_mps_binary_ops",
    "test_mps_indexing_ops",
    "test_mps_linear",
    "test_mps_unary_ops",
)

# They equal test_fp32_linear and test_fp32_linear_fused_relu: their `quant_type` is unused.
_REPEATED: Final = frozenset(("test_qc8_linear", "test_qs8_linear", "test_qs8_linear_fused_relu"))


class Call(torch.nn.Module):
    """A module that is one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


@dataclass(frozen=True)
class PeerTest:
    """A test method of the peer.

    Attributes:
        suite: its class.
        method: its name.
        skipped: whether the peer itself skips it.
    """

    suite: type[unittest.TestCase]
    method: str
    skipped: bool

    @property
    def name(self) -> str:
        """Its name, without the prefix that all have."""
        name = self.method.removeprefix("test_").removeprefix("mps_").removeprefix("backend_")
        return f"{self.suite.__name__.removeprefix('Test').removeprefix('MPS') or 'MPS'}.{name}"


@dataclass(frozen=True)
class PeerCase:
    """The module and inputs of one of the peer's tests.

    Attributes:
        name: of the test, with a number if it lowers several modules.
        module: the module.
        args: example inputs.
    """

    name: str
    module: torch.nn.Module
    args: tuple[Any, ...]


def peer_tests() -> list[PeerTest]:
    """All test methods that end in a lowering, in the order of their names."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = [importlib.import_module(f"{_PACKAGE}.{name}") for name in _MODULES]
        base = importlib.import_module(f"{_PACKAGE}.test_mps_utils").TestMPS
    root.setLevel(max(level, logging.WARNING))
    root.handlers[:] = handlers
    found = {
        (suite.__module__, suite.__name__, name): PeerTest(suite, name, hasattr(method, "__unittest_skip__"))
        for module in modules
        for suite in vars(module).values()
        if isinstance(suite, type) and issubclass(suite, base) and suite is not base
        for name, method in vars(suite).items()
        if name.startswith("test_") and name not in _REPEATED
    }
    return [test for _, test in sorted(found.items(), key=lambda item: item[0])]


def record(test: PeerTest) -> list[PeerCase]:
    """Returns the case of a test, with weights and inputs seeded by its name, without lowering it."""
    recorded: list[tuple[torch.nn.Module, tuple[Any, ...]]] = []

    def lower(_: unittest.TestCase, module: Any, inputs: Any, *__: Any, **___: Any) -> None:
        # Two of them pass a function of torch, which the peer's lowering rejects.
        recorded.append((module if isinstance(module, torch.nn.Module) else Call(module), tuple(inputs)))

    lowering = ("lower_module_and_test_output", "lower_and_test_with_partitioner")
    patched: dict[str, Any] = dict.fromkeys((*lowering, "lower_and_test_without_partitioner"), lower)
    patched["assertRaises"] = _call  # Cases that the peer cannot lower count as well.
    instance = type(test.suite.__name__, (test.suite,), patched)(test.method)
    method = getattr(test.suite, test.method)
    seed = zlib.crc32(test.name.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with redirect_stdout(StringIO()):
            getattr(method, "__wrapped__", method)(instance)  # Skipped by the peer, not by us.
    names = [test.name] if len(recorded) == 1 else [f"{test.name} {i}" for i in range(1, len(recorded) + 1)]
    return [PeerCase(name, *case) for name, case in zip(names, recorded, strict=True)]


def _call(
    _: unittest.TestCase, __: type[Exception], function: Callable[..., Any], *args: Any, **kwargs: Any
) -> None:
    function(*args, **kwargs)
