# SPDX-License-Identifier: Apache-2.0
"""From the normal form to the file, work grows as the program does: by lines of Python, not by seconds."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from delegatec.delegation.testing import lines_run
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.decompose import decompose
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.verifier import verify
from delegatec.program import emit, write_program

aten = torch.ops.aten


class Synthetic:
    """A program of many calls on one small input, made without a trace."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode()
        with self._mode:
            self._val = torch.empty(4)
        self._graph = Graph()
        self._specs: list[InputSpec] = []
        self._constants: dict[str, torch.Tensor] = {}

    def input(self) -> Node:
        node = self._graph.placeholder("x")
        self._specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
        return self._with_value(node)

    def constant(self, number: float) -> Node:
        node = self._graph.placeholder(f"p{len(self._specs)}")
        self._specs.append(InputSpec(InputKind.PARAMETER, TensorArgument(node.name), f"weight.{node.name}"))
        self._constants[node.name] = torch.full((4,), number)
        return self._with_value(node)

    def call(self, target: object, *args: object) -> Node:
        return self._with_value(self._graph.call_function(target, args))  # type: ignore[arg-type]

    def program(self, *results: Node) -> EdgeProgram:
        self._graph.output(results)
        nothing = pytree.tree_structure(((), {}))
        outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
        module = GraphModule({}, self._graph)
        return EdgeProgram("forward", module, self._specs, outputs, self._constants, {}, nothing, nothing)

    def _with_value(self, node: Node) -> Node:
        node.meta.update(val=self._val, source=None, debug_handle=1)
        return node


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

    _to_file(make(12))  # what is done once in a process
    # Eight times the nodes: a quadratic algorithm would run sixty-four times as many lines.
    assert cost(800) < 9 * cost(100)


def _to_file(program: EdgeProgram) -> None:
    decompose(program)
    run_passes(program, SIMPLIFY)
    verify(program)
    file = io.BytesIO()
    write_program(emit({"forward": program}), file)
    assert file.tell() > 500
