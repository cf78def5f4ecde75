# SPDX-License-Identifier: Apache-2.0
"""Programs on emulated Arm CPUs, next to the same runtime on this host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec import Model, export, lower
from delegatec.diagnostics import DelegatecError
from delegatec.program import write_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.verify.runtime import Runtime
from delegatec.verify.runtime_plugin import find_runtime
from executorch_runner import RUNTIME, arm
from tests.runtimes.programs import counter, network, verified

_TABLE = Path(__file__).parents[2] / "rules/private/arm_cpus.bzl"
_NAMES = re.findall(r'^    "([^"]+)": \[', _TABLE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(autouse=True)
def _packages() -> None:
    """Debian's packages may be out of reach, and then the runner says so."""
    try:
        arm.MAX.run(["--backends"])
    except RuntimeError as error:
        if "cannot be downloaded" in str(error) or "the emulator runs on" in str(error):
            pytest.skip(str(error))
        raise


class Layers(torch.nn.Module):
    """What XNNPACK has kernels of each CPU for."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 16, 3), torch.nn.Conv2d(16, 24, 1)
        self.depthwise = torch.nn.Conv2d(24, 24, 3, groups=24)
        self.linear = torch.nn.Linear(24, 33)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(self.second(self.first(x).relu())).relu()
        return self.linear(y.mean((2, 3))).softmax(-1)


def _outputs(pte: Path, x: torch.Tensor, runtime: Runtime) -> torch.Tensor:
    (found,) = runtime.load(str(pte), None, False).run("forward", [x])
    assert isinstance(found, torch.Tensor)
    return found


def _written(folder: Path, x: torch.Tensor, form: str) -> tuple[Path, torch.Tensor]:
    """Returns the program of a form, and what eager mode computes in float32."""
    torch.manual_seed(0)
    module = Layers().eval()
    methods = export(Model(module, (x,)))
    if form == "int8":
        methods = quantize_model(methods, {"forward": [((x,), {})]}, Settings()).methods
    pte = folder / f"{form}.pte"
    with pte.open("wb") as file:
        lowered = lower(methods, "xnnpack", {"precision": "fp16"} if form == "fp16" else {})
        write_program(lowered.emitted, file)
    with torch.no_grad():
        return pte, module(x)


@pytest.mark.parametrize("name", _NAMES)
def test_each_cpu_of_the_table_runs(name: str) -> None:
    runtime = find_runtime(f"executorch_runner.arm:{name.replace('-', '_').upper()}")
    assert runtime.name == f"executorch runner, {name}"
    assert runtime.backends == ["XnnpackBackend"]


def test_an_unknown_cpu(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="unable to find CPU model 'cortex-a5'"):
        arm.on_cpu("cortex-a5").run(["--backends"])


@pytest.mark.parametrize("runtime", [arm.CORTEX_A53, arm.MAX], ids=["cortex-a53", "max"])
def test_errors_of_each_precision(tmp_path: Path, runtime: Runtime) -> None:
    """int8 has the same bits as on this host; found: 2e-7 in float32, 3e-4 to 1e-3 in float16."""
    x = torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    for form, tolerance in (("int8", 0.0), ("fp32", 1e-5), ("fp16", 4e-3)):
        pte, _ = _written(tmp_path, x, form)
        here, there = _outputs(pte, x, RUNTIME), _outputs(pte, x, runtime)
        assert float((there - here).abs().max()) <= tolerance, form


@pytest.mark.parametrize("make", [counter, network])
def test_the_comparison_with_eager_mode(tmp_path: Path, make: Any) -> None:
    found = verified(tmp_path, make, arm.CORTEX_A76, backend="xnnpack")
    assert found.passed, found.table()
    assert "executorch runner, cortex-a76" in found.table()


def test_backends_that_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError, match=r"DC501.*cortex-a76 has no backend VulkanBackend"):
        verified(tmp_path, network, arm.CORTEX_A76, backend="vulkan")
