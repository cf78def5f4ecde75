# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec import backends
from delegatec.cli.main import run_verb
from delegatec.delegation.testing import EagerBackend
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend import archive
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.report.debug_map import debug_map_json


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    archive.save({"forward": export(torch.nn.Linear(4, 2), (torch.ones(1, 4),))}, str(folder / "model.pt2"))
    with open(folder / "model.pte", "wb") as file:
        write_program(lower(archive.load(str(folder / "model.pt2")).methods).emitted, file)
    (folder / "other").write_bytes(b"\0\0\0\0BLOB and more")
    return folder


def _inspect(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_verb(["inspect", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_program(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _inspect(capsys, str(files / "model.pte"))
    assert code == 0 and "method forward" in out and "float32[1, 4]" in out
    code, out, _ = _inspect(capsys, str(files / "model.pte"), "--format", "json")
    (method,) = json.loads(out)["methods"]
    assert code == 0 and method["inputs"][0]["shape"] == [1, 4]


def test_blobs_of_a_program(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lowered = lower(archive.load(str(files / "model.pt2")).methods, "mps")
    with open(files / "mps.pte", "wb") as file:
        write_program(lowered.emitted, file)
    code, out, _ = _inspect(capsys, str(files / "mps.pte"), "--blobs")
    assert code == 0 and "forward, delegate 0 (MPSBackend): MPSGraph: 2 op" in out and "= Addmm(%" in out
    assert "# weight" not in out
    (files / "map.json").write_text(debug_map_json(lowered.sources, lowered.emitted))
    code, out, _ = _inspect(capsys, str(files / "mps.pte"), "--blobs", "--debug-map", str(files / "map.json"))
    assert code == 0 and re.search(r'\(%\d "weight"', out)
    assert "Addmm" not in _inspect(capsys, str(files / "mps.pte"))[1]
    code, out, _ = _inspect(capsys, str(files / "mps.pte"), "--blobs", "--format", "json")
    ((delegate,),) = (method["delegates"] for method in json.loads(out)["methods"])
    assert code == 0 and [each["operation"] for each in delegate["graph"]["operations"]][-1] == "Addmm"


def test_exported_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _inspect(capsys, str(files / "model.pt2"))
    assert code == 0 and "aten.linear.default" in out
    code, out, _ = _inspect(capsys, str(files / "model.pt2"), "--format", "json")
    assert code == 0 and json.loads(out)[0]["parameters"] == 2


def test_a_program_that_was_cut_off(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (files / "model.pte").read_bytes()
    (files / "cut.pte").write_bytes(content[:-1])
    code, out, err = _inspect(capsys, str(files / "cut.pte"))
    assert (code, out) == (1, "") and "error DC351" in err


def test_something_else(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _inspect(capsys, str(files / "other"))
    assert (code, out) == (1, "") and "error DC350" in err


class _Describing(EagerBackend):
    """A backend whose blobs have a magic of four letters."""

    def describe(self, blob: memoryview) -> str:
        if bytes(blob[4:8]) != b"BLOB":
            raise DelegatecError([Diagnostic(code="DC407", message="not mine")])
        return "a graph of one node"


def test_blob(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "builtin_backends", lambda: [_Describing("Describing")])
    code, out, _ = _inspect(capsys, str(files / "other"))
    assert (code, out) == (0, "blob for Describing, 17 B\na graph of one node\n")
    code, out, _ = _inspect(capsys, str(files / "other"), "--format", "json")
    assert json.loads(out) == {"backend": "Describing", "bytes": 17, "text": "a graph of one node"}


def test_a_plug_in_that_fails_to_read_a_blob(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_reader.py").write_text(
        "from delegatec.delegation.testing import EagerBackend\n"
        "class Faulty(EagerBackend):\n"
        "    def describe(self, blob):\n"
        "        return str(blob[99], 'ascii')\n"
        "BACKEND = Faulty()\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    faulty = ("--backend=faulty_reader:BACKEND", f"--import-path={tmp_path}")
    code, _, err = _inspect(capsys, str(files / "other"), *faulty)
    assert code == 1 and "Traceback" not in err
    assert err.startswith("error DC410: describe of backend EagerBackend raises IndexError: ")


def test_lines_of_a_program(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lowered = lower(archive.load(str(files / "model.pt2")).methods, "mps")
    with open(files / "lines.pte", "wb") as file:
        write_program(lowered.emitted, file)
    (files / "lines.json").write_text(debug_map_json(lowered.sources, lowered.emitted))
    pte, debug_map = str(files / "lines.pte"), f"--debug-map={files / 'lines.json'}"
    code, out, _ = _inspect(capsys, pte, debug_map, "--lines")
    assert code == 0 and "lines of method forward:" in out and "lowered_0 (MPSBackend)  linear" in out
    assert "lines of method" not in _inspect(capsys, pte, debug_map)[1]
    for wrong in (["--lines"], ["--lines", debug_map, "--format=json"], ["--lines", f"--debug-map={pte}"]):
        code, _, err = _inspect(capsys, pte, *wrong)
        assert code == 2 and "error DC001" in err


@pytest.mark.parametrize(
    ("module", "backend", "words"),
    [
        (torch.nn.Linear(4, 3), "mps", "its delegates have other sizes"),
        (
            torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()),
            "portable",
            "instruction(s), but the program",
        ),
        (torch.nn.ReLU(), "portable", "for instruction 0, the program aten::"),
    ],
)
def test_lines_of_another_program(
    files: Path, capsys: pytest.CaptureFixture[str], module: torch.nn.Module, backend: str, words: str
) -> None:
    paths = []
    for name, each in (("one", torch.nn.Linear(4, 2)), ("other", module)):
        lowered = lower({"forward": export(each, (torch.zeros(1, 4),))}, backend)
        paths.append(files / f"{name}.pte")
        with open(paths[-1], "wb") as file:
            write_program(lowered.emitted, file)
        paths[-1].with_suffix(".json").write_text(debug_map_json(lowered.sources, lowered.emitted))
    for pte, described in (paths, paths[::-1]):
        code, _, err = _inspect(capsys, str(pte), "--lines", f"--debug-map={described.with_suffix('.json')}")
        assert code == 2 and "is of another program: method forward: " in err and words in err


def test_blobs_of_a_backend_of_ones_own(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same blob, read by a plug-in that has the id of its delegate."""
    with open(tmp_path / "a.pte", "wb") as file:
        write_program(lower(archive.load(str(files / "model.pt2")).methods, "mps").emitted, file)
    program = (tmp_path / "a.pte").read_bytes().replace(b"MPSBackend", b"OwnBackend")
    (tmp_path / "a.pte").write_bytes(program)
    (tmp_path / "own_backend.py").write_text(
        "from delegatec.delegation.testing import EagerBackend\n"
        "class Own(EagerBackend):\n"
        "    id, name = 'OwnBackend', 'own'\n"
        "    def describe(self, blob):\n"
        "        return f'{len(blob)} bytes'\n"
        "BACKEND = Own()\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, out, _ = _inspect(capsys, str(tmp_path / "a.pte"), "--blobs")
    assert code == 0 and "no backend that can read it" in out
    own = ("--backend=own_backend:BACKEND", f"--import-path={tmp_path}")
    code, out, _ = _inspect(capsys, str(tmp_path / "a.pte"), "--blobs", *own)
    assert code == 0 and "forward, delegate 0 (OwnBackend): " in out and "bytes\n" in out
