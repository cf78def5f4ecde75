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


@pytest.mark.parametrize("repository", ["team_models", "team_models~", "_main~_repo_rules~team_models"])
def test_a_file_of_another_repository_is_found_from_its_root(folder: Path, repository: str) -> None:
    declared = f"external/{repository}/zoo/scale.txt"
    path = folder / declared
    path.parent.mkdir(parents=True)
    path.write_text("1.5")
    with running(Session(Workspace.at(str(folder)), "models/net.py", (declared,))):
        assert Path(data_path("zoo/scale.txt")).read_text() == "1.5"
        assert data_path(declared) == declared
        with pytest.raises(DelegatecError) as caught:
            data_path("scale.txt")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.expected == "one of: zoo/scale.txt"
    assert 'delegatec.data_path("zoo/scale.txt")' in diagnostic.help


def test_a_file_of_this_repository_comes_before_one_of_another(folder: Path) -> None:
    data = ("external/team/shared/b.bin", "shared/b.bin")
    with running(Session(Workspace.at(str(folder)), "models/net.py", data)):
        assert data_path("shared/b.bin") == "shared/b.bin"


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
