# SPDX-License-Identifier: Apache-2.0
"""Weights are dequantized before a loop, not in each iteration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from delegatec.edge.hoist_constant_calls import hoist_constant_calls
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten


class Loops(nn.Module):
    """A scan and a loop that read an int8 weight, which one of them transposes, and a branch."""

    def __init__(self) -> None:
        super().__init__()
        # more than what is folded
        weight = torch.randint(-9, 9, (256, 256), generator=torch.Generator().manual_seed(0))
        self.register_buffer("weight", weight.to(torch.int8))

    def forward(self, x: Tensor) -> Any:
        weight = self.weight
        assert isinstance(weight, Tensor)

        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(state @ (weight.float() / 64) + row)
            return state, state * 2

        state, rows = scan(step, torch.zeros(2, 256), x)

        def shrink(n: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return n + 1, y[:, :128] @ (weight.float() / 1024)[:128] + (weight.float() / 1024)[9]

        _, z = while_loop(lambda n, y: n < 3, shrink, (torch.tensor(0), state))
        w = torch.cond(x.sum() > 0, lambda y: y @ (weight.float() / 64), lambda y: y + 1, (z,))
        return rows, w


def _in_bodies(program: EdgeProgram) -> list[list[Any]]:
    return [called(body) for body in program.bodies.values()]


def test_calls_are_before_the_loop() -> None:
    module, x = Loops(), torch.rand(4, 2, 256, generator=torch.Generator().manual_seed(1)) - 0.4
    program = edge(module, x)
    expected = module(x)
    (scanned, _, looped, then, _) = _in_bodies(program)
    assert all(aten._to_copy.default in body for body in (scanned, looped, then))
    hoist_constant_calls(program)
    for part in program.walk():
        verify(part)
    assert_computes(program, expected, x)
    assert_computes(program, module(-x), -x)
    (scanned, condition, looped, then, _) = _in_bodies(program)
    assert scanned.count(aten.mm.default) == looped.count(aten.mm.default) == 1
    assert aten._to_copy.default not in {*scanned, *condition, *looped}
    # views stay, since they cost nothing, and so do calls of a branch
    assert aten.slice.Tensor in looped and aten._to_copy.default in then
    assert called(program).count(aten._to_copy.default) == 2
    hoist_constant_calls(program)
    assert _in_bodies(program)[0] == scanned
