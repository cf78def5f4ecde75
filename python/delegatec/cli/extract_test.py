# SPDX-License-Identifier: Apache-2.0
"""The command line that extracts blobs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive


@pytest.fixture(params=["mps", "tosa", "portable"])
def lowered(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lowers a model, and returns the backend."""
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Sigmoid())
    archive.save({"forward": export(model, (torch.rand(1, 4),))}, "a.pt2")
    flags = ["--pte=a.pte", "--debug=a.debug.json", f"--backend={request.param}"]
    assert run_verb(["lower", "--label=//:a", "--program=a.pt2", *flags]) == 0
    backend: str = request.param
    return backend


def test_blobs_texts_and_graphs(lowered: str) -> None:
    flags = ["--pte=a.pte", "--debug=a.debug.json", f"--backend={lowered}"]
    assert run_verb(["extract", *flags, "--blobs=a.zip"]) == 0
    assert run_verb(["extract", *flags, "--blobs=b.zip"]) == 0
    assert Path("a.zip").read_bytes() == Path("b.zip").read_bytes()
    with zipfile.ZipFile("a.zip") as contents:
        if lowered == "portable":
            assert contents.namelist() == []
            return
        suffix = {"mps": ".blob", "tosa": ".tosa"}[lowered]
        assert contents.namelist() == [f"forward/0{suffix}", "forward/0.txt", "forward/0.json"]
        assert contents.read(f"forward/0{suffix}") in Path("a.pte").read_bytes()
        assert "tanh" in contents.read("forward/0.txt").decode().lower()
        assert json.loads(contents.read("forward/0.json"))["title"]


def test_other_files_are_rejected(lowered: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.debug.json").write_text("[]")
    assert run_verb(["extract", "--pte=a.pte", "--debug=a.debug.json", "--blobs=a.zip"]) == 2
    assert "a.debug.json was not written by this version" in capsys.readouterr().err
    assert not Path("a.zip").exists()
