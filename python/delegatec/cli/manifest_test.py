# SPDX-License-Identifier: Apache-2.0
"""What a manifest says about the inputs of a program."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive

BOARD = """\
[System_Config.Board]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash
[Memory_Mode.Mine]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    archive.save({"forward": export(torch.nn.ReLU(), (torch.ones(1, 4, dtype=torch.int8),))}, "a.pt2")
    (tmp_path / "board.ini").write_text(BOARD)
    return tmp_path


@pytest.mark.parametrize(
    ("backends", "role"), [(["ethos_u"], "config"), (["mps", "ethos_u"], "ethos_u.config")]
)
def test_files_and_wheels(folder: Path, backends: list[str], role: str) -> None:
    prefix = role.removesuffix("config")
    options = {"config": f"{folder}/board.ini", "system_config": "Board", "memory_mode": "Mine"}
    flags = ["--label=//:a", "--program=a.pt2", "--pte=a.pte", "--manifest=a.json"]
    flags += [f"--option={prefix}{name}={value}" for name, value in (options | {"stage": "tosa"}).items()]
    flags += [f"--backend={backend}" for backend in backends]
    assert run_verb(["lower", *flags]) == 0
    manifest = json.loads((folder / "a.json").read_text())
    assert manifest["inputs"] == [
        {
            "role": each,
            "name": name,
            "bytes": (folder / name).stat().st_size,
            "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(),
        }
        for each, name in (("program", "a.pt2"), (role, "board.ini"))
    ]
    wheels = {wheel["name"]: wheel["version"] for wheel in manifest["wheels"]}
    # As installed: in the index's wheel of torch for GPUs, only the module has the local part of the version.
    assert {name: wheels[name] for name in ("flatbuffers", "torch")} == {
        name: version(name) for name in ("flatbuffers", "torch")
    }
    assert torch.__version__.startswith(wheels["torch"])
    assert list(wheels) == sorted(wheels)


def test_a_missing_file_is_reported_by_its_backend(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--backend=ethos_u", "--option=config=missing.ini"]
    assert run_verb(["lower", "--program=a.pt2", "--pte=a.pte", "--manifest=a.json", *flags]) == 1
    assert "error DC402" in capsys.readouterr().err
