# SPDX-License-Identifier: Apache-2.0
"""The command line: exit codes, parameter files, and bugs in the compiler."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
from workspace import Workspace, run_process

from delegatec.cli import export as export_verb


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "VERB"),
        (("compile",), "'compile'"),
        (("export",), "--entry"),
        (("export", "--entree=x"), "--entry"),
        (("lower", "--program=a.pt2", "--pte=a.pte", "--pt=x"), "--pt=x"),
        (("lower", "--program=a.pt2", "--pte=a.pte", "--option=fp16"), "NAME=VALUE"),
        (("lower", "--program=a.pt2", "--pte=a.pte", "--method-backend=mps"), "METHOD=BACKEND"),
        (("lower", "--program=a.pt2", "--pte=a.pte", "--minimum-nodes=x"), "--minimum-nodes"),
        (("@missing.params",), "missing.params"),
        (("export", "--seed=x"), "--seed"),
        (
            ("export", "--entry=good:build", "--source=good.py", "--program=a.pt2", f"--seed={2**64}"),
            f"--seed {2**64}: expected",
        ),
        (
            ("verify", "--program=good.pt2", "--pte=a.pte", "--atol=nan"),
            "--atol: nan: expected a finite number",
        ),
        (
            ("verify", "--program=good.pt2", "--pte=a.pte", "--rtol=inf"),
            "--rtol: inf: expected a finite number",
        ),
        (("verify", "--program=good.pt2", "--pte=a.pte", "--atol=-1"), "at least 0"),
        (("verify", "--program=good.pt2", "--pte=a.pte", "--atol=x"), "invalid tolerance value: 'x'"),
        (
            ("verify", "--program=good.pt2", "--pte=a.pte", "--seeds=-1"),
            "--seeds: -1: expected an integer of at least 0",
        ),
    ],
)
def test_wrong_command_line(workspace: Workspace, arguments: tuple[str, ...], words: str) -> None:
    workspace.export("good")
    result = workspace.run(*arguments)
    assert result.code == 2
    assert "error DC001" in result.text
    assert words in result.text
    assert "Traceback" not in result.text


def test_help(workspace: Workspace) -> None:
    result = workspace.run("--help")
    assert result.code == 0
    assert all(verb in result.text for verb in ("export", "lower", "verify", "inspect"))


def test_missing_input(workspace: Workspace) -> None:
    result = workspace.lower("good")
    assert result.code == 1
    assert "error DC002: good.pt2: No such file or directory" in result.text


def test_unwritable_output(workspace: Workspace) -> None:
    result = workspace.export("good", "--program=no_such_folder/good.pt2")
    assert result.code == 1
    assert "error DC004: --program=no_such_folder/good.pt2: its directory does not exist" in result.text


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
