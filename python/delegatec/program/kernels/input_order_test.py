# SPDX-License-Identifier: Apache-2.0
"""Inputs that are not row-major: the emitted and the read program."""

from __future__ import annotations

import io
from typing import Any

import torch

from delegatec.edge.testing import Function, edge
from delegatec.program import EmittedProgram, emit, write_program
from delegatec.program.emitted import KernelCall, TensorValue
from delegatec.program.kernels.input_order import REORDER, reorder_inputs
from delegatec.program.reader import parse_program
from delegatec.program.reader.model import Tensor

IMAGE = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
ORDER = (0, 2, 3, 1)


def _operators(program: EmittedProgram) -> list[tuple[str, str]]:
    (method,) = program.methods
    return [method.operators[call.operator] for call in method.instructions if isinstance(call, KernelCall)]


def _orders(program: EmittedProgram) -> list[tuple[int, ...]]:
    return [value.dim_order for value in program.methods[0].values if isinstance(value, TensorValue)]


def test_one_copy_serves_all_readers() -> None:
    program = emit({"forward": edge(lambda x: (x + 1, x * x.exp()), IMAGE)})
    assert _operators(program)[0] == REORDER and _operators(program).count(REORDER) == 1
    assert sorted(_orders(program))[-1] == ORDER and _orders(program).count(ORDER) == 1


def test_a_second_emission_is_the_same() -> None:
    edge_program = edge(lambda x: (x, x + 1), IMAGE)
    first, second = (emit({"forward": edge_program}) for _ in range(2))
    assert first.methods[0].instructions == second.methods[0].instructions
    assert first.methods[0].values == second.methods[0].values


def test_an_input_that_nothing_reads_is_not_copied() -> None:
    edge_program = edge(lambda x, y: y + 1, IMAGE, torch.ones(2))
    reorder_inputs(edge_program)
    program = emit({"forward": edge_program})
    assert REORDER not in _operators(program)
    assert _orders(program).count(ORDER) == 1


def test_a_body_of_another_order_is_row_major() -> None:
    """Operands of bodies have separate names, which may equal those of inputs."""

    def model(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    program = emit({"forward": edge(model, IMAGE)})
    assert _orders(program).count(ORDER) == 1


def test_an_input_that_is_written_to_is_reordered_back() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(self.factor)
        return x + 1

    program = emit({"forward": edge(Function(model, factor=torch.tensor(3.0)), IMAGE)})
    assert _operators(program).count(REORDER) == 2 and ("aten::copy_", "") not in _operators(program)
    assert _operators(program)[-1] == REORDER


def test_the_order_is_in_the_file() -> None:
    file = io.BytesIO()
    write_program(emit({"forward": edge(lambda x: x + 1, IMAGE)}), file)
    method = parse_program(file.getvalue()).method("forward")
    (given,), (returned,) = ([method.values[i] for i in each] for each in (method.inputs, method.outputs))
    assert isinstance(given, Tensor) and isinstance(returned, Tensor)
    assert (given.dim_order, given.strides) == (ORDER, IMAGE.stride())
    assert returned.dim_order == (0, 1, 2, 3)
