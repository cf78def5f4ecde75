# SPDX-License-Identifier: Apache-2.0
"""The results of a lowering: lowered programs in models, bodies, folded weights, and blobs as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch.export import ExportedProgram

import delegatec
from delegatec.backends import builtin_backends
from delegatec.backends.mps.backend import MPS
from delegatec.delegation import call_delegate
from delegatec.delegation.testing import EagerBackend
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.module import EdgeModule
from delegatec.edge.scaled import ScaledTensor
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.report.build import build_manifest
from delegatec.verify.interpreter import Interpreter

X = torch.randn(3, 8)


class Net(torch.nn.Module):
    """Two layers around operators on float64."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(x).relu().double().cumsum(1).flip(0).float())
        return result


def exported(module: torch.nn.Module) -> ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(module.eval(), (X,))


class Odd(torch.nn.Module):
    """Runs a function between operators that MPS supports."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x.exp()).sin()


def test_a_lowered_program_in_a_model_is_written(tmp_path: Path) -> None:
    registry = builtin_backends()
    registry.register(EagerBackend())
    specs = EagerBackend().compile_specs({})
    inner = delegatec.to_backend("EagerBackend", to_edge(exported(Net())), specs, registry=registry)
    module = Odd(inner)
    lowered = lower({"forward": torch.export.export(module, (X,))}, "mps", registry=registry)
    ids = [
        lowered.programs["forward"].graph_module.get_submodule(str(node.args[0])).backend_id
        for node in lowered.programs["forward"].graph.nodes
        if node.target is call_delegate
    ]
    assert ids == ["MPSBackend", "EagerBackend", "MPSBackend"]
    wanted = module(X)
    torch.testing.assert_close(EdgeModule(lowered.programs["forward"])(X), wanted)
    with open(tmp_path / "p.pte", "wb") as file:
        write_program(lowered.emitted, file)
    (result,) = Interpreter(read_program(tmp_path / "p.pte").method("forward"), registry).run([X])
    torch.testing.assert_close(result, wanted)
    manifest = build_manifest(lowered, tmp_path / "p.pte")
    assert [d.backend for d in manifest.methods[0].delegates] == ["MPSBackend", "MPSBackend", "EagerBackend"]
    assert manifest.methods[0].delegates[2].name == "lowered0"
    # The delegate's handles refer to its original program; in this one it is one node.
    (method,) = lowered.emitted.methods
    (delegate,) = [d for d in method.delegates if d.backend_id == "EagerBackend"]
    (call,) = [node for node in lowered.programs["forward"].graph.nodes if "lowered0" in map(str, node.args)]
    assert inner.debug_handle_map and delegate.debug_handle_map == {0: (call.meta["debug_handle"],)}
    assert (call.meta["debug_handle"],) in method.debug_handles


class Steps(torch.nn.Module):
    """A branch whose bodies MPS supports partially and completely; both use the same layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def then(x: torch.Tensor) -> torch.Tensor:
            return self.one(x).relu().double().cumsum(1).float() + self.two(x)

        def otherwise(x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.two(x).sin()
            return result

        branch: torch.Tensor = torch.cond(x.sum() > 0, then, otherwise, (x,))
        return branch.exp()


def test_delegates_in_bodies_reach_the_file(tmp_path: Path) -> None:
    module = Steps().eval()
    lowered = lower({"forward": torch.export.export(module, (X,))}, "mps")
    with open(tmp_path / "p.pte", "wb") as file:
        write_program(lowered.emitted, file)
    manifest = build_manifest(lowered, tmp_path / "p.pte")
    assert [d.name for d in manifest.methods[0].delegates] == [f"lowered_{number}" for number in range(5)]
    left = {item.operator for item in manifest.methods[0].not_delegated}
    assert left == {"cond", "aten.cumsum.default", "aten._to_copy.default"}
    assert manifest.weights == ()  # They all went with the delegates, out of the bodies too.
    for x in (X.abs(), -X.abs()):
        (result,) = Interpreter(read_program(tmp_path / "p.pte").method("forward"), builtin_backends()).run(
            [x]
        )
        with torch.no_grad():
            torch.testing.assert_close(result, module(x))


def test_the_public_function_has_the_built_in_backends() -> None:
    class Simple(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.exp().sin()

    lowered = delegatec.to_backend("MPSBackend", to_edge(exported(Simple())))
    torch.testing.assert_close(lowered(X), Simple()(X))
    with pytest.raises(DelegatecError, match=r"no backend has the id 'MPS'[\s\S]*expected: .*MPSBackend"):
        delegatec.to_backend("MPS", to_edge(exported(Simple())))
    program, report = delegatec.to_backend(to_edge(exported(Simple())), MPS.partitioner([]))
    assert len(report.delegates) == 1
    torch.testing.assert_close(EdgeModule(program)(X), Simple()(X))


@pytest.mark.parametrize(
    ("backend", "options"), [("portable", {}), ("mps", {"precision": "fp32"}), ("mps", {"precision": "fp16"})]
)
def test_batch_norm_is_folded_while_weights_are_written(
    tmp_path: Path, backend: str, options: Mapping[str, str]
) -> None:
    def block() -> list[torch.nn.Module]:
        norm = torch.nn.BatchNorm2d(4)
        norm.running_var.uniform_(0.5, 2)
        return [torch.nn.Conv2d(4, 4, 3, padding=1), norm, torch.nn.ReLU()]

    torch.manual_seed(0)
    net = torch.nn.Sequential(*block(), *block(), torch.nn.ConvTranspose2d(4, 4, 3), torch.nn.BatchNorm2d(4))
    x, sizes = torch.rand(2, 4, 6, 5), {0: torch.export.Dim("n", min=1, max=4)}
    program = torch.export.export(net.eval(), (x,), dynamic_shapes=(sizes,))
    lowered = lower({"forward": program}, backend, options)
    constants = [c for each in lowered.programs.values() for c in each.constants.values()]
    assert sum(isinstance(c, ScaledTensor) for c in constants) == 3
    with open(tmp_path / "p.pte", "wb") as file:
        write_program(lowered.emitted, file)
    method = read_program(tmp_path / "p.pte").method("forward")
    (result,) = Interpreter(method, builtin_backends()).run([x])
    tolerance = 5e-3 if "fp16" in options.values() else 1e-5
    torch.testing.assert_close(result, net(x).detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["tosa", "mps", "portable"])
def test_blobs_as_files(tmp_path: Path, backend: str) -> None:
    lowered = lower({"forward": exported(Odd(lambda x: x.cos()))}, backend)
    files = {path.name: path.read_bytes() for path in delegatec.extract(lowered, tmp_path / "blobs")}
    assert {path.name for path in (tmp_path / "blobs").rglob("*.*")} == {*files}
    if backend == "portable":
        assert files == {}
        return
    blob = files["0.tosa" if backend == "tosa" else "0.blob"]
    (delegate,) = lowered.reports["forward"].delegates
    assert blob == delegate.module.blob_bytes()
    assert b"lowered_test.py:" in files["0.txt"]
    assert json.loads(files["0.json"])["title"]
