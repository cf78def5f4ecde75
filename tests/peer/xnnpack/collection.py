# SPDX-License-Identifier: Apache-2.0
"""The cases of the peer's own XNNPACK test suite: recorded where its tests would lower them, never copied.

Most tests are a chain of calls of the peer's `Tester`: it quantizes and exports as in the test, and the
program is recorded where it would be lowered; later calls only record the tolerance. Tests of the quantizer
end in a comparison of the quantized graph, which is exported and recorded. Each test has a separate seed, so
that a case does not depend on the cases before.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import random
import unittest
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.export import ExportedProgram

from tests.oracle.torch_testing import without_cpp_extensions

_PACKAGE: Final = "executorch.backends.xnnpack.test"
_TESTER: Final = "executorch.backends.test.harness.Tester"
_GROUPS: Final = ("fragments", "models", "ops", "passes", "quantizer")

# Of its methods, those of which only the effect on a lowered program is of interest there.
_IGNORED: Final = (
    *("check", "check_count", "check_node_count", "check_not", "dump_artifact", "run_passes"),
    *("serialize", "to_executorch", "visualize"),
)


@dataclass(frozen=True)
class PeerTest:
    """A test method of the peer.

    Attributes:
        module: like `ops/add`.
        suite: its class.
        method: its name.
    """

    module: str
    suite: type[unittest.TestCase]
    method: str

    @property
    def name(self) -> str:
        """Module and method, like `ops/add.fp32_add`; tests of one module have different methods."""
        return f"{self.module}.{self.method.removeprefix('test_')}"


@dataclass(frozen=True)
class PeerCase:
    """A program that one of the peer's tests lowers.

    Attributes:
        name: of the test, with a number if it lowers several.
        program: as exported, after quantization.
        inputs: of the calls that are compared, at least one.
        partitioners: the test's own; empty for the default.
        absolute: bound of a difference.
        relative: bound of a difference relative to the value.
        qtol: bound of a difference in quantization steps of a quantized output, besides.
    """

    name: str
    program: ExportedProgram
    inputs: list[tuple[Any, ...]]
    partitioners: list[Any] = field(default_factory=list)
    absolute: float = 1e-3
    relative: float = 1e-3
    qtol: float = 0


def peer_modules() -> list[str]:
    """Returns the names of the peer's test modules that can be imported, like `ops/add`, in order.

    Some models need torchaudio or a download, which this project does not have, or torchvision:
    `torchvision_in` has it.
    """
    package = importlib.import_module(_PACKAGE)
    root = Path(next(iter(package.__path__)))
    paths = sorted(path for group in _GROUPS for path in (root / group).glob("*.py"))
    names = [path.relative_to(root).with_suffix("").as_posix() for path in paths]
    return [_short(name) for name in names if not name.endswith("__init__") and _imported(name) is not None]


def peer_tests(module: str) -> list[PeerTest]:
    """Returns the tests of a module, in the order of their names, with those that the peer skips."""
    loaded = _imported(_long(module))
    assert loaded is not None, module
    return [
        PeerTest(module, suite, method)
        for _, suite in sorted(inspect.getmembers(loaded, inspect.isclass))
        if issubclass(suite, unittest.TestCase) and suite.__module__ == loaded.__name__
        for method in sorted(vars(suite))
        if method.startswith("test_") and callable(getattr(suite, method))
    ]


def record(test: PeerTest) -> list[PeerCase]:
    """Returns the cases of a test; none if torch or the peer's quantizer rejects it."""
    seed = zlib.crc32(test.name.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    recorder = _Recorder()
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        recorder.install(stack)
        instance = test.suite(test.method)
        method = getattr(test.suite, test.method)
        try:
            instance.setUp()
            getattr(method, "__wrapped__", method)(instance)  # Skipped by the peer, not by us.
        except (Exception, unittest.SkipTest):  # noqa: BLE001
            # After its lowering a test may inspect what it produced, which does not exist here.
            pass
    found = [recorder.cases[key] for key in recorder.order]
    if len(found) == 1:
        return [replace(found[0], name=test.name)]
    return [replace(case, name=f"{test.name} {number}") for number, case in enumerate(found, 1)]


class _Recorder:
    """Replaces the peer's stages from lowering on.

    Attributes:
        cases: identity of a tester, or of a quantized graph -> its case.
        order: the keys of `cases` in order.
    """

    def __init__(self) -> None:
        self.cases: dict[int, PeerCase] = {}
        self.order: list[int] = []
        self._kept: list[Any] = []

    def install(self, stack: ExitStack) -> None:
        """Patches the peer until the stack is closed."""
        harness = importlib.import_module("executorch.backends.test.harness").Tester

        def ignored(tester: Any, *_: Any, **__: Any) -> Any:
            return tester

        def to_edge(tester: Any, *_: Any, **__: Any) -> Any:
            self._add(tester, tester.get_artifact(), _inputs(tester), [])
            return tester

        def partition(tester: Any, stage: Any = None) -> Any:
            if stage is not None and id(tester) in self.cases:
                self._change(tester, partitioners=[stage.partitioner])
            return tester

        def lower(tester: Any, stage: Any = None, **_: Any) -> Any:
            chosen = list(stage.partitioners) if stage is not None else []
            self._add(tester, tester.get_artifact(), _inputs(tester), chosen)
            return tester

        def compare(tester: Any, stage: Any = None, inputs: Any = None, *_: Any, **options: Any) -> Any:
            if id(tester) in self.cases:
                names = {"atol": "absolute", "rtol": "relative", "qtol": "qtol"}
                changed = {names[key]: value for key, value in options.items() if key in names}
                if inputs is not None:
                    changed["inputs"] = [inputs]
                self._change(tester, **changed)
            return tester

        replaced = {
            **dict.fromkeys(_IGNORED, ignored),
            "to_edge": to_edge,
            "partition": partition,
            "to_edge_transform_and_lower": lower,
            "run_method_and_compare_outputs": compare,
        }
        for name, function in replaced.items():
            stack.enter_context(patch.object(harness, name, function))
        self._install_quantizer(stack)

    def _install_quantizer(self, stack: ExitStack) -> None:
        with without_cpp_extensions():
            cases = importlib.import_module("torchao.testing.pt2e.utils").PT2EQuantizationTestCase
        original = cases._test_quantizer

        def quantized(test: Any, model: Any, example_inputs: Any, *args: Any, **options: Any) -> Any:
            graph = original(test, model, example_inputs, *args, **options)
            self._add(graph, torch.export.export(graph, example_inputs), [example_inputs], [])
            return graph

        stack.enter_context(patch.object(cases, "_test_quantizer", quantized))

    def _add(self, key: Any, program: Any, inputs: list[Any], partitioners: list[Any]) -> None:
        if isinstance(program, ExportedProgram):
            self._kept.append(key)  # Identities are those of living objects.
            self.order.append(id(key))
            self.cases[id(key)] = PeerCase("", program, inputs, partitioners)

    def _change(self, key: Any, **changed: Any) -> None:
        self.cases[id(key)] = replace(self.cases[id(key)], **changed)


def _inputs(tester: Any) -> list[tuple[Any, ...]]:
    """Returns the example inputs, and random ones, of other sizes where these are dynamic."""
    try:
        return [tuple(tester.example_inputs), next(tester.generate_random_inputs())]
    except (AssertionError, AttributeError, RuntimeError, UnboundLocalError):
        # The peer draws floats only, and no derived sizes.
        return [tuple(tester.example_inputs)]


def _short(name: str) -> str:
    return name.replace("/test_", "/")


def _long(name: str) -> str:
    root = Path(next(iter(importlib.import_module(_PACKAGE).__path__)))
    group, _, module = name.partition("/")
    return f"{group}/test_{module}" if (root / group / f"test_{module}.py").exists() else name


def _imported(name: str) -> Any:
    try:
        with _quiet(), without_cpp_extensions():
            return importlib.import_module(f"{_PACKAGE}.{name.replace('/', '.')}")
    except (ImportError, OSError):
        return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Restores what importing and running the peer changes: it logs from INFO on, and warns."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.setLevel(max(level, logging.WARNING))
        root.handlers[:] = handlers
