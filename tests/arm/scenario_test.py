# SPDX-License-Identifier: Apache-2.0
"""VGF programs in Arm's scenario runner, the runtime of `//runtime:vgf`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.program.reader import read_program
from delegatec.verify.executors import RuntimeExecutor
from delegatec.verify.runtime_plugin import find_runtime
from tests.arm.models import MODELS, eager, exported, integers, lower, segments
from vgf_runtime import RUNTIME, VgfRuntime
from vgf_runtime.device import Device

pytestmark = pytest.mark.skipif(
    bool(RUNTIME.device.missing), reason=f"no Vulkan device: {RUNTIME.device.missing}"
)
_MODELS = {**MODELS, "segments": segments}


def _run(pte: bytes, args: Sequence[torch.Tensor], folder: Path, runtime: VgfRuntime = RUNTIME) -> list[Any]:
    path = folder / "program.pte"
    path.write_bytes(pte)
    return RuntimeExecutor(runtime, read_program(path), path, None).run("forward", args)


def test_it_is_a_runtime() -> None:
    assert find_runtime("vgf_runtime:RUNTIME") is RUNTIME


@pytest.mark.parametrize("name", ["encoder", "segments"])
def test_results_are_those_of_eager_mode(name: str, tmp_path: Path) -> None:
    model, args = _MODELS[name]()
    wanted = eager(model, args)
    assert float(wanted[0].abs().max()) > 0.05
    found = _run(lower(exported((model, args)), "vgf").pte, args, tmp_path)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-6, check_stride=True)


@pytest.mark.parametrize("name", ["convolutions", "segments"])
def test_results_of_int8_are_those_of_eager_mode(name: str, tmp_path: Path) -> None:
    program, args = integers(_MODELS[name]())
    wanted = eager(program.module(), args)
    assert int(wanted[0].int().abs().max()) > 20
    (found,) = _run(lower(program, "vgf").pte, args, tmp_path)
    assert torch.equal(found, wanted[0]) and found.stride() == wanted[0].stride()


class Kinds(torch.nn.Module):
    """Values of all other types, and one without dimensions."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, half: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x > y) & (y > 0), x.long() * 2 + y, (x + y).amax(), half * 2 + 1


def test_values_of_each_type(tmp_path: Path) -> None:
    args = (
        torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4),
        torch.full((3, 4), 2, dtype=torch.int32),
        torch.linspace(-2, 2, 5, dtype=torch.float16),
    )
    found = _run(lower(exported((Kinds(), args)), "vgf").pte, args, tmp_path)
    torch.testing.assert_close(found, eager(Kinds(), args), rtol=0, atol=0)


class Parts(torch.nn.Module):
    """A delegate on each side of a kernel that VGF lacks, and state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the sum of all calls."""
        self.total += (x * 2 + 1).cumsum(0).sigmoid() * 3
        return self.total.clone()


def test_kernels_and_state_between_delegates(tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 4)
    path = tmp_path / "program.pte"
    path.write_bytes(lower(exported((Parts(), (x,))), "vgf").pte)
    loaded, module = RUNTIME.load(str(path), None, False), Parts()
    for _ in range(2):
        torch.testing.assert_close(loaded.run("forward", [x]), [module(x)], rtol=1e-5, atol=1e-6)


def test_a_host_without_the_driver(tmp_path: Path) -> None:
    (tmp_path / "missing.txt").write_text("a package cannot be had")
    runtime = VgfRuntime()
    runtime.device = Device(tmp_path, tmp_path)
    model, args = MODELS["encoder"]()
    pte = lower(exported((model, args)), "vgf").pte
    with pytest.raises(DelegatecError, match="no Vulkan device: a package cannot be had"):
        _run(pte, args, tmp_path, runtime)


def test_a_graph_that_the_runner_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, args = MODELS["encoder"]()
    pte = lower(exported((model, args)), "vgf").pte
    monkeypatch.setattr("vgf_runtime.scenario._FORMATS", {torch.float32: "VK_FORMAT_R8_SINT"})
    with pytest.raises(DelegatecError, match=r"DC505[\s\S]*scenario runner ends with status"):
        _run(pte, args, tmp_path)
