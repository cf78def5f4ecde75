# SPDX-License-Identifier: Apache-2.0
"""Tests of data and of the session it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.data import data_path
from delegatec.frontend.session import Session, current, running
from delegatec.frontend.workspace import Workspace


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("models/a.bin", "models/sub/b.bin", "shared/b.bin", "models/hidden.bin"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.bin", "models/a.bin"),
        ("models/a.bin", "models/a.bin"),
        ("./a.bin", "models/a.bin"),
        ("sub/b.bin", "models/sub/b.bin"),
        ("shared/b.bin", "shared/b.bin"),
        ("../shared/b.bin", "shared/b.bin"),
    ],
)
def test_declared_files_are_found(folder: Path, name: str, found: str) -> None:
    data = ("models/a.bin", "models/sub/b.bin", "shared/b.bin")
    with running(Session(Workspace.at(str(folder)), "models/net.py", data)):
        assert Path(data_path(name)).read_text() == found
    assert current() is None


@pytest.mark.parametrize("name", ["hidden.bin", "b.bin", "none.bin"])
def test_others_are_not_even_if_they_exist(folder: Path, name: str) -> None:
    session = Session(Workspace.at(str(folder)), "models/net.py", ("models/a.bin", "shared/b.bin"))
    with running(session), pytest.raises(DelegatecError) as caught:
        data_path(name)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "DC115"
    assert diagnostic.expected == "one of: models/a.bin, shared/b.bin"


def test_without_an_export_files_are_found_from_the_working_directory(folder: Path) -> None:
    assert Path(data_path("models/a.bin")).read_text() == "models/a.bin"
    with pytest.raises(DelegatecError, match="DC115"):
        data_path("nothing.bin")
