# SPDX-License-Identifier: Apache-2.0
"""Which writes to buffers are in place, and the results of programs with them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.testing import Function, called, edge
from delegatec.program import EmittedProgram, emit, write_program
from delegatec.program.emitted import KernelCall
from delegatec.program.planning.in_place import prepare_writes, writes_in_place
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter

aten = torch.ops.aten
ROWS, AT = torch.rand(1, 2, 3, 4), torch.tensor([1, -1, 4])


def _model(function: Callable[..., Any]) -> Function:
    return Function(function, keys=torch.zeros(1, 2, 8, 4), values=torch.zeros(1, 2, 8, 4))


def _write(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    self.keys[:, :, at] = rows
    self.values[:, :, at] = rows * 2
    return self.keys @ self.values.transpose(2, 3)


def _write_twice(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    self.keys[:, :, at] = rows
    before = self.keys.sum()
    self.keys[:, :, at + 1] = rows[0, 0, 0] + torch.zeros_like(rows)
    return self.keys + before


def _write_after_reading(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    before = self.keys.view(2, 32).sum(1)
    self.keys[:, :, at] = rows[0]
    return self.keys.view(2, 32) * before[:, None]


def _operators(program: EmittedProgram) -> list[str]:
    (method,) = program.methods
    calls = (call for call in method.instructions if isinstance(call, KernelCall))
    return [".".join(filter(None, method.operators[call.operator])) for call in calls]


@pytest.mark.parametrize(
    ("function", "writes"),
    [
        pytest.param(_write, 2, id="two buffers"),
        pytest.param(_write_twice, 2, id="one buffer twice"),
        pytest.param(_write_after_reading, 1, id="read before"),
    ],
)
def test_rows_are_written_to_the_buffer(function: Callable[..., Any], writes: int) -> None:
    model = _model(function)
    program = emit({"forward": edge(model, ROWS, AT)})
    found = _operators(program)
    assert found.count("aten::index_put_") == writes
    assert "aten::copy_" not in found and "aten::index_put.out" not in found
    file = io.BytesIO()
    write_program(program, file)
    method = Interpreter(parse_program(file.getvalue()).method("forward"))
    for rows, at in ((ROWS, AT), (ROWS + 1, AT - 1)):
        expected = model(rows, at)
        (actual,) = method.run([rows, at])
        torch.testing.assert_close(actual, expected)


def test_a_second_emission_is_the_same() -> None:
    program = edge(_model(_write), ROWS, AT)
    assert _operators(emit({"forward": program})) == _operators(emit({"forward": program}))


def test_negative_positions_are_counted_once() -> None:
    program = edge(_model(_write), ROWS, AT)
    prepare_writes(program)
    assert len(writes_in_place(program)) == 2 and called(program).count(aten.where.self) == 1

    def constant(self: Any, rows: torch.Tensor) -> Any:
        self.keys[:, :, torch.tensor([0, 5, 2])] = rows
        return rows

    program = edge(_model(constant), ROWS)
    prepare_writes(program)
    assert len(writes_in_place(program)) == 1 and aten.where.self not in called(program)


def _read_later(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    before = self.keys.clone()
    self.keys[:, :, at] = rows
    return (self.keys + 1) * (before + 2)


def _return(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    self.keys[:, :, at] = rows
    return self.keys.clone()


def _broadcast(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    self.keys[:, :, at] = rows[:, :, :1]
    return rows + 1


def _accumulate(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    self.keys.index_put_((at * 0,), torch.ones(3, 2, 8, 4), accumulate=True)
    return rows + 1


def _two_indices(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    self.keys[:, at % 2, at] = rows[:, 0]
    return rows + 1


def _branch(self: Any, rows: torch.Tensor, at: torch.Tensor) -> Any:
    chosen = torch.cond(rows.sum() > 0, lambda x, y: x + y, lambda x, y: x * y, (self.keys, self.values))
    self.keys[:, :, at] = rows
    return chosen + self.keys


@pytest.mark.parametrize("function", [_read_later, _return, _broadcast, _accumulate, _two_indices, _branch])
def test_other_writes_are_copies(function: Callable[..., Any]) -> None:
    program = edge(_model(function), ROWS, AT)
    assert aten.index_put.default in called(program)
    prepare_writes(program)
    assert not writes_in_place(program)
