# SPDX-License-Identifier: Apache-2.0
"""A limit of the loss on the command line: the curve in `inspect`, in the manifest and in the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from delegatec.cli.main import run_verb
from delegatec.report.html import render_html
from delegatec.report.manifest import from_json, to_json

_MODEL = """
import torch, delegatec
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(8, 8) for _ in range(3))
        with torch.no_grad():
            for layer in (self.first, self.second, self.third):
                nn.init.orthogonal_(layer.weight, 1.5)
            self.first.weight[2] *= 1000
            self.second.weight[:, 2] /= 1000

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.third(torch.relu(self.second(x)))

def build():
    return delegatec.Model(Net().eval(), (torch.ones(4, 8),))
"""
_METRIC = """
def similarity(outputs, label):
    return (outputs * label).sum() / (outputs.norm() * label.norm())
"""


def test_a_search_by_a_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "net.py").write_text(_MODEL)
    (tmp_path / "net_similarity.py").write_text(_METRIC)
    assert run_verb(["export", "--entry=net:build", "--source=net.py", "--program=net.pt2"]) == 0
    x = torch.randn(5, 4, 8, generator=torch.Generator().manual_seed(0))
    save_file({"x": x}, "samples.safetensors")
    save_file({"0": x, "labels": _outputs(x)}, "net.safetensors")
    flags = ["--metric=net_similarity:similarity", "--dataset=net.safetensors", "--import-path=."]
    command = ["quantize", "--program=net.pt2", "--calibration=samples.safetensors", "--maximum-loss=0.001"]
    assert run_verb([*command, *flags, "--pt2=int8.pt2"]) == 0
    printed = capsys.readouterr().out
    assert "net_similarity:similarity over 5 samples: 1.0000 in float, 0.999" in printed
    assert "in float: 2 of 3 layers" in printed and printed.count("  chosen\n") == 1
    assert "  float  first: aten.linear, noise " in printed
    assert "at net.py:16  x = torch.relu(self.first(x))\n" in printed
    assert "at net.py:17  return self.third(torch.relu(self.second(x)))\n" in printed
    assert run_verb(["inspect", "int8.pt2"]) == 0
    assert printed in capsys.readouterr().out
    lower = ["lower", "--program=int8.pt2", "--pte=net.pte", "--manifest=net.json", "--report=net.html"]
    assert run_verb(lower) == 0
    manifest = from_json(Path("net.json").read_text())
    assert manifest.search is not None and [layer.module for layer in manifest.search.in_float] == [
        "first",
        "second",
    ]
    assert (
        manifest.search.in_float[0].location is not None and manifest.search.in_float[0].location.line == 16
    )
    page = Path("net.html").read_text()
    assert "Layers in float<small>2 of 3" in page and page.count("<circle") == len(manifest.search.points)
    assert "x = torch.relu(self.first(x))" in page
    # Without lines, as in a build, `locate` adds them.
    unlocated = [*lower, "--unused-inputs=unused.txt", "--sources=int8.sources.json"]
    assert run_verb(unlocated) == 0
    assert json.loads(Path("net.json").read_text())["search"]["in_float"][0]["location"]["line"] != 16
    located = [
        "locate",
        "--sources=int8.sources.json",
        "--manifest=net.json",
        "--located-manifest=located.json",
    ]
    assert run_verb(located) == 0
    assert from_json(Path("located.json").read_text()).search == manifest.search
    assert from_json(to_json(manifest)) == manifest and "<circle" in render_html(manifest)
    assert run_verb([*command, *flags, "--pt2=again.pt2"]) == 0
    assert Path("again.pt2").read_bytes() == Path("int8.pt2").read_bytes()


def _outputs(x: torch.Tensor) -> torch.Tensor:
    from delegatec.edge.runnable import runnable
    from delegatec.frontend import archive

    module: nn.Module = runnable(archive.load("net.pt2").methods["forward"], {})
    with torch.no_grad():
        return torch.stack([module(each) for each in x])
