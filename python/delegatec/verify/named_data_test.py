# SPDX-License-Identifier: Apache-2.0
"""A backend with weights outside of its blobs: shared by delegates and methods, found by the reference."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from delegatec.delegation import (
    Backend,
    BackendRegistry,
    CompileSpec,
    DelegationSpec,
    NamedData,
    Partitioner,
    Partitioning,
    PartitionView,
    PreprocessResult,
    ReferenceExecutor,
    to_backend,
)
from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.testing import export
from delegatec.program import emit, write_program
from delegatec.program.reader import read_program
from delegatec.report.inspection import inspect_program
from delegatec.verify.verification import verify_program

aten = torch.ops.aten


class ScaleBackend(Backend, Partitioner):
    """Supports products of an input and a constant. The blob is the key of the constant."""

    id = "ScaleBackend"
    name = "scale"

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> Partitioner:
        return self

    def partition(self, program: EdgeProgram) -> Partitioning:
        nodes = [node for node in program.graph.nodes if node.target is aten.mul.Tensor]
        return Partitioning(DelegationSpec(self.id, ()), [[node] for node in nodes], [])

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        (constant,) = view.constants.values()
        data = tensor_bytes(constant)
        key = hashlib.sha256(data).hexdigest()
        return PreprocessResult([key.encode()], named_data={key: NamedData(data, 64)})

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        return Scaling(bytes(blob).decode())


class Scaling(ReferenceExecutor):
    """The reference executor."""

    def __init__(self, key: str) -> None:
        self.key = key

    def load_named_data(self, named_data: Mapping[str, memoryview]) -> None:
        self.scale = torch.frombuffer(bytearray(named_data[self.key]), dtype=torch.float32)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [inputs[0] * self.scale]


class Net(torch.nn.Module):
    """The same scale twice, and another one."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.other = torch.nn.Parameter(torch.tensor([0.5, 0.25, -1.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(x * self.scale) * self.other) * self.scale


X = torch.rand(2, 3)


def test_named_data_reaches_the_reference_by_way_of_the_file(tmp_path: Path) -> None:
    backend = ScaleBackend()
    registry = BackendRegistry([backend])
    net = Net()
    programs = {name: to_edge(export(net, X), method=name) for name in ("first", "second")}
    for program in programs.values():
        to_backend(program, backend, registry=registry)
    path = tmp_path / "net.pte"
    with open(path, "wb") as file:
        write_program(emit(programs), file)
    assert verify_program(
        path, {name: export(net, X) for name in programs}, registry, atol=1e-6, rtol=1e-6
    ).passed
    read = read_program(path)
    # two weights for six delegates; equal blobs are stored once as well
    assert len(read.named_data) == 2
    assert [segment.use for segment in read.segments] == ["delegate", "delegate", "named data", "named data"]
    assert all(segment.offset % 64 == 0 for segment in read.segments[2:])
    assert len(read.method("first").delegates) == 3
    assert set(inspect_program(path).named_data) == set(read.named_data)


def test_a_lowered_module_runs_with_its_named_data() -> None:
    backend = ScaleBackend()
    program = to_edge(export(Net(), X))
    result = to_backend(program, backend, registry=BackendRegistry([backend]))
    modules = [summary.module for summary in result.report.delegates]
    torch.testing.assert_close(modules[0](X)[0], X * torch.tensor([1.0, 2.0, 3.0]))
