# SPDX-License-Identifier: Apache-2.0
"""The copy of an interpreter runs independently, for static and shared builds of the host's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "copy_interpreter", "third_party/python/copy_interpreter.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_copy_runs_by_itself(tmp_path: Path) -> None:
    script = _script()
    script.copy_standard_library(tmp_path)
    script.copy_executable(tmp_path)
    code = "import ctypes, hashlib, json, sys; print(sys.prefix)"
    run = subprocess.run(
        [tmp_path / "bin" / "python3", "-I", "-B", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(tmp_path)


def test_a_library_that_the_executable_is_not_linked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's python3.11 without libpython3.11: configured as shared, and linked statically."""
    values = {"Py_ENABLE_SHARED": 1, "LIBDIR": "/nowhere", "INSTSONAME": "libpython3.11.so.that.is.not.there"}
    monkeypatch.setattr(sysconfig, "get_config_var", values.get)
    (tmp_path / "lib").mkdir()
    _script().copy_executable(tmp_path)
    assert list((tmp_path / "lib").iterdir()) == []
    assert (tmp_path / "bin" / "python3").stat().st_size == Path(sys.executable).resolve().stat().st_size
