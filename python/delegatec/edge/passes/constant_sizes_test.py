# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.convert import to_edge
from delegatec.edge.passes.constant_sizes import resolve_constant_sizes
from delegatec.edge.passes.pass_manager import run_pass
from delegatec.edge.printer import print_program

COUNTS = torch.tensor([2, 0, 1])
MASK = torch.tensor([True, False, True])
X = torch.arange(6.0).reshape(2, 3)


class Net(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("counts", COUNTS)
        self.register_buffer("mask", MASK)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.counts, self.mask)


CASES: dict[str, Callable[..., Any]] = {
    "repetition": lambda x, n, m: x.repeat_interleave(n, 1).exp(),
    "repetition of each": lambda x, n, m: x.repeat_interleave(n.repeat(2)).exp(),
    "repetition by a calculation": lambda x, n, m: x.repeat_interleave(n * 2 + 1, -1).t(),
    "repetition by one number": lambda x, n, m: x.repeat_interleave(n[:1], 0) * 2,
    "size that torch knows": lambda x, n, m: x.repeat_interleave(n, 1) + x,
    "repetition alone": lambda x, n, m: x[:, torch.repeat_interleave(n)],
    "mask": lambda x, n, m: x[:, m].sum(1),
    "mask of two dimensions": lambda x, n, m: x[torch.stack([m, ~m])] * 2,
    "selection": lambda x, n, m: x[0].masked_select(m) + 1,
    "positions": lambda x, n, m: x[:, n.nonzero()[:, 0]],
    "distinct values": lambda x, n, m: torch.unique(n) * x[0],
    "numbers of values": lambda x, n, m: torch.unique(n.fmod(2), return_counts=True)[1] + x.sum(),
    "histogram": lambda x, n, m: torch.bincount(n) * x,
    "size of a tensor": lambda x, n, m: x.new_zeros(torch.unique(n).shape[0] * 2),
    "split": lambda x, n, m: x.split(n[::2].tolist(), 1)[0],
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_are_integers_in_the_end(name: str) -> None:
    net = Net(CASES[name])
    wanted = net(X)
    program = to_edge(torch.export.export(net, (X,)))
    for node in program.graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (tuple, list)) else [values]:
            assert all(isinstance(size, int) for size in getattr(value, "shape", ())), node
    inputs = [program.constants.get(node.name, X) for node in program.placeholders()]
    (result,) = torch.fx.Interpreter(program.graph_module).run(*inputs)
    torch.testing.assert_close(result, wanted)


def test_by_its_graph() -> None:
    program = to_edge(torch.export.export(Net(CASES["repetition"]), (X,)), passes=())
    assert "index_select" in print_program(program)
    assert "u0" not in print_program(program)
    assert not run_pass(program, resolve_constant_sizes)


def test_other_data_stays_dynamic() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x[x > 2] * counts.sum()

    program = to_edge(torch.export.export(Net(function), (X,)))
    assert "[u0]" in print_program(program).replace("f32", "")


def test_a_buffer_that_is_written_has_no_value() -> None:
    class Counter(torch.nn.Module):
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x)
            return self.seen.nonzero()

    assert "nonzero" in print_program(to_edge(torch.export.export(Counter(), (torch.ones(4),))))


def test_after_many_operators() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for _ in range(1500):
            x, counts = x + 1.0, counts + 1
        return x[x > 2].sum() + x.repeat_interleave(counts - 1500, 1).sum()

    program = to_edge(torch.export.export(Net(function), (X,)))
    assert "index_select" in print_program(program)


def test_constants_are_row_major() -> None:
    """`contiguous` is dropped from the program, as all of its values are row-major."""

    def function(x: torch.Tensor, counts: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        pairs = (counts * 0.5)[..., None].expand(-1, 2).contiguous()
        return x * torch.view_as_complex(pairs).imag

    net = Net(function)
    program = to_edge(torch.export.export(net, (X,)))
    inputs = [program.constants.get(node.name, X) for node in program.placeholders()]
    (result,) = torch.fx.Interpreter(program.graph_module).run(*inputs)
    torch.testing.assert_close(result, net(X))


def test_complex_results_of_constants() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        values, vectors = torch.linalg.eig(torch.outer(counts, counts) + torch.diag(counts.flip(0)) * 1.0)
        matrix: torch.Tensor = (vectors @ torch.diag(values) @ torch.linalg.inv(vectors)).real
        other: torch.Tensor = torch.linalg.eigvals(torch.eye(3)).imag
        result: torch.Tensor = x * values.real + x @ vectors.abs() + x @ matrix + other
        return result

    net = Net(function)
    program = to_edge(torch.export.export(net, (X,)))
    inputs = [program.constants.get(node.name, X) for node in program.placeholders()]
    (result,) = torch.fx.Interpreter(program.graph_module).run(*inputs)
    torch.testing.assert_close(result, net(X))
    assert "linalg" not in print_program(program).replace("@", "").split("return")[0].partition(":\n  %")[2]
