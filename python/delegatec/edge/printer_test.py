# SPDX-License-Identifier: Apache-2.0
"""The text of a program."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import Dim

from delegatec.edge.printer import print_program
from delegatec.edge.testing import Function, edge

X = torch.ones(2, 3)


def _text(program: Any) -> str:
    return "\n".join(line.split("  # ")[0] for line in print_program(program).splitlines())


def test_text() -> None:
    def model(self: Any, x: torch.Tensor, n: torch.Tensor) -> Any:
        values, indices = torch.max(x @ self.weight, 1)
        return values.half(), {"i": indices + n}, None, 3

    program = edge(Function(model, weight=torch.ones(3, 4)), X, torch.tensor([1, 2]))
    assert _text(program) == (
        "forward(%args_0: f32[2, 3], %args_1: i64[2]):\n"
        "  @weight: f32[3, 4]\n"
        "  %3: f32[2, 4] = aten.mm.default(%args_0, @weight)\n"
        "  %4: (f32[2], i64[2]) = aten.max.dim(%3, 1)\n"
        "  %5: f32[2] = getitem(%4, 0)\n"
        "  %6: i64[2] = getitem(%4, 1)\n"
        "  %7: f16[2] = aten._to_copy.default(%5, dtype=torch.float16)\n"
        "  %8: i64[2] = aten.add.Tensor(%6, %args_1)\n"
        "  return [%7, %8, None, 3]"
    )


def test_lines_have_their_source() -> None:
    lines = print_program(edge(lambda x: x.sin(), X)).splitlines()
    assert "testing/__init__.py:" in lines[1] and lines[1].count("  # ") == 1


def test_names_of_nodes_are_not_in_it() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.bias) * 2

    program = edge(Function(model, bias=torch.ones(3)), X)
    before = print_program(program)
    for index, node in enumerate(program.graph.nodes):
        if node.op == "call_function":
            node._rename(f"other_{index}")
    assert print_program(program) == before


def test_two_lowerings_have_the_same_text() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x = torch.ones(1, 4, 8)
    assert print_program(edge(layer, x)) == print_program(edge(layer, x))


def test_dynamic_sizes_are_printed() -> None:
    program = edge(lambda x: x.view(-1), X, dynamic_shapes=({0: Dim("rows", min=2, max=8)},))
    first, *rest = _text(program).splitlines()
    symbol = first.split("f32[")[1].split(",")[0]
    assert symbol.startswith("s") and f"f32[3*{symbol}]" in rest[-2]
    assert "SymInt = aten.sym_size.int(%args_0, 0)" in rest[0]
