# SPDX-License-Identifier: Apache-2.0
"""Dead code is removed with its constants; mutable buffers are kept."""

from __future__ import annotations

from typing import Any

import torch

from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code, remove_assertions
from delegatec.edge.testing import Function, assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
X = torch.arange(6.0).view(2, 3)


def test_unused_chains_are_removed_with_their_constants() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        return x + self.used, torch.sin(x) + self.unused

    program = edge(Function(model, used=torch.ones(3), unused=torch.zeros(3)), X)
    results: Any = program.output_node().args[0]
    program.output_node().args = ((results[0],),)
    program.output_specs.pop()
    assert eliminate_dead_code(program)
    assert called(program) == [aten.add.Tensor]
    assert [spec.target for spec in program.input_specs] == ["used", None]
    assert [value.tolist() for value in program.constants.values()] == [[1, 1, 1]]
    verify(program)
    assert not eliminate_dead_code(program)
    assert_computes(program, X + 1, X)


def test_inputs_stay_though_nothing_reads_them() -> None:
    program = edge(lambda x, y: y + 1, X, X)
    assert len(list(program.user_inputs())) == 2
    assert_computes(program, X + 1, X, X)


def test_a_buffer_that_is_only_written_to_stays() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        self.last.copy_(x)
        return x + 1

    program = edge(Function(model, last=torch.zeros(2, 3)), X)
    assert list(program.mutated_inputs()) == [spec.arg.name for spec in program.input_specs if spec.target]
    assert_computes(program, (X, X + 1), X)


def test_assertions_are_removed() -> None:
    program = edge(lambda x: x.to(torch.float64) + 1, X, passes=())
    with program.graph.inserting_before(program.output_node()):
        check = program.graph.call_function(
            aten._assert_tensor_metadata.default, (program.placeholders()[0],)
        )
    assert remove_assertions(program)
    assert check not in program.graph.nodes
    assert not remove_assertions(program)
