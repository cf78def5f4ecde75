# SPDX-License-Identifier: Apache-2.0
"""The generated workspace, and the table of its figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from analysis import Server, table
from monorepo import Monorepo


def test_workspace_has_every_model(tmp_path: Path) -> None:
    monorepo = Monorepo(models=7, per_package=3, backends=("portable", "mps"))
    monorepo.write(tmp_path / "workspace", tmp_path)
    builds = sorted(tmp_path.glob("workspace/models/*/BUILD.bazel"))
    text = "".join(path.read_text() for path in builds)
    assert len(builds) == monorepo.packages == 3
    assert text.count("exported_program(") == text.count('backends = ["portable", "mps"]') == 7
    assert text.count("program_test(") == 14
    # Each `delegate_programs` declares a program for each backend.
    assert monorepo.targets == 7 + 14 + 14
    assert f'path = "{tmp_path.resolve()}"' in (tmp_path / "workspace" / "WORKSPACE").read_text()


def test_models_differ(tmp_path: Path) -> None:
    """Equal ones would be one file in a cache."""
    Monorepo(models=20, per_package=4).write(tmp_path / "workspace", tmp_path)
    models = [path.read_text() for path in tmp_path.glob("workspace/models/*/m*.py")]
    assert len(models) == len(set(models)) == 20


def test_workspace_is_not_overwritten(tmp_path: Path) -> None:
    Monorepo(models=1).write(tmp_path / "workspace", tmp_path)
    with pytest.raises(FileExistsError):
        Monorepo(models=1).write(tmp_path / "workspace", tmp_path)


def test_table_has_the_least_of_the_rounds_and_a_ratio(tmp_path: Path) -> None:
    servers = [
        Server(tmp_path, tmp_path, (), (), {"analyze": [9.0, 8.0, 8.5], "heap, MB": [120.0, 121.0, 119.6]}),
        Server(tmp_path, tmp_path, (), (), {"analyze": [4.5, 4.0, 7.0], "heap, MB": [60.0, 60.0, 60.0]}),
    ]
    lines = table(servers, ["before", "after"]).splitlines()
    assert lines[0] == "| step | before | after | ratio |"
    assert lines[2] == "| analyze | 8.00 s | 4.00 s | 2.00 |"
    assert re.fullmatch(r"\| heap, MB \| 120 \| 60 \| 1\.99 \|", lines[3])
    assert table(servers[:1], ["alone"]).splitlines()[2] == "| analyze | 8.00 s |"
