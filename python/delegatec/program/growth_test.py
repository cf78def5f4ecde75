# SPDX-License-Identifier: Apache-2.0
"""Work in lines of Python grows linearly with the size of the program, from the normal form to the file."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch

from delegatec.delegation.testing import lines_run
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.legalize.normal_form import decompose
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing.synthetic import Synthetic
from delegatec.edge.verifier import verify
from delegatec.program import ProgramOptions, emit, write_program

aten = torch.ops.aten


def chain(count: int) -> EdgeProgram:
    made = Synthetic()
    x = y = made.input()
    for index in range(count):
        y = made.call(aten.add.Tensor if index % 2 else aten.mul.Tensor, y, x)
    return made.program(y)


def wide(count: int) -> EdgeProgram:
    made = Synthetic()
    x = made.input()
    return made.program(*(made.call(aten.add.Scalar, x, float(index)) for index in range(count)))


def constants(count: int) -> EdgeProgram:
    """Every second one can be folded."""
    made = Synthetic()
    weights = [made.constant(float(index)) for index in range(count // 2)]
    y = made.input()
    for index, weight in enumerate(weights):
        operand = made.call(aten.mul.Scalar, weight, 2.5) if index % 2 else weight
        y = made.call(aten.add.Tensor, y, operand)
    return made.program(y)


def residual(count: int) -> EdgeProgram:
    made = Synthetic()
    y = made.input()
    for _ in range(count // 3):
        y = made.call(aten.add.Tensor, made.call(aten.mul.Scalar, made.call(aten.relu.default, y), 1.5), y)
    return made.program(y)


def decomposed(count: int) -> EdgeProgram:
    made = Synthetic()
    y = made.input()
    for _ in range(count):
        y = made.call(aten.softplus.default, y)
    return made.program(y)


@pytest.mark.parametrize("make", [chain, wide, constants, residual, decomposed])
def test_lines_grow_as_the_nodes(make: Callable[[int], EdgeProgram]) -> None:
    def cost(count: int) -> int:
        program = make(count)
        return lines_run(lambda: _to_file(program))

    _to_file(make(12))  # exclude one-time work
    # Eight times the nodes: a quadratic algorithm would run sixty-four times as many lines.
    assert cost(800) < 9 * cost(100)


def split(count: int) -> EdgeProgram:
    """All outputs are in the memory of the first one."""
    made = Synthetic()
    x = made.call(aten.neg.default, made.input())
    return made.program(x, *(made.call(aten.view.default, x, [4]) for _ in range(count)))


@pytest.mark.parametrize("make", [wide, split])
@pytest.mark.parametrize("plan_outputs", [True, False])
def test_lines_grow_as_the_outputs(make: Callable[[int], EdgeProgram], plan_outputs: bool) -> None:
    def cost(count: int) -> int:
        program = make(count)
        return lines_run(
            lambda: emit({"forward": program}, options=ProgramOptions(plan_outputs=plan_outputs))
        )

    cost(12)  # exclude one-time work
    assert cost(800) < 9 * cost(100)


def _to_file(program: EdgeProgram) -> None:
    decompose(program)
    run_passes(program, SIMPLIFY)
    verify(program)
    file = io.BytesIO()
    write_program(emit({"forward": program}), file)
    assert file.tell() > 500
