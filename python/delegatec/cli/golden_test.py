# SPDX-License-Identifier: Apache-2.0
"""The recorded facts of a program, and differences from them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with the manifests of a model, and of a wider one."""
    folder = tmp_path_factory.mktemp("files")
    for name, width in (("a", 64), ("b", 65)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.Linear(width, 4))
        archive.save({"forward": export(model, (torch.rand(1, 32),))}, str(folder / f"{name}.pt2"))
        outputs = [f"--pte={folder}/{name}.pte", f"--manifest={folder}/{name}.json"]
        assert run_verb(["lower", f"--program={folder}/{name}.pt2", "--backend=mps", *outputs]) == 0
    return folder


def _golden(folder: Path, manifest: str, *flags: str) -> int:
    golden = f"--golden={folder}/golden.json"
    return run_verb(["golden", "--label=//a:b", f"--manifest={folder / manifest}", golden, *flags])


def test_what_is_recorded_passes_and_another_program_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(folder))
    assert run_verb(["golden", f"--manifest={folder}/a.json", "--update=golden.json"]) == 0
    text = (folder / "golden.json").read_text()
    assert text.endswith("}\n") and str(folder) not in text and "sha256" not in text
    facts = json.loads(text)
    assert facts["methods"]["forward"]["delegates"]["0 MPSBackend"]["operators"] == {"aten.linear.default": 2}
    assert _golden(folder, "a.json") == 0
    capsys.readouterr()
    monkeypatch.setenv("XML_OUTPUT_FILE", str(folder / "test.xml"))
    assert _golden(folder, "b.json", "--update-command=bazel run //a:b.update") == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert "-           0.weight: float32[64, 32], 8192 B" not in lines
    assert "~           0.weight: float32[64, 32], 8192 B -> float32[65, 32], 8320 B" in lines
    assert "error DC511" in captured.err and "bazel run //a:b.update" in captured.err
    failure = ElementTree.parse(folder / "test.xml").getroot()[0][0].find("failure")
    assert failure is not None and failure.text is not None and "float32[65, 32]" in failure.text


def test_sizes_may_differ_a_little(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(folder))
    assert run_verb(["golden", f"--manifest={folder}/a.json", "--update=golden.json"]) == 0
    golden = folder / "golden.json"
    facts = json.loads(golden.read_text())
    facts["file"]["bytes"] = round(facts["file"]["bytes"] * 0.97)
    golden.write_text(json.dumps(facts))
    assert _golden(folder, "a.json", "--size-tolerance=4") == 0
    assert _golden(folder, "a.json", "--size-tolerance=2") == 1
    assert "%)" in capsys.readouterr().out
    assert _golden(folder, "a.json", "--size-tolerance=100") == 2
    facts["methods"]["forward"]["nodes"] += 1  # not a size
    golden.write_text(json.dumps(facts))
    assert _golden(folder, "a.json", "--size-tolerance=99") == 1


@pytest.mark.parametrize("text", ["", "\n", "{}"])
def test_a_record_that_does_not_exist_yet(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (folder / "golden.json").write_text(text)
    assert _golden(folder, "a.json") == 1
    captured = capsys.readouterr()
    assert "+ file" in captured.out and "DC511" in captured.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> branch\n", "Expecting value: line 1 column 1"),
        ("{", "line 1 column 2"),
        ("[]", "it is list, not an object"),
        ('{"methods": []}', "it has lists or null, as a manifest has"),
        ("PK\x03\x04\xff", "it is a zip file, such as a .pt2"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_damaged_record(folder: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str) -> None:
    (folder / "golden.json").write_text(text, encoding="latin-1")
    assert _golden(folder, "a.json", "--update-command=bazel run //a:b.update") == 1
    captured = capsys.readouterr()
    assert "error DC513" in captured.err and reason in captured.err and "DC511" not in captured.err
    assert "record the program again: bazel run //a:b.update" in captured.err
