# SPDX-License-Identifier: Apache-2.0
"""The command line of reports that are written after lowering."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive


@pytest.fixture(params=["mps", "portable"])
def lowered(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lowers a model with all outputs, and returns the arguments of `report`."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    archive.save({"forward": export(model, (torch.rand(1, 4),))}, "a.pt2")
    flags = ["--pte=a.pte", "--debug=a.debug.json", "--manifest=a.json", f"--backend={request.param}"]
    assert run_verb(["lower", "--label=//:a", "--program=a.pt2", "--report=a.html", *flags]) == 0
    return ["report", *flags, "--report=b.html"]


def test_a_later_report_is_the_same(lowered: list[str]) -> None:
    assert run_verb(lowered) == 0
    assert Path("b.html").read_bytes() == Path("a.html").read_bytes()


def test_an_explanation(
    lowered: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = lowered[-2].partition("=")[2]
    assert run_verb(["explain", "a.json"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("//:a, method forward\n  ")
    assert ("No backend was requested" in text) == (backend == "portable")
    assert ("run in 1 delegate of MPSBackend." in text) == (backend == "mps")
    # like the user, from elsewhere
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(Path.cwd()))
    monkeypatch.chdir("/")
    assert run_verb(["explain", "a.json", "--color=always"]) == 0
    colored = capsys.readouterr().out
    assert "\x1b[1m//:a, method forward\x1b[0m" in colored and re.sub(r"\x1b\[\d+m", "", colored) == text


@pytest.mark.parametrize("file", ["a.json", "a.debug.json"])
@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff"])
def test_other_files_are_rejected(
    file: str, text: str, lowered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(text, encoding="latin-1")
    assert run_verb(lowered) == 2
    error = capsys.readouterr().err
    assert f"{file} was not written by this version of `delegatec lower`" in error
    assert not Path("b.html").exists()


@pytest.mark.parametrize("file", ["a.json", "a.debug.json"])
def test_half_a_character_is_no_text(
    file: str, lowered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    document = Path(file).read_text()
    Path(file).write_text(document.replace('"forward"', '"forward\\ud800"'))
    assert run_verb(lowered) == 2
    assert "has a text that is not valid Unicode" in capsys.readouterr().err
    assert not Path("b.html").exists()


def test_files_of_another_program_are_rejected(
    lowered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    other = export(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Sigmoid()), (torch.rand(1, 4),))
    archive.save({"forward": other}, "c.pt2")
    command = ["--label=//:c", "--program=c.pt2", *(flag.replace("a.", "c.") for flag in lowered[1:-1])]
    assert run_verb(["lower", *command]) == 0
    for wrong, file in (("--debug", "c.debug.json"), ("--manifest", "c.json")):
        flags = [f"{wrong}={file}" if flag.startswith(f"{wrong}=") else flag for flag in lowered]
        assert run_verb(flags) == 2
        assert f"{wrong} is of another program" in capsys.readouterr().err
    assert not Path("b.html").exists()


def test_a_budget_of_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text("[]")
    assert run_verb(["budget", f"--manifest={path}", "--limit=cycles=1"]) == 2
    assert "a.json was not written by this version of `delegatec lower`" in capsys.readouterr().err
