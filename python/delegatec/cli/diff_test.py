# SPDX-License-Identifier: Apache-2.0
"""Two programs of one model, compared by their files and by their manifests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with programs for MPS in two precisions, and for no backend."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU())
    archive.save({"forward": export(model, (torch.rand(1, 32),))}, str(folder / "model.pt2"))
    for name, flags in {
        "portable": [],
        "fp32": ["--backend=mps"],
        "fp16": ["--backend=mps", "--option=precision=fp16", "--delegate-alignment=64"],
    }.items():
        outputs = [f"--pte={folder}/{name}.pte", f"--manifest={folder}/{name}.manifest.json"]
        assert run_verb(["lower", f"--program={folder}/model.pt2", *flags, *outputs]) == 0
    return folder


def _diff(folder: Path, before: str, after: str, *flags: str) -> int:
    return run_verb(["diff", str(folder / before), str(folder / after), *flags])


def test_options_sizes_and_flags(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _diff(folder, "fp32.pte", "fp16.pte") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "~   precision: fp32 -> fp16" in lines and "+   --delegate-alignment=64" in lines
    (size,) = (line for line in lines if line.startswith("~         bytes: "))
    assert size.endswith("%)") and "(-" in size
    assert "~           use_fp16: 0x00 -> 0x01" in lines
    assert any(line.startswith("~         sha256: ") for line in lines)
    assert not any("weight" in line for line in lines)  # the model's are the same


def test_names_cannot_control_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = folder / "red.manifest.json"
    document = json.loads((folder / "fp32.manifest.json").read_text()) | {"compiler": "\x9b31mred"}
    manifest.write_text(json.dumps(document))
    flags = [f"--before-manifest={folder}/fp32.manifest.json", f"--after-manifest={manifest}"]
    assert _diff(folder, "fp32.pte", "fp32.pte", *flags, "--format=json") == 0
    text = capsys.readouterr().out
    assert "\x9b" not in text
    assert any(change["after"] == "\x9b31mred" for change in json.loads(text)["changes"])


def test_operators_and_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = folder / "portable.manifest.json"
    document = json.loads(manifest.read_text())
    document["compiler"] = "delegatec 9"
    manifest.write_text(json.dumps(document))
    assert _diff(folder, "fp32.pte", "portable.pte", "--exit-code") == 1
    lines = capsys.readouterr().out.splitlines()
    assert "-       0 MPSBackend" in lines and "-           aten.linear.default: 1" in lines
    assert "+       aten::linear.out: 1" in lines
    assert any(
        line.startswith("~   compiler: delegatec ") and line.endswith("-> delegatec 9") for line in lines
    )
    assert "+   0.weight: float32[64, 32], 8192 B" in lines and "~     nodes delegated: 2 -> 0" in lines


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _diff(folder, "fp32.pte", "fp16.pte", "--format=json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["same_bytes"] is False
    found = {tuple(change["path"]): (change["before"], change["after"]) for change in document["changes"]}
    assert found["options", "precision"] == ("fp32", "fp16")


def test_files_alone(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(folder / "fp32.pte", tmp_path / "old.pte")
    assert _diff(tmp_path, "old.pte", str(folder / "portable.pte")) == 0
    text = capsys.readouterr().out
    assert "+       aten::linear.out: 1" in text and "options" not in text and "0.weight" not in text
    assert _diff(tmp_path, "old.pte", str(folder / "fp32.pte"), "--exit-code") == 0
    assert capsys.readouterr().out == "the programs are the same, byte by byte\n"
    # a manifest of another build
    shutil.copy(folder / "fp16.manifest.json", tmp_path / "old.manifest.json")
    assert _diff(tmp_path, "old.pte", str(folder / "portable.pte")) == 0
    assert "options" not in capsys.readouterr().out


def test_paths_of_bazel_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(folder))
    assert run_verb(["diff", f"--after={folder}/fp16.pte", "fp32.pte"]) == 0
    assert "~   precision: fp32 -> fp16" in capsys.readouterr().out
    assert run_verb(["diff", "fp32.pte"]) == 2
    assert "AFTER.pte" in capsys.readouterr().err
