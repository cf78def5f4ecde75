# SPDX-License-Identifier: Apache-2.0
"""Views of buffers that methods write to: where they need no copy, and the results of programs with them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import Function, edge
from delegatec.program import EmittedProgram, emit, write_program
from delegatec.program.emitted import KernelCall
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter
from delegatec.verify.arena import Arena

_LENGTH: Final = 8
_COPIES: Final = ("aten::slice_copy", "aten::select_copy", "aten::view_copy")
ROWS: Final = torch.rand(2, 1, 4)


def _model(function: Callable[..., Any]) -> Function:
    return Function(function, keys=torch.zeros(2, _LENGTH, 4))


def _end(at: Tensor) -> Any:
    """Returns the number of rows that are filled, which a program reads from its input."""
    end = at[0].item() + 1
    torch._check(end >= 1)
    torch._check(end <= _LENGTH)
    return end


def _filled(self: Any, rows: Tensor, at: Tensor) -> Any:
    end = _end(at)
    self.keys[:, at] = rows
    return self.keys[1][:end].sum(0) * self.keys[0][:end].sum(0)


def _before(self: Any, rows: Tensor, at: Tensor) -> Any:
    end = _end(at)
    before = self.keys[1][:end].sum(0)
    self.keys[:, at] = rows
    return before * 2 + self.keys[1][:end].sum(0)


def _all(self: Any, rows: Tensor, at: Tensor) -> Any:
    self.keys[:, at] = rows
    return self.keys.view(16, 4).sum(0) * self.keys[1].view(4, 8)[2].sum()


@pytest.mark.parametrize("function", [_filled, _before, _all])
def test_views_need_no_copies(function: Callable[..., Any]) -> None:
    model = _model(function)
    program = emit({"forward": edge(model, ROWS, torch.tensor([2]))})
    assert not {*_operators(program)}.intersection(_COPIES)
    _check(model, _interpreter(program))


def _read_later(self: Any, rows: Tensor, at: Tensor) -> Any:
    end = _end(at)
    before = self.keys.clone()[1][:end]
    self.keys[:, at] = rows
    return before.sum(0) + self.keys[1].sum(0)


def _returned(self: Any, rows: Tensor, at: Tensor) -> Any:
    self.keys[:, at] = rows
    return self.keys[1], rows * 2


def _kept(self: Any, rows: Tensor, at: Tensor) -> Any:
    """The new value of one buffer is a view of another, which is written before."""
    self.keys[:, at] = rows
    self.last.copy_(self.keys[1])
    return self.last + 1


@pytest.mark.parametrize("function", [_read_later, _returned, _kept])
def test_other_views_are_copies(function: Callable[..., Any]) -> None:
    model = _model(function)
    model.register_buffer("last", torch.zeros(_LENGTH, 4))
    program = emit({"forward": edge(model, ROWS, torch.tensor([2]))})
    assert {*_operators(program)}.intersection((*_COPIES, "aten::clone", "aten::copy_"))
    _check(model, _interpreter(program))


def test_inputs_that_a_program_writes_to_have_no_views() -> None:
    def write(keys: Tensor, rows: Tensor, at: Tensor) -> Tensor:
        keys[:, at] = rows
        return keys[1].sum(0) + keys.view(16, 4).sum(0)

    keys, at = torch.rand(2, _LENGTH, 4), torch.tensor([2])
    program = emit({"forward": edge(write, keys, ROWS, at)})
    assert {*_operators(program)}.intersection(_COPIES)
    given = keys.clone()
    (found,) = _interpreter(program).run([given, ROWS, at])
    torch.testing.assert_close(found, write(keys, ROWS, at))
    torch.testing.assert_close(given, keys)


def test_methods_that_share_a_buffer_have_views_of_it() -> None:
    model = _model(_filled)
    write = edge(model, ROWS, torch.tensor([2]), method="write", state={"keys", "function"})

    def read(self: Any, at: Tensor) -> Any:
        return self.keys[1][: _end(at)].sum(0)

    reader = Function(read, other=torch.zeros(3), keys=model.keys)
    read_program = edge(reader, torch.tensor([2]), method="read", state={"keys"})
    program = emit({"write": write, "read": read_program})
    assert not {*_operators(program, 0), *_operators(program, 1)}.intersection(_COPIES)
    file, shared = io.BytesIO(), dict[int, Arena]()
    write_program(program, file)
    parsed = parse_program(file.getvalue())
    methods = {name: Interpreter(parsed.method(name), shared=shared) for name in ("write", "read")}
    for position in range(4):
        rows, at = ROWS + position, torch.tensor([position])
        expected = model(rows, at)
        torch.testing.assert_close(methods["write"].run([rows, at])[0], expected)
        torch.testing.assert_close(methods["read"].run([at])[0], model.keys[1, : position + 1].sum(0))


def _operators(program: EmittedProgram, index: int = 0) -> list[str]:
    method = program.methods[index]
    return [
        method.operators[each.operator][0] for each in method.instructions if isinstance(each, KernelCall)
    ]


def _interpreter(program: EmittedProgram) -> Interpreter:
    file = io.BytesIO()
    write_program(program, file)
    return Interpreter(parse_program(file.getvalue()).method("forward"))


def _check(model: Function, method: Interpreter) -> None:
    for position in (0, 1, 5, 7, 2):
        rows, at = ROWS + position, torch.tensor([position])
        expected = model(rows, at)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for found, each in zip(method.run([rows, at]), wanted, strict=True):
            torch.testing.assert_close(found, each)
