# SPDX-License-Identifier: Apache-2.0
"""Profiles of programs in the C++ runner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from delegatec.cli.main import run_verb
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from executorch_runner import RUNTIME


class Network(torch.nn.Module):
    """Layers, state that each call changes, and a number among the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        self.get_buffer("calls").add_(1)
        y: torch.Tensor = self.layers(x)
        return y * scale + self.get_buffer("calls")


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("external", [False, True])
def test_a_program_with_its_example(
    tmp_path: Path, backend: str, external: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    pt2, pte, debug, ptd = (f"{tmp_path}/p.{suffix}" for suffix in ("pt2", "pte", "json", "ptd"))
    archive.save(export(Model(Network().eval(), (torch.rand(4, 64), 0.5))), pt2)
    flags = [f"--program={pt2}", f"--pte={pte}", f"--debug={debug}"]
    flags += ["--external-weights"] * external + [f"--backend={backend}"] * (backend != "portable")
    assert run_verb(["lower", *flags]) == 0
    if external:
        assert run_verb(["weights", f"--program={pt2}", f"--ptd={ptd}"]) == 0
    capfd.readouterr()
    files = [*flags[:3], *([f"--ptd={ptd}"] if external else []), f"--runner={RUNTIME.runner}"]
    assert run_verb(["profile", *files, "--runs=5", "--format=json"]) == 0
    profile = json.loads(capfd.readouterr().out)
    assert (profile["method"], profile["runs"], profile["counted"]) == ("forward", 6, 5)
    assert profile["nanoseconds"] > 0
    operators = {origin["operator"] for cost in profile["costs"] for origin in cost["origins"]}
    assert {"aten.linear.default", "aten.relu.default"} <= operators
    assert run_verb(["profile", *files, "--runs=5", "--benchmark", "--format=json"]) == 0
    figures = json.loads(capfd.readouterr().out)
    assert len(figures["runs"]) == 5 and figures["method"] == "forward"
    assert 0 < min(figures["runs"]) <= figures["median"] <= figures["p90"] <= max(figures["runs"])
    assert figures["first"] > 0 and figures["load"] > 0
    # Far below this process, which has torch in memory.
    assert 2**20 < figures["peak_bytes"] < 2**26
