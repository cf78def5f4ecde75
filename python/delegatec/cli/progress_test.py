# SPDX-License-Identifier: Apache-2.0
"""Progress is shown on a terminal, and nowhere else."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import pytest

from delegatec.cli import progress
from delegatec.cli.main import run_verb
from delegatec.cli.progress import Progress, stages

_MODEL = """\
import torch
import delegatec

def build():
    print("a line of the model")
    return delegatec.Model(torch.nn.Linear(4, 2), (torch.rand(1, 4),))
"""
_SAMPLES = """\
import torch

def build():
    return [torch.rand(1, 4) for _ in range(2)]
"""
_OUTPUTS = ("net.pt2", "net.sources.json", "net.pte", "net.json", "net.txt")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _colorful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def shown(terminal: io.StringIO) -> list[str]:
    """Returns the lines that were shown, without times, each once."""
    lines = [re.sub(r", \d+ s$", "", line) for line in terminal.getvalue().split("\r\x1b[K")[1:]]
    return [line for line, before in zip(lines, ["", *lines], strict=False) if line != before]


def test_progress_is_for_terminals() -> None:
    terminal, pipe = _Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        line = Progress(stream)
        line.show("value 1")
        line.show("")
    assert terminal.getvalue() == "\r\x1b[Kvalue 1\r\x1b[K" and pipe.getvalue() == ""


def test_stages_are_for_terminals() -> None:
    terminal, pipe, quiet = _Terminal(), io.StringIO(), _Terminal()
    for stream in (terminal, pipe, quiet):
        with stages(stream, is_quiet=stream is quiet) as announce:
            announce("reading")
            announce("writing")
    assert terminal.getvalue() == "\r\x1b[Kreading, 0 s\r\x1b[Kwriting, 0 s\r\x1b[K"
    assert pipe.getvalue() == quiet.getvalue() == ""


def test_the_time_of_a_stage_advances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_PER_UPDATE", 0.01)
    terminal = _Terminal()
    with stages(terminal) as announce:
        announce("tracing")
        deadline = time.monotonic() + 60
        while "tracing, 1 s" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "tracing, 1 s" in terminal.getvalue()


def test_the_line_is_removed_after_an_error() -> None:
    terminal = _Terminal()
    with pytest.raises(ValueError, match="wrong"), stages(terminal) as announce:
        announce("tracing")
        raise ValueError("wrong")
    length = len(terminal.getvalue())
    assert terminal.getvalue().endswith("\r\x1b[K")
    announce("too late")
    assert len(terminal.getvalue()) == length


def test_stages_of_an_export_and_a_lowering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.py").write_text(_MODEL)
    monkeypatch.chdir(tmp_path)
    written = []
    terminal, pipe = _Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stderr", stream)
        assert run_verb(["export", "--entry=net:build", "--source=net.py", "--program=net.pt2"]) == 0
        outputs = ["--pte=net.pte", "--manifest=net.json", "--ir=net.txt"]
        assert run_verb(["lower", "--program=net.pt2", "--backend=mps", *outputs]) == 0
        written.append([Path(name).read_bytes() for name in _OUTPUTS])
        sys.modules.pop("net", None)
    stages_of_all = shown(terminal)
    ends = [index for index, line in enumerate(stages_of_all) if line == ""]
    assert stages_of_all[: ends[0]] == [
        "importing torch",
        "running net:build",
        "tracing forward",
        "comparing with eager mode",
        "writing",
    ]
    lowering = stages_of_all[ends[0] + 1 : ends[1]]
    assert lowering[:2] == ["importing torch", "reading net.pt2"] and lowering[-1] == "writing"
    assert "lowering forward, after legalize" in lowering
    assert pipe.getvalue() == ""
    assert written[0] == written[1], "progress is in an output"
    assert capsys.readouterr().out == "a line of the model\n" * 2


def test_stages_of_a_quantization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(_MODEL)
    (tmp_path / "samples.py").write_text(_SAMPLES)
    monkeypatch.chdir(tmp_path)
    assert run_verb(["export", "--entry=net:build", "--source=net.py", "--program=net.pt2"]) == 0
    written = []
    terminal, pipe = _Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stderr", stream)
        flags = ["--entry=samples:build", "--source=samples.py", "--pt2=int8.pt2"]
        assert run_verb(["quantize", "--program=net.pt2", *flags]) == 0
        written.append([Path(name).read_bytes() for name in ("int8.pt2", "int8.sources.json")])
        sys.modules.pop("samples", None)
    assert shown(terminal) == [
        "importing torch",
        "reading net.pt2",
        "reading samples",
        "importing torchao",
        "decomposing forward",
        "observing forward, sample 1 of 2",
        "observing forward, sample 2 of 2",
        "converting forward",
        "tracing forward",
        "comparing with the model in float",
        "writing",
        "",
    ]
    assert pipe.getvalue() == ""
    assert written[0] == written[1], "progress is in an output"


def test_printed_programs_are_not_mixed_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.py").write_text(_MODEL)
    monkeypatch.chdir(tmp_path)
    assert run_verb(["export", "--entry=net:build", "--source=net.py", "--program=net.pt2"]) == 0
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run_verb(["lower", "--program=net.pt2", "--print-after=legalize"]) == 0
    assert terminal.getvalue().startswith("# legalize") and "\r" not in terminal.getvalue()
