# SPDX-License-Identifier: Apache-2.0
"""The registry, plug-ins by "module:attribute", and options."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from delegatec.delegation import BackendRegistry
from delegatec.delegation.testing import EagerBackend
from delegatec.diagnostics import DelegatecError


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("a_plugin")
    monkeypatch.setitem(sys.modules, "a_plugin", module)
    return module


class Members:
    """Has all members of a backend, but not its base class."""

    id, name, options = "Members", "members", EagerBackend.options
    compile_specs, preserved_operators = EagerBackend.compile_specs, EagerBackend.preserved_operators
    partitioner, preprocess = EagerBackend.partitioner, EagerBackend.preprocess
    reference = EagerBackend.reference


def code_of(error: pytest.ExceptionInfo[DelegatecError]) -> str:
    return error.value.diagnostics[0].code


def test_names_and_ids_are_unique() -> None:
    registry = BackendRegistry([EagerBackend()])
    with pytest.raises(ValueError, match="named 'eager'"):
        registry.register(EagerBackend("Other"))
    other = EagerBackend()
    other.name = "other"
    with pytest.raises(ValueError, match="id 'EagerBackend'"):
        registry.register(other)


def test_an_export_of_a_build_has_no_backends() -> None:
    with pytest.raises(DelegatecError) as error:
        BackendRegistry([]).by_id("MPSBackend")
    assert code_of(error) == "DC401"
    assert "such as mps_program" in error.value.diagnostics[0].help


def test_lookup() -> None:
    backend = EagerBackend()
    registry = BackendRegistry([backend])
    assert registry.resolve("eager") is backend
    assert registry.by_id("EagerBackend") is backend
    assert list(registry) == [backend]
    with pytest.raises(DelegatecError, match=r"no backend is named 'nope'[\s\S]*expected: eager") as error:
        registry.resolve("nope")
    assert code_of(error) == "DC401"


def test_plugin_is_registered_once(plugin: types.ModuleType) -> None:
    plugin.backend = EagerBackend()  # type: ignore[attr-defined]
    registry = BackendRegistry()
    assert registry.resolve("a_plugin:backend") is plugin.backend
    assert registry.resolve("a_plugin:backend") is registry.by_id("EagerBackend")


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("no_such_module_here:backend", "no module named 'no_such_module_here'"),
        ("a_plugin:nothing", "has no attribute 'nothing'"),
        ("a_plugin:Class", "is a class"),
        ("a_plugin:number", "'number' is a int, which is not a backend"),
        ("a_plugin:members", "'members' is a Members, which is not a backend"),
    ],
)
def test_bad_plugins(plugin: types.ModuleType, selector: str, message: str) -> None:
    plugin.Class = EagerBackend  # type: ignore[attr-defined]
    plugin.number = 3  # type: ignore[attr-defined]
    plugin.members = Members()  # type: ignore[attr-defined]
    with pytest.raises(DelegatecError, match=message) as error:
        BackendRegistry().resolve(selector)
    assert code_of(error) == "DC403"


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("import torch\nraise RuntimeError('no licence')\n", "raises RuntimeError: no licence", 2),
        ("import torch\n\nx = = 1\n", "raises SyntaxError", 3),
        ("raise SystemExit(4)\n", "raises SystemExit: 4", 1),
        ("import not_among_the_dependencies\n", "no module named 'not_among_the_dependencies'", 0),
    ],
)
def test_a_plugin_that_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str, line: int
) -> None:
    (tmp_path / "raising_plugin.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DelegatecError, match=message) as error:
        BackendRegistry().resolve("raising_plugin:backend")
    assert code_of(error) == "DC403"
    location = error.value.diagnostics[0].location
    assert str(location) == (f"raising_plugin.py:{line}" if line else "None")


@pytest.mark.parametrize("selector", [":backend", ".a_plugin:backend"])
def test_a_plugin_without_a_module(selector: str) -> None:
    with pytest.raises(DelegatecError, match="cannot be loaded") as error:
        BackendRegistry().resolve(selector)
    assert code_of(error) == "DC403"


def test_a_plugin_with_the_name_of_another(plugin: types.ModuleType) -> None:
    plugin.backend = EagerBackend()  # type: ignore[attr-defined]
    registry = BackendRegistry([EagerBackend()])
    with pytest.raises(DelegatecError, match="named 'eager' is already registered") as error:
        registry.resolve("a_plugin:backend")
    assert code_of(error) == "DC403"
