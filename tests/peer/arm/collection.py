# SPDX-License-Identifier: Apache-2.0
"""The cases of the peer's own Arm test suite: recorded where its tests would run a pipeline, never copied.

A test builds a pipeline, edits its stages, and calls `run`. That method alone is replaced: the recorded
pipeline has the module, the inputs, the quantizer and the tolerances that the test has chosen.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import logging
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
import torch
from _pytest import outcomes

from tests.peer.arm.stubs import conftest, install_stubs

_PACKAGE: Final = "executorch.backends.arm.test"

# Of the peer's classes of pipelines -> kind of the case.
_KINDS: Final = {
    "TosaPipelineFP": "FP",
    "TosaPipelineINT": "INT",
    "EthosU55PipelineINT": "U55",
    "EthosU65PipelineINT": "U65",
    "EthosU85PipelineINT": "U85",
    "OpNotSupportedPipeline": "refused",
}

KINDS: Final = tuple(_KINDS.values())

# That of the peer's conftest.
_SEED: Final = 0


@dataclass(frozen=True)
class ArmTest:
    """A test function of the peer, with one set of arguments.

    Attributes:
        name: module, function and parameters, like `ops/add::add_tosa_FP[add_one]`.
        module: the name of its module, to import.
        function: the name of the function.
        arguments: argument -> value.
        expected: the reason of the peer's `xfail` mark, if any.
    """

    name: str
    module: str
    function: str
    arguments: dict[str, Any]
    expected: str = ""


@dataclass(frozen=True)
class ArmCase:
    """A pipeline of one of the peer's tests, before any of its stages has run.

    Attributes:
        name: of the test, with a number if it runs several.
        kind: of `KINDS`.
        pipeline: the peer's object.
        expected: as in `ArmTest`.
    """

    name: str
    kind: str
    pipeline: Any
    expected: str = ""


def arm_modules(group: str = "ops") -> list[str]:
    """Returns the names of the peer's test modules, like `ops/add`, in order.

    Args:
        group: a directory of its tests: ops, models or modules.
    """
    install_stubs()
    package = importlib.import_module(_PACKAGE)
    directory = Path(next(iter(package.__path__))) / group
    found = (path.relative_to(directory).with_suffix("") for path in sorted(directory.rglob("test_*.py")))
    return [f"{group}/{path.as_posix().replace('test_', '')}" for path in found]


def arm_tests(name: str) -> list[ArmTest]:
    """Returns the tests of a module that the peer does not skip, in the order of the file.

    Args:
        name: the module, of `arm_modules`.

    Raises:
        ImportError: it imports a library that is not installed.
    """
    *parents, last = name.split("/")
    module = _import(".".join((_PACKAGE, *parents, f"test_{last}")))
    found: list[ArmTest] = []
    for function, value in vars(module).items():
        if function.startswith("test_") and inspect.isfunction(value) and value.__module__ == module.__name__:
            found += _instances(name, module.__name__, function, value)
    return found


def record(test: ArmTest) -> list[ArmCase]:
    """Returns the cases of a test, without running a stage of them."""
    pipelines = importlib.import_module(f"{_PACKAGE}.tester.test_pipeline")
    recorded: list[Any] = []

    def run(pipeline: Any) -> None:
        recorded.append(pipeline)

    _seed()
    classes = [
        value for value in vars(pipelines).values() if isinstance(value, type) and "run" in vars(value)
    ]
    function = getattr(importlib.import_module(test.module), test.function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patches = [
            patch.object(each, "run", run) for each in classes if issubclass(each, pipelines.BasePipeline)
        ]
        for each in patches:
            each.start()
        try:
            function(**test.arguments)
        except (Exception, outcomes.OutcomeException):  # noqa: BLE001
            # After its pipeline a test may inspect what it produced, which does not exist here.
            if not recorded:
                return []
        finally:
            for each in patches:
                each.stop()
    found = []
    for number, pipeline in enumerate(recorded, 1):
        kind = next((_KINDS[c.__name__] for c in type(pipeline).__mro__ if c.__name__ in _KINDS), None)
        if kind is not None:
            name = test.name if len(recorded) == 1 else f"{test.name} {number}"
            found.append(ArmCase(name, kind, pipeline, test.expected))
    return found


def arm_cases(modules: Sequence[str]) -> Iterator[ArmCase]:
    """Yields the cases of modules, in order."""
    for module in modules:
        for test in arm_tests(module):
            yield from record(test)


def _import(name: str) -> Any:
    install_stubs()
    _seed()  # Some modules draw their inputs when they are imported.
    # With strict markers, pytest rejects those that the modules bring.
    own = sys.modules.get("conftest")
    sys.modules["conftest"] = conftest()
    with warnings.catch_warnings(), patch.object(pytest.mark, "_config", None):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            return importlib.import_module(name)
        finally:
            logging.disable(logging.NOTSET)
            if own is None:
                del sys.modules["conftest"]
            else:
                sys.modules["conftest"] = own


def _seed() -> None:
    random.seed(_SEED)
    torch.manual_seed(_SEED)


def _instances(group: str, module: str, function: str, value: Any) -> Iterator[ArmTest]:
    marks = list(getattr(value, "pytestmark", ()))
    if any(_skips(mark) for mark in marks):
        return
    short = f"{group}::{function.removeprefix('test_')}"
    expected = _expected(marks)
    # pytest varies the argument of the innermost decorator, which is the first mark, slowest.
    axes = [_axis(mark) for mark in marks if mark.name == "parametrize"]
    for chosen in itertools.product(*axes):
        inner = [mark for _, _, marks_of in chosen for mark in marks_of]
        if any(_skips(mark) for mark in inner):
            continue
        arguments = {name: value for values, _, _ in chosen for name, value in values.items()}
        identity = "-".join(identity for _, identity, _ in chosen)
        yield ArmTest(
            f"{short}[{identity}]" if identity else short,
            module,
            function,
            arguments,
            _expected(inner) or expected,
        )


def _axis(mark: Any) -> list[tuple[dict[str, Any], str, list[Any]]]:
    names: Any = mark.args[0] if mark.args else mark.kwargs["argnames"]
    values: Any = mark.args[1] if len(mark.args) > 1 else mark.kwargs["argvalues"]
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    identities = mark.kwargs.get("ids")
    found = []
    for number, parameter in enumerate(values):
        # A ParameterSet of pytest, or the bare value.
        marks, identity, value = [], None, parameter
        if hasattr(parameter, "marks"):
            value, marks, identity = parameter.values, list(parameter.marks), parameter.id
            value = value[0] if len(names) == 1 else value
        if identity is None and identities is not None and not callable(identities):
            identity = list(identities)[number]
        chosen = dict(zip(names, [value] if len(names) == 1 else value, strict=True))
        found.append((chosen, str(number) if identity is None else str(identity), marks))
    return found


def _skips(mark: Any) -> bool:
    if mark.name == "skipif":
        condition = mark.kwargs.get("condition", mark.args[0] if mark.args else False)
        return bool(condition)
    return bool(mark.name == "skip")


def _expected(marks: Sequence[Any]) -> str:
    """Returns the reason of an `xfail` mark, other than for a missing simulator."""
    for mark in marks:
        if mark.name == "xfail" and "Corstone" not in str(mark.kwargs.get("reason", "")):
            condition = mark.kwargs.get("condition", mark.args[0] if mark.args else True)
            if condition:
                return str(mark.kwargs.get("reason", "")) or "expected to fail"
    return ""
