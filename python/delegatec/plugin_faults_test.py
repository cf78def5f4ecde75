# SPDX-License-Identifier: Apache-2.0
"""The diagnostic names the part of a plug-in that raises or returns a wrong result, with its line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.delegation import BackendRegistry, PartitionRules, plugins, to_backend
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge import to_edge
from delegatec.edge.testing import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.report.blob_graphs import blob_graphs
from delegatec.report.debug_map import debug_map
from delegatec.verify.interpreter import Interpreter

# Each member calls `act` with its name; of the member at fault, it raises, or returns something else.
SOURCE = """
from delegatec.delegation import BlobGraph, ComputedBytes, NamedData, PreprocessResult, ReferenceExecutor
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
import torch

FAULT, RESULT = "", None


def act(member, right):
    if FAULT != member:
        return right
    if RESULT is not None:
        return RESULT
    return 1 // 0


class Bytes(ComputedBytes):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return act("bytes", b"1")


class Partitioner(SupportsAllBut):
    def partition(self, program):
        return act("partition", super().partition(program))

    def is_worthwhile(self, nodes):
        return act("is_worthwhile", True)


class Executor(ReferenceExecutor):
    @property
    def num_inputs(self):
        return act("num_inputs", 1)

    def load_named_data(self, named_data):
        act("load_named_data", None)

    def __call__(self, inputs):
        return act("executor", [inputs[0].exp().sin()])


def edit(program):
    return act("edit", False)


class Plugin(EagerBackend):
    name, id = "plugin", "PluginBackend"

    @property
    def options(self):
        return act("options", {})

    def __init__(self):
        super().__init__("PluginBackend")

    def compile_specs(self, options):
        return act("compile_specs", super().compile_specs(options))

    def preserved_operators(self):
        return act("preserved_operators", super().preserved_operators())

    def partitioner(self, compile_specs):
        return act("partitioner", Partitioner(torch.ops.aten.cos.default, backend_id=self.id))

    def passes(self, view, compile_specs):
        return act("passes", [edit])

    def preprocess(self, view, compile_specs):
        return act("preprocess", PreprocessResult([Bytes()], named_data={"x": NamedData(Bytes())}))

    def reference(self, blob, compile_specs):
        return act("reference", Executor())

    def describe(self, blob):
        return act("describe", "a text")


class Drawn(Plugin):
    def graph(self, blob):
        return act("graph", BlobGraph("", (), {}, (), (), ()))
"""
LINES = SOURCE.splitlines()
OF_BACKEND = {
    "bytes": "Bytes in a blob",
    "edit": "a pass of backend PluginBackend",
    "executor": "the reference executor of backend PluginBackend",
    "is_worthwhile": "partitioner Partitioner",
    "load_named_data": "reference of backend PluginBackend",
    "num_inputs": "reference of backend PluginBackend",
    "partition": "partitioner Partitioner",
}
MEMBERS = [line.split('"')[1] for line in LINES if ' act("' in line]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "the_plugin.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "the_plugin", raising=False)
    return importlib.import_module("the_plugin")


def model(x: torch.Tensor) -> torch.Tensor:
    return x.exp().sin().cos()


def run_everything(backend: Any) -> None:
    """The way from the command line's name of a backend to a verified file and a report."""
    registry = builtin_backends()
    sys.modules["the_plugin"].BACKEND = backend  # type: ignore[attr-defined]
    found = registry.resolve("the_plugin:BACKEND")
    # Rules call `is_worthwhile` of the partitioner.
    rules = PartitionRules(block_operators=("aten.exp",))
    x = torch.rand(3)
    lower({"main": export(model, x)}, "plugin", rules=rules, registry=registry)
    lowered = lower({"main": export(model, x)}, "plugin", registry=registry)
    with open("program.pte", "wb") as file:
        write_program(lowered.emitted, file)
    program = read_program("program.pte")
    blob_graphs("program.pte", debug_map(lowered.sources, lowered.emitted), registry)
    assert plugins.description(found, program.method("main").delegates[0].blob)
    named = program.named_bytes()
    (result,) = Interpreter(program.method("main"), registry, named_data=named).run([x])
    torch.testing.assert_close(result, model(x))
    (delegate,) = lowered.reports["main"].delegates
    delegate.module(x)


def fault_of(backend: Any, work: Callable[[Any], object] = run_everything) -> Diagnostic:
    with pytest.raises(DelegatecError) as caught:
        work(backend)
    problems = {(problem.code, problem.message): problem for problem in caught.value.diagnostics}
    (problem,) = problems.values()
    return problem


def test_a_plug_in_without_a_fault(plugin: ModuleType) -> None:
    run_everything(plugin.Plugin())
    run_everything(plugin.Drawn())


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_that_raises(plugin: ModuleType, member: str) -> None:
    plugin.FAULT = member  # type: ignore[attr-defined]
    problem = fault_of(plugin.Drawn() if member == "graph" else plugin.Plugin())
    assert problem.code == "DC410"
    what = OF_BACKEND.get(member, f"{member} of backend PluginBackend")
    assert f"{what} raises ZeroDivisionError: integer division or modulo by zero" in problem.message
    assert str(problem.location) == f"the_plugin.py:{LINES.index('    return 1 // 0') + 1}"


@pytest.mark.parametrize(
    ("member", "result", "found"),
    [
        ("options", {"a": "b"}, "a dict of str"),
        ("compile_specs", ["spec"], "a list of str"),
        ("preserved_operators", ["aten.silu"], "a list of str"),
        ("preserved_operators", torch.ops.aten.silu.default, "a OpOverload"),
        ("partitioner", "name", "a str"),
        ("partitioner", 5, "a int"),
        ("passes", [5], "a list of int"),
        ("preprocess", b"blob", "bytes"),
        ("bytes", b"12", "2 bytes"),
        ("reference", "executor", "a str"),
        ("reference", torch.relu, "a builtin_function_or_method"),
        ("executor", torch.ones(1), "a Tensor"),
        ("executor", [1], "a list of int"),
        ("describe", 5, "a int"),
        ("graph", "text", "a str"),
    ],
)
def test_a_member_that_returns_something_else(
    plugin: ModuleType, member: str, result: object, found: str
) -> None:
    plugin.FAULT, plugin.RESULT = member, result  # type: ignore[attr-defined]
    problem = fault_of(plugin.Drawn() if member == "graph" else plugin.Plugin())
    assert problem.code == "DC411"
    assert OF_BACKEND.get(member, f"{member} of backend PluginBackend") in problem.message
    assert problem.message.endswith(f" returned {found}")


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("blob", b"bytes", "bytes"),
        ("debug_handle_map", [], "a list"),
        ("debug_handle_map", {0: 1}, "a dict of int"),
        ("named_data", {"x": b"1"}, "a dict of bytes"),
        ("constant_names", None, "None"),
        ("inline", "yes", "a str"),
    ],
)
def test_a_preprocess_that_returns_a_wrong_field(
    plugin: ModuleType, field: str, value: object, found: str
) -> None:
    result = plugin.PreprocessResult([b""])
    setattr(result, field, value)
    plugin.FAULT, plugin.RESULT = "preprocess", result  # type: ignore[attr-defined]
    problem = fault_of(plugin.Plugin())
    assert problem.code == "DC411"
    assert problem.message.endswith(f" returned a PreprocessResult whose {field} is {found}")


def test_a_whole_program(plugin: ModuleType) -> None:
    plugin.FAULT = "partitioner"  # type: ignore[attr-defined]
    backend = plugin.Plugin()

    def work(_: object) -> None:
        to_backend(
            "PluginBackend", to_edge(export(model, torch.ones(1))), registry=BackendRegistry([backend])
        )

    assert fault_of(backend, work).message.startswith("partitioner of backend PluginBackend raises Zero")


@pytest.mark.parametrize(("name", "value"), [("name", ""), ("id", None), ("id", 5)])
def test_a_name_that_is_not_a_string(plugin: ModuleType, name: str, value: object) -> None:
    backend = plugin.Plugin()
    setattr(backend, name, value)
    problem = fault_of(backend)
    assert (problem.code, f"its {name} is {value!r}" in problem.message) == ("DC403", True)
