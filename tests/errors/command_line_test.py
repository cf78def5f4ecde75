# SPDX-License-Identifier: Apache-2.0
"""The command line: exit codes, parameter files, and bugs in the compiler."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
from workspace import Workspace, run_process

from delegatec.cli import export as export_verb


def test_help(workspace: Workspace) -> None:
    result = workspace.run("--help")
    assert result.code == 0
    assert all(verb in result.text for verb in ("export", "lower", "verify", "inspect"))


@pytest.mark.parametrize("form", ["@{}", "--flagfile={}"])
def test_parameter_file(workspace: Workspace, form: str) -> None:
    Path("params").write_text("--entry=good:build\n--source=pkg/good.py\n--program=good.pt2\n")
    assert workspace.run("export", form.format("params")).code == 0
    assert "good.pt2" in workspace.files()


def test_bug(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(arguments: argparse.Namespace) -> int:
        Path(arguments.program).write_text("half")
        raise KeyError("ours")

    Path("good.pt2").write_text("old")
    before = workspace.files()
    monkeypatch.setattr(export_verb, "run", run)
    result = workspace.export("good")
    assert result.code == 70
    assert "Traceback" in result.text
    assert "//pkg:good: this is a bug in delegatec" in result.text
    assert workspace.files() == before and Path("good.pt2").read_text() == "old"


@pytest.mark.parametrize("verb", ["export", "lower", "verify"])
def test_other_torch(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    files = ("--program=good.pt2", "--entry=good:build", "--source=pkg/good.py")
    result = workspace.run(verb, *(files if verb == "export" else (files[0], "--pte=good.pte")))
    assert result.code == 1
    assert "error DC003: unsupported version of torch: 2.9.1+cpu\n  expected: torch 2.13\n" in result.text


@pytest.mark.parametrize("library", ["torch", "delegatec_schemas", "flatbuffers.builder"])
def test_missing_library(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    def run(_: object) -> int:
        raise ModuleNotFoundError(f"No module named {library!r}", name=library)

    monkeypatch.setattr(export_verb, "run", run)
    result = workspace.export("good")
    assert result.code == 1
    assert f"//pkg:good: error DC006: no module named '{library}'" in result.text
    assert "Traceback" not in result.text


def test_process(workspace: Workspace) -> None:
    command = ("export", "--label=//pkg:not_a_model", "--entry=not_a_model:build")
    result = run_process(*command, "--source=pkg/not_a_model.py", "--program=a.pt2")
    assert result.code == 1
    assert result.text.startswith("//pkg:not_a_model: error DC107: ")
    assert "a.pt2" not in workspace.files()
