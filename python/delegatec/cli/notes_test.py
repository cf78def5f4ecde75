# SPDX-License-Identifier: Apache-2.0
"""Notes on stderr, in the manifest, the reasons and the report, with and without lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from delegatec.cli.main import run_verb

_MODEL = """\
import torch
import delegatec

class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 176, 3)

    def forward(self, x):
        return self.layer(x)

def build():
    return delegatec.Model(Wide(), (torch.rand(1, 3, 8, 8),))
"""
_LINE = 10


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Path:
    """Exports a model, and returns its folder."""
    monkeypatch.chdir(tmp_path)
    Path("wide.py").write_text(_MODEL)
    flags = ["--entry=wide:build", "--source=wide.py", "--import-path=.", "--samples=0"]
    assert run_verb(["export", *flags, "--program=a.pt2"]) == 0
    capfd.readouterr()
    return tmp_path


def _lower(*flags: str) -> int:
    options = ["--backend=vulkan", "--option=device=adreno-840"]
    return run_verb(["lower", "--label=//:a", "--program=a.pt2", "--pte=a.pte", *options, *flags])


def _roles() -> list[str]:
    return [each["role"] for each in json.loads(Path("a.json").read_text())["inputs"]]


def test_a_line_with_the_users_line(exported: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _lower("--manifest=a.json", "--report=a.html", "--reasons=a.txt") == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    start = f"wide.py:{_LINE}: note [avoided-fault]: forward: for adreno-840, computes 200 output channels"
    assert lines[0].startswith(start)
    (note,) = json.loads(Path("a.json").read_text())["methods"][0]["notes"]
    assert note["name"] == "avoided-fault"
    assert (note["location"]["file"], note["location"]["line"]) == ("wide.py", _LINE)
    assert f"note [avoided-fault]: {note['message']}" in Path("a.txt").read_text()
    assert "computes 200 output channels" in Path("a.html").read_text()


def test_lines_that_are_no_inputs(exported: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ("--sources=a.sources.json", "--unused-inputs=a.unused", "--manifest=a.json")
    assert _lower(*flags) == 0
    assert capfd.readouterr().err.startswith(f"wide.py:{_LINE}: note [avoided-fault]")
    assert "wide.py" not in Path("a.json").read_text()
    flags = ("--sources=a.sources.json", "--manifest=a.json", "--located-manifest=b.json", "--reasons=b.txt")
    assert run_verb(["locate", *flags]) == 0
    (note,) = json.loads(Path("b.json").read_text())["methods"][0]["notes"]
    assert note["location"]["line"] == _LINE
    assert f"at wide.py:{_LINE} in forward" in Path("b.txt").read_text()


@pytest.mark.parametrize("flags", [("--silence-note=avoided-fault",), ("--option=device=",)])
def test_silence(exported: Path, flags: Any, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["lower", "--program=a.pt2", "--pte=a.pte", "--backend=vulkan", "--manifest=a.json"]
    device = [] if "--option=device=" in flags else ["--option=device=adreno-840"]
    assert run_verb([*command, *device, *flags]) == 0
    assert capfd.readouterr().err == ""
    assert json.loads(Path("a.json").read_text())["methods"][0]["notes"] == []


def test_the_manifest_has_the_digest_of_the_file_of_a_device(exported: Path) -> None:
    Path("device.json").write_text(json.dumps({"name": "ours", "extends": "adreno-840"}))
    command = ["lower", "--program=a.pt2", "--pte=a.pte", "--backend=vulkan", "--manifest=a.json"]
    assert run_verb([*command, "--option=device=device.json"]) == 0
    assert [each["role"] for each in json.loads(Path("a.json").read_text())["inputs"]] == [
        "program",
        "device",
    ]
    assert _lower("--manifest=a.json") == 0
    assert _roles() == ["program"]


def test_notes_on_samples_come_with_the_model(exported: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dynamic = '{"x": {2: torch.export.Dim("h", min=4, max=16)}}'
    text = _MODEL.replace("torch.rand(1, 3, 8, 8),)", f"torch.rand(1, 3, 8, 8),), dynamic_shapes={dynamic}")
    Path("tall.py").write_text(text + "\ndef samples():\n    return [(torch.rand(1, 3, 9, 8),)] * 2\n")
    flags = ["--source=tall.py", "--import-path=.", "--samples=0"]
    assert run_verb(["export", "--entry=tall:build", *flags, "--program=b.pt2"]) == 0
    quantize = ["--program=b.pt2", "--entry=tall:samples", "--import-path=.", "--source=tall.py"]
    assert run_verb(["quantize", *quantize, "--pt2=c.pt2"]) == 0
    capfd.readouterr()
    assert run_verb(["lower", "--program=c.pt2", "--pte=c.pte", "--label=//:c"]) == 0
    assert capfd.readouterr().err.startswith(
        "//:c: note [equal-sizes]: forward: dimension 2 of the input x is dynamic, and 9 in all 2 samples; "
    )
    assert run_verb(["lower", "--program=c.pt2", "--pte=c.pte", "--silence-note=equal-sizes"]) == 0
    assert capfd.readouterr().err == ""
