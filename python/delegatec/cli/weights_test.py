# SPDX-License-Identifier: Apache-2.0
"""The command line of weights outside of programs, of layouts, and of constant methods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive
from delegatec.program.reader import read_flat_tensors, read_program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    model = {"forward": export(torch.nn.Linear(4, 2), (torch.rand(1, 4),))}
    archive.save(model, str(folder / "model.pt2"), {"get_width": 4})
    return folder


def _run_verb(folder: Path, *arguments: str) -> int:
    return run_verb([argument.replace("DIR", str(folder)) for argument in arguments])


def test_from_a_model_to_tensors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run_verb(folder, "weights", "--program=DIR/model.pt2", "--ptd=DIR/a.ptd") == 0
    lower = ["lower", "--program=DIR/model.pt2", "--pte=DIR/a.pte", "--manifest=DIR/a.json"]
    lower += ["--external-weights", "--segment-alignment=4096", "--no-plan-inputs", "--report=DIR/a.html"]
    lower += ["--channels-last-inputs", "--channels-last-outputs"]
    assert _run_verb(folder, *lower) == 0
    verify = ["verify", "--program=DIR/model.pt2", "--pte=DIR/a.pte"]
    assert _run_verb(folder, *verify, "--ptd=DIR/a.ptd") == 0
    weights = json.loads((folder / "a.json").read_text())["weights"]
    assert [(weight["names"], weight["external"]) for weight in weights] == [
        (["weight"], True),
        (["bias"], True),
    ]
    assert "external" in (folder / "a.html").read_text()
    (constant,) = json.loads((folder / "a.json").read_text())["constant_methods"]
    assert constant["name"] == "get_width" and constant["outputs"][0]["name"] == "4"
    capsys.readouterr()
    assert _run_verb(folder, "inspect", "DIR/a.pte") == 0
    text = capsys.readouterr().out
    assert "external: 40 B in 2 tensors of a .ptd" in text and "method get_width" in text
    assert _run_verb(folder, "inspect", "DIR/a.ptd") == 0
    text = capsys.readouterr().out
    assert "data file of 2 name(s)" in text and "float32[2, 4]" in text
    assert _run_verb(folder, "inspect", "DIR/a.ptd", "--format=json") == 0
    assert [entry["key"] for entry in json.loads(capsys.readouterr().out)["entries"]] == ["weight", "bias"]
    assert read_program(folder / "a.pte").method("forward").tensor(0).allocation is None
    # without the data file the weights are missing
    assert _run_verb(folder, *verify) == 1
    assert (
        "error DC360: the program loads 'weight' from a .ptd data file, but none is given"
        in capsys.readouterr().err
    )


def test_weights_are_aligned(folder: Path) -> None:
    arguments = ["weights", "--program=DIR/model.pt2", "--ptd=DIR/b.ptd", "--segment-alignment=16384"]
    assert _run_verb(folder, *arguments) == 0
    entries = read_flat_tensors(folder / "b.ptd").entries
    assert [entry.offset % 16384 for entry in entries.values()] == [0, 0]


@pytest.mark.parametrize(
    ("verb", "flag"),
    [
        ("lower", "--segment-alignment=24"),
        ("lower", "--constant-alignment=8"),
        ("lower", "--delegate-alignment=0"),
        ("weights", "--segment-alignment=-1"),
    ],
)
def test_wrong_alignments(folder: Path, capsys: pytest.CaptureFixture[str], verb: str, flag: str) -> None:
    output = {"lower": "--pte=DIR/c.pte", "weights": "--ptd=DIR/c.ptd"}[verb]
    assert _run_verb(folder, verb, "--program=DIR/model.pt2", output, flag) == 1
    name, _, value = flag[2:].partition("=")
    assert f"error DC310: {name.replace('-', '_')} cannot be {value}" in capsys.readouterr().err
    assert not list(folder.glob("c.*"))
