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
    (runs,) = figures["rounds"]
    assert (len(runs), figures["runs"], figures["method"]) == (5, 5, "forward")
    assert 0 < min(runs) <= figures["p50"] <= figures["p90"] <= figures["p99"] <= max(runs)
    assert figures["first"] > 0 and figures["load"] > 0
    # Far below this process, which has torch in memory.
    assert 2**20 < figures["peak_bytes"] < 2**26


def test_programs_in_turns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The delegate of one, and kernels of the other, below a command, by time on CPUs."""
    torch.manual_seed(0)
    pt2 = f"{tmp_path}/p.pt2"
    archive.save(export(Model(Wide().eval(), (torch.rand(32, 256),))), pt2)
    for name, backend in (("fast", ["--backend=xnnpack"]), ("slow", [])):
        flags = [f"--program={pt2}", f"--pte={tmp_path}/{name}.pte", f"--debug={tmp_path}/{name}.debug.json"]
        assert run_verb(["lower", *flags, *backend]) == 0
    files = [f"--program={pt2}", f"--pte={tmp_path}/fast.pte", f"--debug={tmp_path}/fast.debug.json"]
    files += [f"--runner={RUNTIME.runner}", f"--baseline={tmp_path}/slow.pte"]
    flags = ["--benchmark", "--clock=cpu", "--runs=20", "--rounds=5", "--run-under=env", "--format=json"]
    assert run_verb(["profile", *files, *flags]) == 0
    figures = json.loads(capfd.readouterr().out)
    assert figures["ratio"]["upper"] < 0.9 and figures["ratio"]["in_turns"]
    assert run_verb(["profile", *files, "--runs=20", "--format=json"]) == 0
    profile = json.loads(capfd.readouterr().out)
    assert sum(cost["nanoseconds"] for cost in profile["baseline"]["costs"]) > 0
    assert run_verb(["profile", *files, "--by=module"]) == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()[5:]]
    changes = {row[3]: float(row[2]) for row in rows}
    assert sum(changes.values()) < 0 and {"layers.0", "layers.2"} <= changes.keys()


class Wide(torch.nn.Module):
    """Layers that take longer than their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(256, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 256), torch.nn.Tanh()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y
