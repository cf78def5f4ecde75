# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that are not row-major: the emitted and the read program."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.edge.testing import Function, edge
from delegatec.program import EmittedProgram, ProgramOptions, emit, write_program
from delegatec.program.emitted import KernelCall, TensorValue
from delegatec.program.kernels.dim_order import REORDER, reorder_boundary
from delegatec.program.reader import parse_program
from delegatec.program.reader.model import Tensor
from delegatec.verify import Interpreter

IMAGE = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
ORDER = (0, 2, 3, 1)


def _operators(program: EmittedProgram) -> list[tuple[str, str]]:
    (method,) = program.methods
    return [method.operators[call.operator] for call in method.instructions if isinstance(call, KernelCall)]


def _orders(program: EmittedProgram) -> list[tuple[int, ...]]:
    return [value.dim_order for value in program.methods[0].values if isinstance(value, TensorValue)]


def _output_orders(program: EmittedProgram) -> list[tuple[int, ...]]:
    (method,) = program.methods
    values = [method.values[index] for index in method.outputs]
    return [value.dim_order for value in values if isinstance(value, TensorValue)]


def test_one_copy_serves_all_readers() -> None:
    program = emit({"forward": edge(lambda x: ((x + 1).sum(), (x * x.exp()).sum()), IMAGE)})
    assert _operators(program)[0] == REORDER and _operators(program).count(REORDER) == 1
    assert sorted(_orders(program))[-1] == ORDER and _orders(program).count(ORDER) == 1


def test_outputs_have_the_order_of_eager_mode() -> None:
    program = emit({"forward": edge(lambda x: (x + 1, x.contiguous() * 2, x.sum(1)), IMAGE)})
    assert _output_orders(program) == [ORDER, (), ()]
    assert _operators(program).count(REORDER) == 2


def test_outputs_are_row_major_if_all_inputs_are() -> None:
    program = emit(
        {"forward": edge(lambda x: x.to(memory_format=torch.channels_last) + 1, IMAGE.contiguous())}
    )
    assert _output_orders(program) == [()] and REORDER not in _operators(program)


def _is_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last)


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """Returns values for which no order of dimensions but the last is that of the input."""
    return x.permute(0, 2, 3, 1).reshape(2, 20, 3).cumsum(1).view(2, 4, 5, 3).permute(0, 3, 1, 2)


PERMUTED: dict[str, tuple[Any, int]] = {
    "input": (lambda x: x.permute(0, 2, 3, 1) * 2, 0),
    "input twice": (lambda x: (x.permute(0, 2, 3, 1) * 2, x.permute(0, -2, 3, 1).exp()), 0),
    "input, also used as it is": (lambda x: (x.permute(0, 2, 3, 1) * 2, x.sum(1)), 1),
    "another order of the input": (lambda x: x.permute(0, 3, 1, 2) * 2, 1),
    "input, returned": (lambda x: x.permute(0, 2, 3, 1), 0),
    "output": (_mixed, 0),
    "output twice": (lambda x: ((y := _mixed(x)), y), 1),
    "output, also used": (lambda x: ((y := _mixed(x)), y.sum(1)), 0),
    "input, returned as it is": (lambda x: (x, x.sum()), 2),
}


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("name", PERMUTED)
def test_permutations_without_copies(name: str, planned: bool) -> None:
    """Of the tensors in planned memory; the others are copied."""
    function, copies = PERMUTED[name]
    expected = function(IMAGE)
    options = ProgramOptions(plan_inputs=planned, plan_outputs=planned)
    program = emit({"forward": edge(function, IMAGE)}, options=options)
    if planned:
        assert _operators(program).count(REORDER) == copies
    file = io.BytesIO()
    write_program(program, file)
    results = Interpreter(parse_program(file.getvalue()).method("forward")).run([IMAGE])
    for result, wanted in zip(results, pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(result, wanted)
        assert result.dim() < 4 or _is_last(result) == _is_last(wanted)


def test_a_second_emission_is_the_same() -> None:
    edge_program = edge(lambda x: (x, x + 1), IMAGE)
    first, second = (emit({"forward": edge_program}) for _ in range(2))
    assert first.methods[0].instructions == second.methods[0].instructions
    assert first.methods[0].values == second.methods[0].values


def test_an_input_that_nothing_reads_is_not_copied() -> None:
    edge_program = edge(lambda x, y: y + 1, IMAGE, torch.ones(2))
    reorder_boundary(edge_program)
    program = emit({"forward": edge_program})
    assert REORDER not in _operators(program)
    assert _orders(program).count(ORDER) == 1


def test_a_body_of_another_order_is_row_major() -> None:
    """Operands of bodies have separate names, which may equal those of inputs."""

    def model(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    program = emit({"forward": edge(model, IMAGE)})
    assert _orders(program).count(ORDER) == 2


def test_an_input_that_is_written_to_is_reordered_back() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(self.factor)
        return x + 1

    program = emit({"forward": edge(Function(model, factor=torch.tensor(3.0)), IMAGE)})
    assert _operators(program).count(REORDER) == 3 and ("aten::copy_", "") not in _operators(program)
    assert _operators(program)[-1] == REORDER


def test_the_order_is_in_the_file() -> None:
    file = io.BytesIO()
    write_program(emit({"forward": edge(lambda x: x + 1, IMAGE)}), file)
    method = parse_program(file.getvalue()).method("forward")
    (given,), (returned,) = ([method.values[i] for i in each] for each in (method.inputs, method.outputs))
    assert isinstance(given, Tensor) and isinstance(returned, Tensor)
    assert (given.dim_order, given.strides) == (ORDER, IMAGE.stride())
    assert (returned.dim_order, returned.strides) == (ORDER, IMAGE.stride())
