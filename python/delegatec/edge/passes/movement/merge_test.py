# SPDX-License-Identifier: Apache-2.0
"""Chains of movements become the shortest ones, and all elements arrive where they did."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.interpret import interpret
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.movement.arrangement import is_movement
from delegatec.edge.passes.movement.merge import merge_movements
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.testing.synthetic import Synthetic
from delegatec.edge.verifier import verify

aten = torch.ops.aten
PASSES = (merge_movements, eliminate_dead_code)
X = torch.arange(24.0).view(2, 3, 4)
ROWS = ({0: Dim("rows", min=3, max=9)},)


def _lines(program: EdgeProgram) -> list[str]:
    """Returns the printed calls, without types, sources, and the names of operators' packages."""
    lines = (line.split("  # ")[0].partition(" = aten.")[2] for line in print_program(program).splitlines())
    return [line for line in lines if line]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(
            lambda x: x.view(6, 4).view(-1).view(8, 3), ["view.default(%args_0, [8, 3])"], id="views"
        ),
        pytest.param(lambda x: x.view(6, 4).view(2, 3, 4), [], id="view back"),
        pytest.param(
            lambda x: x.permute(1, 2, 0).permute(1, -1, 0),
            ["permute.default(%args_0, [2, 0, 1])"],
            id="permutations",
        ),
        pytest.param(lambda x: x.mT.mT, [], id="permute back"),
        pytest.param(
            lambda x: x.view(6, 2, 2).permute(2, 0, 1).view(2, 2, 3, 2).permute(1, 2, 3, 0).reshape(2, 3, 4),
            [],
            id="permute back a view",
        ),
        pytest.param(
            lambda x: x.view(2, 3, 1, 4).permute(0, 2, 1, 3),
            ["view.default(%args_0, [2, 1, 3, 4])"],
            id="ones",
        ),
        pytest.param(
            lambda x: x.unsqueeze(3).permute(1, 0, 3, 2).reshape(3, 8),
            ["permute.default(%args_0, [1, 0, 2])", "view.default(%1, [3, 8])"],
            id="einsum",
        ),
        pytest.param(
            lambda x: x[:, :, 1:][:, :, ::2], ["slice.Tensor(%args_0, 2, 1, 4, 2)"], id="slice of a slice"
        ),
        pytest.param(lambda x: x[:, -2:][:, 1], ["select.int(%args_0, 1, 2)"], id="select from a slice"),
        pytest.param(
            lambda x: x[:, 1].unsqueeze(1), ["slice.Tensor(%args_0, 1, 1, 2)"], id="select and unsqueeze"
        ),
        pytest.param(
            lambda x: x[:, :1].select(1, 0), ["select.int(%args_0, 1, 0)"], id="select of one element"
        ),
        pytest.param(
            lambda x: x.mT[:, 1:].mT, ["slice.Tensor(%args_0, 2, 1, 4)"], id="slice between permutations"
        ),
        pytest.param(lambda x: x.mT[:, 1], ["select.int(%args_0, 2, 1)"], id="select after a permutation"),
        pytest.param(
            lambda x: x[:, :1].expand(2, 5, 4).expand(3, 2, 5, 4),
            ["slice.Tensor(%args_0, 1, 0, 1)", "expand.default(%1, [3, 2, 5, 4])"],
            id="expansions",
        ),
        pytest.param(
            lambda x: x[:, :1].expand(2, 5, 4)[:, 2], ["select.int(%args_0, 1, 0)"], id="one of many"
        ),
        pytest.param(lambda x: x[:, 0:9].expand(2, 3, 4), [], id="nothing"),
    ],
)
def test_chains(function: Callable[..., Any], expected: list[str]) -> None:
    program = edge(lambda x: function(x) + 1, X, passes=PASSES)
    assert _lines(program)[:-1] == expected
    assert_computes(program, function(X) + 1, X)


def test_a_select_of_the_only_element_is_a_view() -> None:
    program = edge(lambda x: x.select(1, 0) + 1, X[:, :1], passes=PASSES)
    assert _lines(program)[:-1] == ["view.default(%args_0, [2, 4])"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.permute(1, 0, 2).reshape(3, 8) + 1,
        lambda x: x.view(8, 3).mT.reshape(4, 6).mT + 1,
        lambda x: x.unsqueeze(2).expand(2, 3, 5, 4).reshape(2, 15, 4) + 1,
        lambda x: x.mT.contiguous().view(24)[1:].view(1, 23) + 1,
    ],
)
def test_chains_that_are_the_shortest_stay(function: Callable[..., Any]) -> None:
    before = edge(function, X, passes=())
    merged = edge(function, X, passes=(eliminate_dead_code,))
    assert not merge_movements(merged) and len(called(merged)) == len(called(before))


def test_a_movement_with_other_users_stays_for_them() -> None:
    def function(x: torch.Tensor) -> Any:
        flat, turned, part = x.view(-1), x.mT, x[:, 1:]
        return flat + 1, flat.view(4, 6) + 1, turned + 1, turned.mT + 2, part + 1, part[:, 1:] + 1

    program = edge(function, X, passes=PASSES)
    lines = _lines(program)
    assert "view.default(%args_0, [4, 6])" in lines and "add.Scalar(%args_0, 2)" in lines
    assert sum("slice" in line for line in lines) == 2 and sum("(%args_0, 1, " in line for line in lines) == 1
    assert_computes(program, function(X), X)


def test_a_movement_that_users_do_not_need_is_removed() -> None:
    def function(x: torch.Tensor) -> Any:
        part = x[:, 1:]
        return part[:, :1] + 1, part[:, 1:] + 1

    program = edge(function, X, passes=PASSES)
    assert _lines(program)[:2] == ["slice.Tensor(%args_0, 1, 1, 2)", "slice.Tensor(%args_0, 1, 2, 3)"]
    assert_computes(program, function(X), X)


def test_a_merged_call_stands_where_a_large_source_ended() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x.exp()
        part = y[:, 0]
        return x.sin().unsqueeze(0) * part.unsqueeze(1)

    program = edge(function, X, passes=PASSES)
    assert [line.split(".")[0] for line in _lines(program)] == ["exp", "slice", "sin", "unsqueeze", "mul"]
    assert_computes(program, function(X), X)


def _heads_of_rows(x: torch.Tensor) -> torch.Tensor:
    """Merges two heads with the rows, as `nn.MultiheadAttention` does."""
    rows = x.shape[0]
    return x.transpose(0, 1).contiguous().view(3, rows * 2, 2).transpose(0, 1).view(rows, 2, 3, 2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(
            lambda x: x.view(x.shape[0], 12).view(-1, 6), ["view.default(%args_0, [%2, 6])"], id="view"
        ),
        pytest.param(lambda x: x.mT.mT, [], id="permute back"),
        pytest.param(
            lambda x: x.view(x.shape[0], 3, 2, 2).permute(2, 0, 1, 3).permute(1, 2, 0, 3).flatten(2),
            [],
            id="heads",
        ),
        pytest.param(
            _heads_of_rows,
            ["view.default(%args_0, [%1, 3, 2, 2])", "permute.default(%2, [0, 2, 1, 3])"],
            id="heads joined with rows",
        ),
        pytest.param(lambda x: x[1:, :, :3][:, :, 1:], ["slice", "slice"], id="slices of both"),
        pytest.param(lambda x: x[:, 1].unsqueeze(1), ["slice.Tensor(%args_0, 1, 1, 2)"], id="select"),
        pytest.param(
            lambda x: x.unsqueeze(1).permute(0, 2, 3, 1), ["unsqueeze.default(%args_0, 3)"], id="ones"
        ),
    ],
)
def test_dynamic_sizes(function: Callable[..., Any], expected: list[str]) -> None:
    program = edge(lambda x: function(x) + 1, torch.ones(5, 3, 4), dynamic_shapes=ROWS, passes=PASSES)
    lines = [line for line in _lines(program)[:-1] if not line.startswith("sym_size")]
    assert len(lines) == len(expected) and all(map(str.startswith, lines, expected))
    for rows in (3, 7):
        x = torch.arange(rows * 12.0).view(rows, 3, 4)
        assert_computes(program, function(x) + 1, x)


def test_no_dynamic_size_is_computed_for_a_shorter_chain() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.unsqueeze(0).unsqueeze(-1) + 1

    program = edge(function, torch.ones(5, 3, 4), dynamic_shapes=ROWS, passes=PASSES)
    assert called(program) == [aten.unsqueeze.default, aten.unsqueeze.default, aten.add.Scalar]


def test_a_long_chain_in_one_round() -> None:
    made = Synthetic()
    y = x = made.input()
    for _ in range(2000):
        y = made.call(aten.permute.default, y, [0])
    program = made.program(made.call(aten.neg.default, y))
    assert merge_movements(program)
    assert called(program) == [aten.neg.default] and x.users


def _any_movement(draw: random.Random, x: Node) -> tuple[Any, tuple[Any, ...]]:
    sizes = list(x.meta["val"].shape)
    rank = len(sizes)
    kinds = ["expand", "permute", "squeeze", "unsqueeze", "view", *["select", "slice", "slice"] * bool(rank)]
    kind, dim = draw.choice(kinds), draw.randrange(rank) if rank else 0
    if kind == "expand":
        wide = [draw.choice([1, 2, 3]) if size == 1 else size for size in sizes]
        return aten.expand.default, ([*[draw.choice([1, 2])] * draw.randrange(2), *wide],)
    if kind == "permute":
        return aten.permute.default, (
            [each - rank * draw.randrange(2) for each in draw.sample(range(rank), rank)],
        )
    if kind == "select":
        return aten.select.int, (dim, draw.randrange(-sizes[dim], sizes[dim]))
    if kind == "slice":
        start = draw.randrange(sizes[dim])
        end = draw.choice([start + 1, sizes[dim], 2**63 - 1])
        return aten.slice.Tensor, (
            dim - rank,
            start - sizes[dim] * draw.randrange(2),
            end,
            draw.choice([1, 1, 2, 3]),
        )
    if kind == "squeeze":
        return aten.squeeze.dims, (draw.sample(range(rank), draw.randrange(rank + 1)),)
    if kind == "unsqueeze":
        return aten.unsqueeze.default, (draw.randrange(-rank - 1, rank + 1),)
    remaining, shape = math.prod(sizes), []
    while remaining > 1 or draw.randrange(3) == 0:
        shape.append(draw.choice([size for size in range(1, remaining + 1) if remaining % size == 0]))
        remaining //= shape[-1]
    return aten.view.default, (draw.sample(shape, len(shape)),)


@pytest.mark.parametrize("seed", range(60))
def test_any_chain(seed: int) -> None:
    draw, x = random.Random(seed), torch.arange(48.0).view(2, 3, 1, 8)
    program = edge(lambda x: x.neg(), x, passes=())
    output = program.output_node()
    builder, values = Builder(program).at(output), output.all_input_nodes
    for _ in range(draw.randrange(2, 9)):
        source = draw.choice(values[-3:]) if draw.random() < 0.3 else values[-1]
        target, args = _any_movement(draw, source)
        if source.meta["val"].numel() < 500:
            values.append(builder.call(target, source, *args))
    output.args = (
        tuple(builder.call(aten.neg.default, value) for value in {values[-1], *draw.sample(values, 2)}),
    )
    program.output_specs *= len(output.all_input_nodes)
    eliminate_dead_code(program)
    expected, before = interpret(program, [x]), [*map(is_movement, program.graph.nodes)]
    run_passes(program, PASSES)
    verify(program)
    assert sum(map(is_movement, program.graph.nodes)) <= sum(before)
    for result, value in zip(interpret(program, [x]), expected, strict=True):
        assert torch.equal(result, value)
