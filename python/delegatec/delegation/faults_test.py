# SPDX-License-Identifier: Apache-2.0
"""Exceptions and invalid results of a plug-in are reported as its fault, with its line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from delegatec.delegation import BackendRegistry, to_backend
from delegatec.delegation.testing import NET_ARGS, SPECS, EagerBackend, Net, SupportsAllBut, edge
from delegatec.diagnostics import DelegatecError, Diagnostic

SOURCE = """
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.delegation.grouping import convex_groups


class Partitioner(SupportsAllBut):
    def partition(self, program):
        return convex_groups([[0]], [])


class Untagged(SupportsAllBut):
    def partition(self, program):
        return ["sin"]


class Raising(EagerBackend):
    def preprocess(self, view, compile_specs):
        return {}[view.nodes[0].name]


class Text(EagerBackend):
    def preprocess(self, view, compile_specs):
        result = super().preprocess(view, compile_specs)
        result.blob = ["text"]
        return result


class Nothing(EagerBackend):
    def preprocess(self, view, compile_specs):
        pass
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "faulty_plugin.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "faulty_plugin", raising=False)
    return importlib.import_module("faulty_plugin")


def rejected(backend: EagerBackend, partitioner: SupportsAllBut) -> tuple[Diagnostic, ...]:
    with pytest.raises(DelegatecError) as error:
        to_backend(edge(Net(), NET_ARGS), partitioner, registry=BackendRegistry([backend]))
    return error.value.diagnostics


def test_a_backend_that_raises(plugin: ModuleType) -> None:
    (problem,) = rejected(plugin.Raising(), SupportsAllBut())
    assert problem.code == "DC410"
    assert problem.message.startswith("preprocess of backend EagerBackend raises KeyError: ")
    location = problem.location
    assert location is not None
    assert (str(location), location.function) == ("faulty_plugin.py:18", "preprocess")
    assert location.text == "return {}[view.nodes[0].name]"


def test_a_partitioner_that_raises_in_our_code(plugin: ModuleType) -> None:
    (problem,) = rejected(EagerBackend(), plugin.Partitioner())
    assert problem.code == "DC410"
    assert problem.message == "partitioner Partitioner raises IndexError: list index out of range"
    assert str(problem.location) == "faulty_plugin.py:8"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        (
            "Text",
            "DC411",
            "preprocess of backend EagerBackend returned a PreprocessResult whose blob is a list of str",
        ),
        ("Nothing", "DC411", "preprocess of backend EagerBackend returned None"),
    ],
)
def test_a_backend_that_returns_something_else(
    plugin: ModuleType, name: str, code: str, message: str
) -> None:
    (problem,) = rejected(getattr(plugin, name)(), SupportsAllBut())
    assert (problem.code, problem.message) == (code, message)


def test_a_partitioner_that_returns_something_else(plugin: ModuleType) -> None:
    (problem,) = rejected(EagerBackend(), plugin.Untagged())
    assert (problem.code, problem.message) == ("DC404", "partitioner Untagged: partition() returned a list")


def test_a_built_in_backend_that_raises_is_a_bug_of_ours() -> None:
    class Broken(EagerBackend):
        __module__ = "delegatec.backends.broken"

        def preprocess(self, view: object, compile_specs: object) -> None:  # type: ignore[override]
            raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        to_backend("EagerBackend", edge(Net(), NET_ARGS), SPECS, registry=BackendRegistry([Broken()]))
