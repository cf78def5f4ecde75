# SPDX-License-Identifier: Apache-2.0
"""A lowering without lines, then `locate`: together the same files as of a lowering with lines."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from delegatec.cli.main import run_verb

NET = """\
import torch
import delegatec

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)

    def forward(self, x):
        x = self.conv(x).relu()
        y = torch.cumsum(x, 1)
        return torch.cond(x.sum() > 0, lambda x: torch.cumsum(x, 2), lambda x: x + 1, (y,))

def build():
    return delegatec.Model(Net(), (torch.ones(1, 1, 8, 8),))
"""
WRITTEN = {"debug": "json", "ir": "txt", "manifest": "json", "reasons": "txt"}


@pytest.fixture(autouse=True)
def _in_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    _run("export", "--entry=net:build", "--source=net.py", "--import-path=.", "--program=net.pt2")


def _run(*argv: str) -> None:
    assert run_verb(argv) == 0, argv


def _lower(*flags: str) -> tuple[str, ...]:
    return ("lower", "--program=net.pt2", "--pte=net.pte", "--label=//:net", *flags)


def _separately(backend: str) -> None:
    """Lowers without lines, and adds them."""
    inputs = [f"--{name}=without.{name}" for name in ("debug", "ir", "manifest")]
    _run(*_lower(*inputs, backend, "--sources=net.sources.json", "--unused-inputs=unused"))
    outputs = [f"--located-{name}=located.{name}" for name in ("debug", "ir", "manifest")]
    _run("locate", "--sources=net.sources.json", *inputs, *outputs, "--reasons=located.reasons")


@pytest.mark.parametrize("backend", ["portable", "mlx", "mps", "vulkan"])
def test_the_same_files_as_of_a_lowering_with_lines(backend: str) -> None:
    _run(*_lower(f"--backend={backend}", *(f"--{name}=with.{name}" for name in WRITTEN)))
    pte = Path("net.pte").read_bytes()
    _separately(f"--backend={backend}")
    assert Path("net.pte").read_bytes() == pte
    assert Path("unused").read_text() == "net.sources.json\n"
    for name in WRITTEN:
        text = Path(f"with.{name}").read_text()
        assert Path(f"located.{name}").read_text() == text
        assert "sources:" not in text
        # MLX delegates all of it, so that there are no reasons
        if backend not in ("portable", "mlx") or name in ("debug", "ir"):
            assert "net.py:12" in text or '"line": 12' in text


def test_an_edit_of_lines_keeps_what_is_lowered_without_them() -> None:
    _separately("--backend=mps")
    names = ("net.pte", "without.debug", "without.ir", "without.manifest")
    before, reasons = [Path(name).read_bytes() for name in names], Path("located.reasons").read_text()
    Path("net.py").write_text("# A comment.\n\n" + NET)
    linecache.clearcache()
    sys.modules.pop("net", None)
    _run("export", "--entry=net:build", "--source=net.py", "--import-path=.", "--program=net.pt2")
    _separately("--backend=mps")
    assert [Path(name).read_bytes() for name in names] == before
    assert "net.py:12" in reasons
    assert Path("located.reasons").read_text() == reasons.replace("net.py:12", "net.py:14")


def _errors(argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run_verb(argv) == 1
    return capsys.readouterr().err


def test_errors_of_a_lowering_without_lines_have_lines(capsys: pytest.CaptureFixture[str]) -> None:
    flags = _lower("--backend=mps", "--require-full-delegation")
    error = _errors(flags, capsys)
    assert "at net.py:12 in forward: return torch.cond(" in error
    assert _errors((*flags, "--sources=net.sources.json", "--unused-inputs=unused"), capsys) == error
    assert not Path("unused").exists()
    assert "sources:forward" in _errors((*flags, "--sources="), capsys)


@pytest.mark.parametrize("flags", [[], ["--sources=net.sources.json", "--unused-inputs=unused"]])
def test_quantized_programs_refer_to_the_lines_of_the_model(flags: list[str]) -> None:
    save_file({"x": torch.rand(4, 1, 1, 8, 8)}, "samples.safetensors")
    _run("quantize", "--program=net.pt2", "--calibration=samples.safetensors", "--pt2=int8.pt2", *flags)
    before = Path("net.sources.json").read_bytes()
    sources = Path("net.sources.json" if flags else "int8.sources.json")
    assert Path("int8.sources.json").exists() != bool(flags)
    assert sources.read_bytes() == before
    _run("lower", "--program=int8.pt2", f"--sources={sources}", "--ir=int8.txt", "--pte=int8.pte")
    text = Path("int8.txt").read_text()
    assert "sources:" not in text
    assert {f"# net.py:{line}" in text for line in (10, 11)} == {True}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("locate", "--sources=net.sources.json", "--located-ir=o"), "expected --ir as well"),
        (("locate", "--sources=net.sources.json", "--reasons=o"), "expected --manifest as well"),
        (_lower("--unused-inputs=unused", "--sources="), "expected --sources as well"),
    ],
)
def test_inputs_that_are_needed(
    argv: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb(argv) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["debug", "manifest"])
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"methods": {"forward": {}}}'])
def test_other_documents_are_rejected(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.json").write_text(text)
    flags = (f"--{name}=other.json", f"--located-{name}=out.json")
    assert run_verb(("locate", "--sources=net.sources.json", *flags)) == 2
    assert "other.json was not written by this version of `delegatec lower`" in capsys.readouterr().err
    assert not Path("out.json").exists()


def test_a_listing_that_is_not_text_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.txt").write_bytes(b"\xff\xfe")
    assert run_verb(("locate", "--sources=net.sources.json", "--ir=other.txt", "--located-ir=out.txt")) == 2
    assert "other.txt was not written by this version of `delegatec lower`" in capsys.readouterr().err
