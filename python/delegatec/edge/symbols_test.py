# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes are computed in the graph, once each, from the sizes of the inputs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch.export import Dim

from delegatec.edge import EdgeProgram
from delegatec.edge.size_nodes import SizeNodes
from delegatec.edge.symbols import (
    COMPUTED,
    UnknownSizeError,
    integer_ratio,
    largest,
    multiple_of,
    sizes_key,
    smallest,
    smallest_nonempty,
    upper_bound,
)
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
ROWS, COLUMNS = Dim("rows", min=2, max=8), Dim("columns", min=3, max=9)


def _size_nodes(program: EdgeProgram) -> list[Any]:
    return [node for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.SymInt)]


@pytest.mark.parametrize(
    ("function", "count"),
    [
        pytest.param(lambda x: x.view(-1), 3, id="product"),
        pytest.param(lambda x: (x.view(-1), x.reshape(-1) + 1, x.T.reshape(-1)), 3, id="shared"),
        pytest.param(lambda x: x[:, 1:].reshape(-1), 4, id="sum"),
        pytest.param(lambda x: torch.cat([x, x]).view(-1, 2).sum(1), 2, id="quotient"),
        pytest.param(lambda x: x.new_zeros(x.shape[0] ** 2), 2, id="square"),
        pytest.param(lambda x: x.new_zeros(max(x.shape[0], 4)), 2, id="maximum"),
        pytest.param(lambda x: x.new_zeros(min(x.shape[1], 5)), 2, id="minimum"),
        pytest.param(lambda x: x.new_zeros(x.shape[0] % 3 + 2), 3, id="remainder"),
    ],
)
def test_sizes_are_computed(function: Callable[..., Any], count: int) -> None:
    x = torch.ones(4, 6)
    program = edge(function, x, dynamic_shapes=({0: ROWS, 1: COLUMNS},))
    assert len(_size_nodes(program)) <= count + 2
    for rows, columns in ((4, 6), (2, 3), (8, 9)):
        x = torch.arange(float(rows * columns)).view(rows, columns)
        assert_computes(program, function(x), x)


def test_a_size_that_is_a_multiple_of_a_symbol() -> None:
    half = Dim("half", min=1, max=4)
    program = edge(lambda x: x.view(-1, 2, 3).sum(1), torch.ones(4, 3), dynamic_shapes=({0: 2 * half},))
    for rows in (2, 4, 8):
        assert_computes(program, torch.full((rows // 2, 3), 2.0), torch.ones(rows, 3))


def test_a_size_that_is_a_symbol_and_a_number() -> None:
    rows = Dim("rows", min=2, max=8)
    program = edge(
        lambda x, y: (x[1:] + y).reshape(-1),
        *(torch.ones(5, 3), torch.ones(4, 3)),
        dynamic_shapes=({0: rows + 1}, {0: rows}),
    )
    for n in (2, 7):
        assert_computes(program, torch.full((n * 3,), 2.0), torch.ones(n + 1, 3), torch.ones(n, 3))


def test_one_node_for_equal_expressions() -> None:
    program = edge(torch.relu, torch.ones(4, 6), dynamic_shapes=({0: ROWS, 1: COLUMNS},))
    nodes = SizeNodes(program)
    rows, columns = program.placeholders()[0].meta["val"].shape
    assert nodes.node_of(rows * columns) is nodes.node_of(columns * rows)
    assert nodes.node_of(rows + rows) is nodes.node_of(rows * 2)
    assert nodes.node_of(rows - rows + 3) == 3
    program.graph.lint()


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda n: (n + 1) // 3 * 2 - n % 4, id="division"),
        pytest.param(lambda n: (n / 3, n * 0.5, 2.5 - n), id="fractions"),
        pytest.param(lambda n: (math.ceil(n / 3), math.floor(n * 0.7), round(n * 0.7)), id="whole"),
        pytest.param(lambda n: (n > 4, n >= 4, n == 5, n != 5, n < 7), id="comparisons"),
        pytest.param(lambda n: torch.sym_ite(n > 4, n, 3 * n), id="choice"),
        pytest.param(lambda n: (max(n, 6), min(n, 6), n**3, -n), id="more"),
    ],
)
def test_scalars_are_computed_by_primitives_of_the_runtime(function: Callable[[Any], Any]) -> None:
    program = edge(lambda x: function(x.shape[0]), torch.ones(5), dynamic_shapes=({0: ROWS},))
    targets = {node.target for node in program.graph.nodes if node.op == "call_function"}
    assert targets - {aten.sym_size.int} <= COMPUTED
    for rows in (2, 5, 8):
        assert_computes(program, function(rows), torch.ones(rows))


def test_a_number_of_a_tensor_is_a_symbol() -> None:
    def function(x: torch.Tensor, count: torch.Tensor) -> Any:
        n: Any = count.item()
        torch._check(n >= 0)
        torch._check(n <= 4)
        return x[:n].reshape(-1), n * 2

    program = edge(function, torch.ones(4, 3), torch.tensor(2))
    assert aten._local_scalar_dense.default in called(program) and aten.item.default not in called(program)
    for n in (0, 3, 4):
        assert_computes(program, (torch.ones(3 * n), 2 * n), torch.ones(4, 3), torch.tensor(n))


def test_sizes_of_data_are_read_off_the_tensor_that_has_them() -> None:
    def function(x: torch.Tensor) -> Any:
        found = (x > 0).nonzero()
        return found.reshape(-1) + 1

    program = edge(function, torch.ones(4, 3))
    x = torch.eye(4, 3)
    assert_computes(program, function(x), x)


def test_a_symbol_of_another_program_is_unknown() -> None:
    program = edge(torch.relu, torch.ones(4))
    other = edge(torch.relu, torch.ones(4, 6), dynamic_shapes=({0: ROWS},))
    with pytest.raises(UnknownSizeError):
        SizeNodes(program).node_of(other.placeholders()[0].meta["val"].shape[0])


def test_upper_bounds() -> None:
    program = edge(lambda x: x.view(-1), torch.ones(4, 6), dynamic_shapes=({0: ROWS, 1: Dim.DYNAMIC},))
    rows, columns = program.placeholders()[0].meta["val"].shape
    assert upper_bound(program, 7) == 7
    assert upper_bound(program, rows) == 8 and upper_bound(program, rows * 3 - 1) == 23
    assert upper_bound(program, columns) is None and upper_bound(program, rows * columns) is None


def test_upper_bounds_of_quotients() -> None:
    rows = Dim("rows", max=8)  # and at least 0, although torch.export traces as if it were 2 or more
    program = edge(torch.relu, torch.ones(4, 4), dynamic_shapes=({0: rows, 1: rows},))
    size, _ = program.placeholders()[0].meta["val"].shape
    quotients = [size * size // size, (3 * size + 6) // 3, size // 3, 3 * ((size - 1) // 4)]
    assert [upper_bound(program, quotient) for quotient in quotients] == [8, 10, 2, 3]
    assert [largest(quotient) for quotient in quotients] == [8, 10, 2, 3]
    assert smallest(quotients[0]) == smallest(size) == 0
    assert [smallest_nonempty(each) for each in (size, 2 * size, size - 1, 3)] == [1, 2, 0, 3]


def test_integer_ratios() -> None:
    program = edge(torch.relu, torch.ones(4, 6), dynamic_shapes=({0: ROWS},))
    rows, columns = program.placeholders()[0].meta["val"].shape
    guards = len(rows.node.shape_env.guards)
    found = [integer_ratio(3 * rows, rows), integer_ratio(columns, 2), integer_ratio(rows * 2, rows * 2)]
    assert found == [3, 3, 1]
    varying = [integer_ratio(rows + 1, rows), integer_ratio(rows, 2 * rows), integer_ratio(rows, 0)]
    assert varying == [None] * 3
    assert len(rows.node.shape_env.guards) == guards


def test_multiples_of_sizes() -> None:
    a, b = sympy.symbols("a b", integer=True, positive=True)
    assert multiple_of(4 * a + 2 * b - 3, 2 * a + b - 2) == (2, 1)
    assert multiple_of(2 * (a * b + 1), a * b) == (2, 2)
    assert multiple_of(3 - a, a) == (-1, 3)
    assert multiple_of(a + b, a) is None
    assert multiple_of(a, 2 * a) is None
    assert multiple_of(a * b, a) is None


def test_sizes_of_inputs_with_unknown_symbols() -> None:
    sizes = {0: Dim("a", max=9), 1: Dim("b", max=9)}
    program = edge(lambda x: x * 2, torch.ones(4, 6), dynamic_shapes=(sizes,))
    (placeholder,) = program.user_inputs()
    rows, columns = placeholder.meta["val"].shape
    wanted = 2 * rows + 4 * columns - 1
    placeholder.meta["val"] = placeholder.meta["val"].new_empty(rows + 2 * columns, 1)
    node = SizeNodes(program).node_of(wanted)
    assert node.meta["val"].node.expr == wanted.node.expr
    assert (node.target, node.args[0].target) == (operator.add, operator.mul)
    with pytest.raises(UnknownSizeError):
        SizeNodes(program).node_of(rows + columns)


def test_keys_of_sizes_do_not_specialize() -> None:
    program = edge(torch.relu, torch.ones(4, 6), dynamic_shapes=({0: ROWS},))
    val = program.placeholders()[0].meta["val"]
    guards = len(val.fake_mode.shape_env.guards)
    assert sizes_key(val) == sizes_key(list(val.shape)) != sizes_key([4, 6])
    assert len(val.fake_mode.shape_env.guards) == guards


def test_strides_of_a_data_dependent_shape_are_not_computed() -> None:
    def ones(x: torch.Tensor) -> torch.Tensor:
        count: Any = x.sum().item()
        return torch.ones(4, count).T.reshape(-1)

    program = edge(ones, torch.tensor([3]))
    assert_computes(program, torch.ones(20), torch.tensor([5]))
