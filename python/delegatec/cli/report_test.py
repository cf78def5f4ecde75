# SPDX-License-Identifier: Apache-2.0
"""The command line of manifests and reports that are written after lowering."""

from __future__ import annotations

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
    flags = ["--pte=a.pte", "--debug=a.debug.json", "--description=a.description.json"]
    whole = ["--manifest=a.json", "--report=a.html"]
    assert (
        run_verb(["lower", "--label=//:a", "--program=a.pt2", f"--backend={request.param}", *flags, *whole])
        == 0
    )
    return ["report", *flags, f"--backend={request.param}", "--manifest=b.json", "--report=b.html"]


def test_a_later_report_is_the_same(lowered: list[str]) -> None:
    assert run_verb(lowered) == 0
    for kind in ("json", "html"):
        assert Path(f"b.{kind}").read_bytes() == Path(f"a.{kind}").read_bytes()
    assert Path("a.description.json").read_bytes() != Path("a.json").read_bytes()


@pytest.mark.parametrize("file", ["a.description.json", "a.debug.json"])
@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff"])
def test_other_files_are_rejected(
    file: str, text: str, lowered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(text, encoding="latin-1")
    assert run_verb(lowered) == 2
    error = capsys.readouterr().err
    assert f"{file} was not written by this version of `delegatec lower`" in error
    assert not Path("b.json").exists()


def test_an_output_is_requested(lowered: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_verb(lowered[:-2]) == 2
    assert "expected --manifest or --report" in capsys.readouterr().err
