# SPDX-License-Identifier: Apache-2.0
"""`delegatec operators`, and the same of `delegatec lower`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from delegatec.cli.main import main

_MODEL = """
import torch, delegatec

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1

def build():
    return delegatec.Model(Net(), (torch.ones(2, 3),))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program of portable kernels and one for MPS, with manifests."""
    torch.manual_seed(0)
    (tmp_path / "net.py").write_text(_MODEL)
    export = ["export", "--entry=net:build", f"--source={tmp_path / 'net.py'}", f"--import-path={tmp_path}"]
    assert main([*export, f"--program={tmp_path / 'net.pt2'}"]) == 0
    for backend in ("portable", "mps"):
        name = tmp_path / f"net_{backend}"
        lower = ["lower", f"--program={tmp_path / 'net.pt2'}", f"--label=//net:net_{backend}"]
        outputs = [
            f"--pte={name}.pte",
            f"--manifest={name}.manifest.json",
            f"--selected-operators={name}.selected_operators.yaml",
        ]
        assert main([*lower, *outputs, *([f"--backend={backend}"] if backend == "mps" else [])]) == 0
    return tmp_path


def test_a_manifest_and_the_lowering_say_the_same(folder: Path) -> None:
    for name in ("net_portable", "net_mps"):
        assert (
            main(["operators", f"--manifest={folder / name}.manifest.json", f"--yaml={folder}/a.yaml"]) == 0
        )
        text = (folder / "a.yaml").read_text()
        assert text == (folder / f"{name}.selected_operators.yaml").read_text()
        assert f'# program: "//net:{name}"' in text
    assert "# backends to link: MPSBackend\n" in text


def test_several_programs(folder: Path) -> None:
    programs = [f"--program={folder / name}.pte" for name in ("net_portable", "net_mps")]
    assert main(["operators", *programs, f"--json={folder}/a.json", f"--yaml={folder}/a.yaml"]) == 0
    document = json.loads((folder / "a.json").read_text())
    assert document["backends"] == {"MPSBackend": ["net_mps.pte"]}
    assert document["kernels"]["aten::mul.Scalar_out"] == ["net_portable.pte"]
    assert document["primitives"] == []
    listed = ",".join(document["kernels"])
    assert f"# EXECUTORCH_SELECT_OPS_LIST: {listed}\n" in (folder / "a.yaml").read_text()


def test_programs_without_kernels(folder: Path) -> None:
    program = f"--program={folder / 'net_mps'}.pte"
    assert main(["operators", program, f"--json={folder}/a.json", f"--yaml={folder}/a.yaml"]) == 0
    document = json.loads((folder / "a.json").read_text())
    assert (document["backends"], document["kernels"]) == ({"MPSBackend": ["net_mps.pte"]}, {})
    text = (folder / "a.yaml").read_text()
    assert "none, link no library of kernels" in text
    assert "\noperators: {}\n" in text and "\net_kernel_metadata: {}\n" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--program=net_mps.pte"], "no output requested: expected --yaml or --json"),
        (["--yaml=a.yaml"], "no program: expected --program=FOO.pte or --manifest=FOO.manifest.json"),
        (["--yaml=a.yaml", "--manifest=net.py"], "net.py was not written by this version"),
        (["--yaml=a.yaml", "--program=net.py"], "DC35"),
        (["--yaml=a.yaml", "--program=missing.pte"], "missing.pte"),
    ],
)
def test_wrong_arguments(
    folder: Path,
    arguments: list[str],
    message: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert main(["operators", *arguments]) != 0
    error = capfd.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (folder / "a.yaml").exists()
