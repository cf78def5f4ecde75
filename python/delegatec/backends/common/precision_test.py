# SPDX-License-Identifier: Apache-2.0
"""The graphs that result from the passes of half precision."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.precision import to_bfloat16, to_float16
from delegatec.delegation.delegates.extract import extract_view
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.float32_regions import FLOAT32
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.printer import print_program
from delegatec.edge.verifier import verify


class Model(torch.nn.Module):
    """Floats and integers in and out, a weight, and a dtype among the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 1.0 + 2.0**-20))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x * self.weight + i.to(torch.float32)).relu(), i + 1


def private(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> EdgeProgram:
    program = to_edge(torch.export.export(module, args))
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    return extract_view(PartitionView(program, nodes), program.specs_by_name())


@pytest.mark.parametrize(("narrow", "dtype"), [(to_float16, "f16"), (to_bfloat16, "bf16")])
def test_inputs_and_outputs_keep_their_dtypes(narrow: Pass, dtype: str) -> None:
    program = private(Model(), (torch.rand(2, 3), torch.arange(3)))
    assert narrow(program)
    verify(program)
    text = [line.split("  #")[0].strip() for line in print_program(program).splitlines()]
    calls = [line for line in text if "aten." in line]
    assert len(calls) == 7, text
    assert "_to_copy" in calls[0] and f" {dtype}[2, 3]" in calls[0], calls
    assert "_to_copy" in calls[-1] and "f32[2, 3]" in calls[-1], calls
    assert all("f32" not in line for line in calls[:-1]), calls


class Wide(torch.nn.Module):
    """A region in float32, whose operands and results other calls use, too, with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = x.sin()
        b = (a * y).exp() * self.weight
        return a.cos(), b, b.tanh()


def test_marked_calls_stay_in_float32() -> None:
    program = private(Wide(), (torch.rand(2, 3), torch.rand(2, 3)))
    for node in program.graph.nodes:
        if node.target in (torch.ops.aten.mul.Tensor, torch.ops.aten.exp.default):
            node.meta[FLOAT32] = True
    to_float16(program)
    verify(program)
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    dtypes = [(node.target._opname, node.meta["val"].dtype) for node in calls]
    half, single = torch.float16, torch.float32
    assert dtypes == [
        ("_to_copy", half),  # x
        ("sin", half),
        ("_to_copy", single),  # y is read in float32 without a cast
        ("mul", single),
        ("exp", single),
        ("mul", single),
        ("cos", half),
        ("_to_copy", half),
        ("tanh", half),
        ("_to_copy", single),  # the results that are not in float32
        ("_to_copy", single),
    ], dtypes
    weight = next(node for node in program.placeholders() if node.name in program.constants)
    assert weight.meta["val"].dtype == single


def test_a_constant_keeps_its_digits() -> None:
    program = private(Model(), (torch.rand(2, 3), torch.arange(3)))
    to_float16(program)
    (name,) = program.constants
    (node,) = (node for node in program.placeholders() if node.name == name)
    assert (program.constants[name].dtype, node.meta["val"].dtype) == (torch.float32, torch.float16)


def test_a_program_without_float32_stays() -> None:
    class Integers(torch.nn.Module):
        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return i * 2 + 1

    program = private(Integers(), (torch.arange(3),))
    before = print_program(program)
    assert not to_float16(program)
    assert print_program(program) == before
