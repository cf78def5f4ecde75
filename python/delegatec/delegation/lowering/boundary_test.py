# SPDX-License-Identifier: Apache-2.0
"""Delegates that exchange int64 as int32."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.delegation import BackendRegistry, to_backend
from delegatec.delegation.testing import EagerBackend, SupportsAllBut, edge
from delegatec.diagnostics import DelegatecError
from delegatec.edge import print_program

aten = torch.ops.aten


class NarrowBackend(EagerBackend):
    """Exchanges int64 as int32."""

    def boundary_dtype(self, dtype: torch.dtype) -> torch.dtype:
        return torch.int32 if dtype == torch.int64 else dtype


class Gather(torch.nn.Module):
    """Returns an integer that it computes, one that it uses after an unsupported operator, and floats."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(8, 4)
        self.shift = torch.nn.Buffer(torch.tensor([1, 2, 3]))

    def forward(self, i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        j = i + self.shift
        s = torch.sin(x)
        return j, self.table(j) + s, torch.relu(j) + i


ARGS = (torch.tensor([0, 1, 4]), torch.randn(3, 4))


@pytest.mark.parametrize("left", [(), (aten.sin.default,), (aten.relu.default, aten.sin.default)])
def test_integers_cross_as_int32(left: tuple[torch._ops.OpOverload, ...]) -> None:
    module = Gather().eval()
    program = edge(module, ARGS)
    program, report = to_backend(program, SupportsAllBut(*left), registry=BackendRegistry([NarrowBackend()]))
    for delegate in report.delegates:
        original = delegate.module.original
        dtypes = {node.meta["val"].dtype for node in (*original.inputs, *original.outputs)}
        assert torch.int64 not in dtypes
    values = [program.constants.get(node.name) for node in program.placeholders()]
    inputs = iter(ARGS)
    found = torch.fx.Interpreter(program.graph_module).run(
        *(next(inputs) if value is None else value for value in values)
    )
    results: Any = program.output_node().args[0]
    assert [spec.arg.name for spec in program.output_specs] == [node.name for node in results]
    for result, wanted in zip(found, module(*ARGS), strict=True):
        assert result.dtype == wanted.dtype
        torch.testing.assert_close(result, wanted)
    program.graph.lint()


def test_a_complete_program_is_rejected() -> None:
    registry = BackendRegistry([NarrowBackend()])
    with pytest.raises(DelegatecError) as caught:
        to_backend(NarrowBackend().id, edge(Gather(), ARGS), registry=registry)
    assert {each.code for each in caught.value.diagnostics} == {"DC405"}
    assert "does not accept int64 inputs and outputs: i" in str(caught.value)


def test_a_delegate_of_floats_has_no_conversions() -> None:
    program = edge(torch.nn.Linear(4, 4), (torch.randn(2, 4),))
    program, _ = to_backend(program, SupportsAllBut(), registry=BackendRegistry([NarrowBackend()]))
    assert "_to_copy" not in print_program(program)
