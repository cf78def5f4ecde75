# SPDX-License-Identifier: Apache-2.0
"""Weights are dequantized where they are used."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from delegatec.edge import to_edge
from delegatec.edge.passes.sink_constant_calls import sink_constant_calls
from delegatec.edge.printer import print_program
from delegatec.edge.testing import assert_computes


class Layers(nn.Module):
    """Three int8 weights, which are all dequantized first."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("first", "second", "third"):
            self.register_buffer(name, torch.randint(-9, 9, (64, 64), dtype=torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        third, second, first = (w.float() / 8 for w in (self.third, self.second, self.first))
        norm = (second * second).sum()
        return ((x @ first).relu() @ second + norm) @ third


def test_calls_are_before_their_first_use() -> None:
    module, x = Layers(), torch.rand(2, 64)
    program = to_edge(torch.export.export(module, (x,)))
    expected = module(x)
    sink_constant_calls(program)
    assert_computes(program, expected, x)
    calls = [
        line.split(" = ")[1].split("(")[0] for line in print_program(program).splitlines() if " = " in line
    ]
    names = [call.removeprefix("aten.").partition(".")[0] for call in calls]
    dequantized = ["_to_copy", "div"]
    # the sum is smaller than its operand, and stays in front, with its operands
    assert names == [
        *(*dequantized, "mul", "sum"),
        *(*dequantized, "mm", "relu", "mm", "add"),
        *(*dequantized, "mm"),
    ]
    once = print_program(program)
    sink_constant_calls(program)
    assert print_program(program) == once
