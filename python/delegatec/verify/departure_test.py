# SPDX-License-Identifier: Apache-2.0
"""The value with the fault of a kernel or a delegate is the one that is named, with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.ao.quantization import fx  # noqa: F401 - registers the operators of quantized values
from torch.export import Dim, ExportedProgram, export

from delegatec.backends import builtin_backends
from delegatec.backends.mps.reference import executor
from delegatec.diagnostics import Diagnostic
from delegatec.lowering import lower
from delegatec.program import EmittedProgram, write_program
from delegatec.verify import Verification, aten_kernels, verify_program
from delegatec.verify.departure import Search
from delegatec.verify.tap import candidates

THIS_FILE = Path(__file__).name
Q = torch.ops.quantized_decomposed


class Net(torch.nn.Module):
    """Two branches, of which one has the function that will be wrong, and a value that hides the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        left = self.first(x).exp().abs().relu()
        right = self.second(x * 2).sigmoid().neg().exp()
        total = left + right
        return {"left": left.sqrt(), "total": torch.softmax(total, -1)}


class Counter(torch.nn.Module):
    """State that grows: the results differ from the second call on."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.total.sigmoid()
        self.total.add_(x.sum(0))
        return before.exp() + x


def _failing(
    folder: Path, load: Callable[[], dict[str, ExportedProgram]], backend: str, **settings: Any
) -> tuple[Verification, Search]:
    registry = builtin_backends()

    def lowered(methods: Any) -> EmittedProgram:
        return lower(methods, backend, registry=registry).emitted

    path = folder / "program.pte"
    with open(path, "wb") as file:
        write_program(lowered(load()), file)
    shared: dict[str, Any] = {"atol": 1e-4, "rtol": 1e-4, "of_dtype": {}, "seeds": 2, "samples": {}}
    verification = verify_program(path, load(), registry, **shared)
    return verification, Search(load, lowered, registry, **shared, **settings)


def _exported(model: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> dict[str, ExportedProgram]:
    torch.manual_seed(0)
    return {"forward": export(model.eval(), inputs, **options)}


def _departure(verification: Verification, search: Search) -> Diagnostic:
    failure = next(result for result in verification.results if not result.passed)
    found = search.find(failure)
    assert found is not None and found.code == "DC510"
    return found


def _break_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    right = aten_kernels.find_aten
    wrong = {"aten::sigmoid.out": torch.ops.aten.tanh.out}
    found = "delegatec.verify.interpreter.find_aten"
    monkeypatch.setattr(found, lambda name: wrong.get(name) or right(name))


def _break_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(executor.SEMANTICS, "Sigmoid", executor.SEMANTICS["Tanh"])


NET, X = Net(), torch.randn(3, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("backend", "break_it"),
    [("portable", _break_kernel), ("mps", _break_delegate)],
    ids=["kernel", "delegate"],
)
def test_the_wrong_node_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, break_it: Callable[[Any], None]
) -> None:
    break_it(monkeypatch)
    verification, search = _failing(tmp_path, lambda: _exported(NET, X), backend)
    assert {result.path for result in verification.results if result.passed} == {"['left']"}
    found = _departure(verification, search)
    assert (found.node, found.location and found.location.function) == ("sigmoid", "forward")
    assert found.location is not None and found.location.text.startswith(
        "right = self.second(x * 2).sigmoid()"
    )
    assert found.location.file.endswith(THIS_FILE)
    assert "aten.sigmoid.default (float32[3, 8]): max abs" in found.message
    assert "operands are within tolerance: linear_1 (max abs" in found.message
    assert "softmax max abs" in found.help and "DEPARTS" in found.help


def test_sizes_that_vary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _break_kernel(monkeypatch)
    shapes = ({0: Dim("n", min=2, max=9)},)
    verification, search = _failing(tmp_path, lambda: _exported(NET, X, dynamic_shapes=shapes), "portable")
    failures = {result.trial: result for result in verification.results if not result.passed}
    assert "seed 1 (input 0: [2, 8])" in failures and "seed 2 (input 0: [9, 8])" in failures
    for failure in failures.values():
        found = search.find(failure)
        assert found is not None and found.node == "sigmoid" and failure.trial in found.message


def test_state_is_that_of_the_call_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _break_kernel(monkeypatch)
    verification, search = _failing(tmp_path, lambda: _exported(Counter(), X), "portable")
    found = _departure(verification, search)
    assert found.node == "sigmoid"
    last = [result for result in verification.results if result.trial == "seed 2"][-1]
    assert not last.passed
    late = search.find(last)
    assert late is not None and late.node == "sigmoid" and "seed 2" in late.message


def test_a_fault_of_the_file_alone(tmp_path: Path) -> None:
    built, model = Net(), Net()
    model.load_state_dict({name: value * 2 for name, value in built.state_dict().items()})
    path = tmp_path / "program.pte"
    with open(path, "wb") as file:
        write_program(lower(_exported(built, X)).emitted, file)
    _, search = _failing(tmp_path, lambda: _exported(model, X), "portable")
    with open(path, "wb") as file:
        write_program(lower(_exported(built, X)).emitted, file)
    verification = verify_program(path, _exported(model, X), builtin_backends(), atol=1e-4, rtol=1e-4)
    found = _departure(verification, search)
    assert "no value departs" in found.message and "lowered again" in found.message
    assert found.help.startswith("build the program again")


def test_a_search_that_has_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _break_kernel(monkeypatch)
    verification, search = _failing(tmp_path, lambda: _exported(NET, X), "portable", is_late=lambda: True)
    found = _departure(verification, search)
    assert found.node == "softmax" and "the search ended" in found.message


class Quantized(torch.nn.Module):
    """A layer between integers, as quantization writes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parameters = (0.1, 3, -128, 127, torch.int8)
        x = Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *parameters), *parameters)
        y: torch.Tensor = Q.dequantize_per_tensor(
            Q.quantize_per_tensor(x.exp().relu(), *parameters), *parameters
        )
        return y.neg()


def test_values_inside_a_quantized_layer_are_not_read() -> None:
    (exported,) = _exported(Quantized(), X).values()
    nodes = {node.name: node.target for node in exported.graph.nodes}
    found = [nodes[name] for name in candidates(exported, "neg")]
    dequantize, aten = Q.dequantize_per_tensor.default, torch.ops.aten
    assert found == [dequantize, aten.exp.default, dequantize, aten.neg.default]
