# SPDX-License-Identifier: Apache-2.0
"""Programs in a runtime: its inputs, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.edge.testing import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.verify.departure import Search
from delegatec.verify.executors import REFERENCE
from delegatec.verify.runtime_plugin import find_runtime
from delegatec.verify.verification import Verification, verify_program

Run = Callable[[torch.Tensor], Sequence[Any]]


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sin() + 1


class Eager:
    """A runtime that calls a function, and keeps its inputs."""

    name, backends = "eager 1.0", ("MPSBackend",)

    def __init__(self, run: Run, loads: bool = True) -> None:
        self._run, self._loads = run, loads
        self.inputs: list[torch.Tensor] = []

    def load(self, pte: str, ptd: str | None, shares_state: bool) -> Eager:
        assert Path(pte).exists() and ptd is None and not shares_state
        if not self._loads:
            raise RuntimeError("error 0x14")
        return self

    def run(self, method: str, inputs: Sequence[Any]) -> Sequence[Any]:
        assert method == "forward"
        self.inputs += inputs
        return self._run(*inputs)


def _right(x: torch.Tensor) -> Sequence[Any]:
    return [(x * 2).sin() + 1]


def _wrong(x: torch.Tensor) -> Sequence[Any]:
    return [(x * 2.1).sin() + 1]


def _fails(x: torch.Tensor) -> Sequence[Any]:
    raise RuntimeError("error 0x12")


X = torch.rand(2, 3, 4, 5)


def _exported(x: torch.Tensor = X) -> dict[str, Any]:
    return {"forward": export(Net(), x)}


def _verify(folder: Path, runtime: Eager, backend: str = "mps", x: torch.Tensor = X) -> Verification:
    with open(folder / "p.pte", "wb") as file:
        write_program(lower(_exported(x), backend).emitted, file)
    return verify_program(folder / "p.pte", _exported(x), builtin_backends(), runtimes=[runtime])


def test_a_right_runtime(tmp_path: Path) -> None:
    found = _verify(tmp_path, Eager(_right))
    assert found.passed
    assert [each.executor for each in found.worst()] == [REFERENCE, "eager 1.0"]


def test_a_wrong_runtime(tmp_path: Path) -> None:
    runtime = Eager(_wrong)
    found = _verify(tmp_path, runtime)
    assert {each.executor for each in found.results if not each.passed} == {"eager 1.0"}
    lines = found.table().splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["ok", "FAILED"] and "eager 1.0" in lines[2]
    assert "method 'forward', example in eager 1.0, output 0" in found.diagnostics[0].message

    def lowered(methods: Any) -> Any:
        return lower(methods, "mps").emitted

    failure = next(each for each in found.results if not each.passed)
    search = Search(_exported, lowered, builtin_backends(), None, None, {}, 1, {}, runtimes=[runtime])
    departure = search.find(failure)
    assert departure is not None and departure.code == "DC510"
    # This runtime computes the whole model, for any program: no value of it is right.
    assert "in eager 1.0, is aten.mul" in departure.message


def test_failures_at_run_time_are_of_the_runtime_alone(tmp_path: Path) -> None:
    found = _verify(tmp_path, Eager(_fails))
    (problem,) = found.diagnostics
    assert problem.code == "DC505"
    assert problem.message == "eager 1.0 fails in method 'forward': RuntimeError: error 0x12"
    assert all(each.passed and each.executor == REFERENCE for each in found.results)


def test_the_number_of_outputs(tmp_path: Path) -> None:
    found = _verify(tmp_path, Eager(lambda x: []))
    assert [each.code for each in found.diagnostics] == ["DC505"]
    assert "returns 0 outputs" in found.diagnostics[0].message


def test_programs_that_it_cannot_load(tmp_path: Path) -> None:
    with pytest.raises(
        DelegatecError, match=r"DC501: eager 1\.0 cannot load the program: RuntimeError: error 0"
    ):
        _verify(tmp_path, Eager(_right, loads=False))
    with pytest.raises(DelegatecError, match=r"(?s)has no backend VulkanBackend.*MPSBackend"):
        _verify(tmp_path, Eager(_right), "vulkan")


def test_inputs_are_in_the_order_that_the_file_declares(tmp_path: Path) -> None:
    x = X.to(memory_format=torch.channels_last)
    runtime = Eager(_right)
    assert _verify(tmp_path, runtime, x=x).passed
    assert len(runtime.inputs) == 4
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in runtime.inputs)


RUNTIME, WRONG, CLASS, MISSING = Eager(_right), object(), Eager, None


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("executorch_runtime", "not of the form module:attribute"),
        ("no_such_module:RUNTIME", "no module named 'no_such_module'"),
        (f"{__name__}:RUNTIM", "did you mean 'RUNTIME'"),
        (f"{__name__}:WRONG", "it lacks name, backends, load"),
        (f"{__name__}:CLASS", "is a class, not an instance"),
        (f"{__name__}:MISSING", "is None"),
    ],
)
def test_plugins_that_are_no_runtime(selector: str, message: str) -> None:
    with pytest.raises(DelegatecError, match=f"(?s)DC516.*{message}"):
        find_runtime(selector)


def test_a_plugin() -> None:
    assert find_runtime(f"{__name__}:RUNTIME") is RUNTIME
