# SPDX-License-Identifier: Apache-2.0
"""Constant folding, if the file does not grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import Dim

from delegatec.edge import to_edge
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.fold_constants import fold_constants, fold_own_constants
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, assert_computes, called, edge

aten = torch.ops.aten
X = torch.arange(6.0).view(2, 3)
PASSES = (fold_constants, eliminate_dead_code)
LARGE = torch.arange(40_000.0).view(200, 200)


def _with(model: Any, *inputs: torch.Tensor, **buffers: torch.Tensor) -> EdgeProgram:
    return edge(Function(model, **buffers), *inputs, passes=PASSES)


def test_small_subgraphs_become_one_constant() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        return x + torch.sin(self.a * 2).view(3) + torch.arange(3)

    program = _with(model, X, a=torch.ones(1, 3))
    assert called(program) == [aten.add.Tensor, aten.add.Tensor]
    assert_computes(program, X + torch.sin(torch.ones(3) * 2) + torch.arange(3), X)
    assert all(value.is_contiguous() for value in program.constants.values())


def test_factorizations_of_any_size_are_computed() -> None:
    square = torch.rand(200, 200) + 200 * torch.eye(200)

    def model(self: Any, x: torch.Tensor) -> Any:
        q, r = torch.linalg.qr(self.a)
        values, vectors = torch.linalg.eigh(self.a[:3, :3] @ self.a[:3, :3].mT)
        return x @ q @ r, values * vectors, torch.linalg.svd(self.a[:4, :5])[2]

    x = torch.rand(2, 200)
    program = _with(model, x, a=square)
    assert called(program) == [aten.mm.default, aten.mm.default]
    assert_computes(program, Function(model, a=square)(x), x)


def test_inputs_stay_after_the_constants() -> None:
    program = edge(lambda x, y: x * torch.arange(3) - y, X, X + 1, passes=PASSES)
    assert [node.name for node in program.user_inputs()] == ["args_0", "args_1"]
    assert_computes(program, X * torch.arange(3) - (X + 1), X, X + 1)


def test_a_large_result_of_a_small_constant_is_computed_at_run_time() -> None:
    program = _with(lambda self, x: x + self.a.expand(200, 200), LARGE, a=torch.ones(200))
    assert aten.expand.default in called(program)
    program = _with(lambda self, x: x + self.a.repeat(200, 1), LARGE, a=torch.ones(200))
    assert called(program) != [aten.add.Tensor]


def test_a_large_constant_is_not_moved_to_a_copy_of_itself() -> None:
    program = _with(lambda self, x: (x @ self.a.T, x @ self.a), LARGE + 1, a=LARGE)
    assert aten.permute.default in called(program)
    assert [value.data_ptr() for value in program.constants.values()] == [LARGE.data_ptr()]


def test_a_large_constant_is_replaced_by_a_smaller_one() -> None:
    program = _with(lambda self, x: x + self.a.to(torch.float16), LARGE.half(), a=LARGE)
    assert called(program) == [aten.add.Tensor]
    assert [value.dtype for value in program.constants.values()] == [torch.float16]


def test_a_large_constant_that_others_read_stays_alone() -> None:
    program = _with(lambda self, x: (x + self.a.half(), self.a * x), LARGE + 1, a=LARGE)
    assert aten._to_copy.default in called(program)
    assert len(program.constants) == 1


def test_mutable_buffers_are_not_constants() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        result = x + self.a * 2
        self.a.add_(1)
        return result

    program = _with(model, X, a=torch.zeros(3))
    assert aten.mul.Scalar in called(program)
    assert_computes(program, (torch.ones(3), X), X)


def test_random_values_and_dynamic_sizes_stay() -> None:
    assert aten.rand.default in called(edge(lambda x: x + torch.rand(3), X, passes=PASSES))
    program = edge(
        lambda x: x + torch.arange(x.shape[0])[:, None],
        X,
        dynamic_shapes=({0: Dim("rows", min=2, max=9)},),
        passes=PASSES,
    )
    assert aten.arange.start_step in called(program)


def test_the_constants_of_the_model_stay_as_they_were() -> None:
    a = torch.ones(3)
    _with(lambda self, x: x + self.a * 2, X, a=a)
    assert torch.equal(a, torch.ones(3))


def test_the_folded_program() -> None:
    program = edge(lambda x: x * torch.tensor([2.0, 4.0]).rsqrt(), torch.ones(2), passes=PASSES)
    text = "\n".join(line.split("  # ")[0] for line in print_program(program).splitlines())
    assert text == (
        "forward(%args_0: f32[2]):\n"
        "  @lifted_tensor_0.rsqrt: f32[2]\n"
        "  %2: f32[2] = aten.mul.Tensor(%args_0, @lifted_tensor_0.rsqrt)\n"
        "  return [%2]"
    )


def _transposed(
    *results: Callable[[Any, torch.Tensor], torch.Tensor], **buffers: torch.Tensor
) -> EdgeProgram:
    model = Function(lambda self, x: [result(self, x) for result in results], **buffers)
    return edge(model, LARGE + 1, passes=())


def test_a_transposed_constant_is_stored_if_only_that_is_used() -> None:
    program = _transposed(lambda self, x: x @ self.a.T, a=LARGE)
    assert aten.permute.default in called(program)
    assert fold_own_constants(program) and aten.permute.default not in called(program)
    assert program.names_in_model() == dict.fromkeys(program.constants, "a.permute")
    assert_computes(program, [(LARGE + 1) @ LARGE.T], LARGE + 1)


def test_a_transposed_constant_with_other_uses_stays() -> None:
    twice = _transposed(lambda self, x: x @ self.a.T, lambda self, x: x * self.a, a=LARGE)
    same = _transposed(lambda self, x: x @ self.a.T, lambda self, x: x * self.b, a=LARGE, b=LARGE)
    inside = _transposed(
        lambda self, x: torch.cond(x.sum() > 0, lambda x: x * self.a, lambda x: x @ self.a.T, (x,)), a=LARGE
    )
    wider = _transposed(lambda self, x: x * self.a.double(), a=LARGE)
    for program in (twice, same, inside, wider):
        before = {name: value.data_ptr() for name, value in program.constants.items()}
        assert not fold_own_constants(program)
        assert {name: value.data_ptr() for name, value in program.constants.items()} == before


def test_a_transposed_constant_that_has_to_keep_its_name_stays() -> None:
    program = _transposed(lambda self, x: x @ self.a.T, a=LARGE)
    assert not fold_own_constants(program, kept={"a"}) and fold_own_constants(program, kept={"b"})


def test_own_constants_of_bodies_are_folded() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x @ self.a.T, lambda x: x @ self.b.T, (x,))
        return result

    program = _transposed(model, a=LARGE, b=LARGE + 1)
    assert fold_own_constants(program)
    assert all(aten.permute.default not in called(part) for part in program.walk())
    assert_computes(program, [(LARGE + 1) @ LARGE.T], LARGE + 1)


def test_names_of_folded_constants_stay_short() -> None:
    class Nested(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("m", torch.rand(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            m = self.m
            for i in range(12):
                m = torch.where(m > i, m, m.transpose(-1, -2) + i)
            return x + m

    program = to_edge(torch.export.export(Nested(), (torch.rand(3, 3),)))
    assert all(len(name) < 400 for name in program.names_in_model().values())


def test_a_constant_position_selects_a_constant() -> None:
    """The position is an unbacked symbol of torch.export, and the offset of the result is, too."""

    def function(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        picked = torch.atleast_2d(self.table[self.position])
        x.mul_(y)  # makes torch retrace the program
        return picked

    model = Function(function, table=torch.tensor([1, 0]), position=torch.tensor(1))
    x = torch.ones(2)
    program = edge(model, x, x.clone())
    assert_computes(program, (x, torch.tensor([[0]])), x, x)


def test_calls_without_operands_are_computed() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        return x * torch.blackman_window(3) + torch.blackman_window(1)

    program = _with(model, X, unused=torch.ones(1))
    assert called(program) == [aten.mul.Tensor, aten.add.Tensor]
