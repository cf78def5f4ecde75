# SPDX-License-Identifier: Apache-2.0
"""Gathers in the reference executor, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from delegatec.backends.arm.testing import compile_module, operators, run_case
from delegatec.backends.common.testing import Call, floats, ints

DATA = floats(3, 6, 4)
SPECIFICATIONS = ("TOSA-1.0+FP", "TOSA-1.0+FP+INT")
INDEX = torch.tensor([2, 0, 2, 1], dtype=torch.int32)


def _order(*shape: int, dim: int) -> torch.Tensor:
    """Returns a permutation of the positions of a dimension."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).argsort(dim).to(torch.int64)


@pytest.mark.parametrize("specification", SPECIFICATIONS)
@pytest.mark.parametrize("shape", [(1, 5), (2, 3), (7,), ()])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_embedding(specification: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    index = ints(*shape, high=10, dtype=dtype)
    run_case(nn.Embedding(10, 4), (index,), specification=specification)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_without_the_profile_of_integers(dtype: torch.dtype) -> None:
    """Its integers are moved in floating point."""
    compiled = run_case(
        lambda x, i: x.index_select(1, i), ((DATA * 9).to(dtype), INDEX), specification="TOSA-1.0+FP"
    )
    assert operators(compiled)[:2] == ["CAST", "RESHAPE"] or dtype == torch.bool


GATHERED: dict[str, tuple[tuple[int, ...], int, Any]] = {
    "whole": ((3, 6, 4), 1, None),
    "along the first": ((2, 6, 4), 0, None),
    "along the last": ((3, 6, 9), 2, None),
    "a part of the others": ((2, 5, 3), 1, None),
    "expanded at the end": ((3, 5, 1), 1, (3, 5, 4)),
    "expanded at the start": ((1, 5, 4), 1, (3, 5, 4)),
    "one row": ((1, 1, 7), 2, None),
}


@pytest.mark.parametrize("specification", SPECIFICATIONS)
@pytest.mark.parametrize("name", GATHERED)
def test_gather(specification: str, name: str) -> None:
    shape, dim, expanded = GATHERED[name]
    index = ints(*shape, high=DATA.shape[dim])

    def function(x: torch.Tensor, i: torch.Tensor) -> Any:
        return x.gather(dim, i if expanded is None else i.expand(expanded))

    run_case(function, (DATA, index), specification=specification)
    run_case(lambda x: function(x, index), (DATA,), specification=specification)


INDEXED: dict[str, Callable[..., Any]] = {
    "one": lambda x, i, j: x[i],
    "one in the middle": lambda x, i, j: x[:, i],
    "two": lambda x, i, j: x[i, j],
    "two apart": lambda x, i, j: x[i, :, j],
    "three": lambda x, i, j: x[i, j, i],
    "matrix": lambda x, i, j: x[:, i.view(2, 2), j.view(2, 2)],
    "constant": lambda x, i, j: x[:, torch.tensor([-1, 0, 5])],
    "mask": lambda x, i, j: x.masked_fill(x > 0.3, 7.0),
}


@pytest.mark.parametrize("specification", SPECIFICATIONS)
@pytest.mark.parametrize("name", INDEXED)
def test_index(specification: str, name: str) -> None:
    indices = torch.tensor([1, -1, 2, 0]), torch.tensor([-2, 3, 0, 1])
    run_case(INDEXED[name], (DATA, *indices), specification=specification)


PUT: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "rows": (lambda x, i, j, v: x.index_put((i,), v), (3, 6, 4)),
    "a scalar": (lambda x, i, j, v: x.index_put((i,), v), ()),
    "columns": (lambda x, i, j, v: torch.ops.aten.index_put(x, (None, i), v), (3, 4)),
    "elements": (lambda x, i, j, v: x.index_put((i, j), v), (3, 4)),
    "added": (lambda x, i, j, v: x.index_put((i,), v, accumulate=True), (3, 6, 4)),
    "a mask": (lambda x, i, j, v: x.index_put((x > 0.1,), v), ()),
    "index_copy": (lambda x, i, j, v: x.index_copy(1, i, v), (3, 3, 4)),
    "index_add": (lambda x, i, j, v: x.index_add(1, i, v), (3, 3, 4)),
    "slice": (lambda x, i, j, v: torch.slice_scatter(x, v, 1, 2, 5), (3, 3, 4)),
    "steps": (lambda x, i, j, v: torch.slice_scatter(x, v, 1, 0, 5, 2), (3, 3, 4)),
    "select": (lambda x, i, j, v: torch.select_scatter(x, v, 1, 2), (3, 4)),
}


@pytest.mark.parametrize("name", PUT)
def test_index_put(name: str) -> None:
    function, shape = PUT[name]
    args = (DATA, torch.tensor([2, 0, 1]), torch.tensor([0, 5, 3]), floats(*shape, seed=1))
    run_case(
        lambda x, i, j, v: function(x * 2.0, i, j, v) + 0.0 * (i + j).sum(),
        args,
        specification="TOSA-1.0+FP+INT",
    )


@pytest.mark.parametrize("specification", SPECIFICATIONS)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter(specification: str, dim: int) -> None:
    index, source = _order(3, 6, 4, dim=dim), floats(3, 6, 4, seed=1)
    run_case(lambda x, i, y: x.scatter(dim, i, y), (DATA, index, source), specification=specification)
    few = index.narrow(dim, 0, 2)
    run_case(lambda x, i: x.scatter(dim, i, 7.0), (DATA, few), specification=specification)


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_scatter_of_a_part(specification: str) -> None:
    index, source = _order(2, 5, 4, dim=1), floats(3, 6, 4, seed=1)
    run_case(lambda x, i, y: x.scatter(1, i, y), (DATA, index, source), specification=specification)


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_scatter_add(specification: str) -> None:
    index, source = ints(3, 6, 4, high=6), floats(3, 6, 4, seed=1)
    run_case(lambda x, i, y: x.scatter_add(1, i, y), (DATA, index, source), specification=specification)


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_one_value_at_repeated_positions(specification: str) -> None:
    """SCATTER would be unpredictable."""
    index = torch.tensor([2, -1, 2, 0])
    compiled = run_case(lambda x, i: x.index_fill(1, i, 7.0), (DATA, index), specification=specification)
    assert "SCATTER" not in operators(compiled)
    rows = ints(3, 5, 4, high=6)
    compiled = run_case(lambda x, i: x.scatter(1, i, 7.0), (DATA, rows), specification=specification)
    assert "SCATTER" not in operators(compiled)
    part = ints(2, 5, 3, high=6)
    compiled = run_case(lambda x, i: x.scatter(1, i, 7.0), (DATA, part), specification=specification)
    assert "SCATTER" not in operators(compiled)
    args = (DATA, index, floats(3, 1, 4))
    run_case(lambda x, i, v: torch.ops.aten.index_put(x, (None, i), v), args, specification=specification)


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_constant_positions_that_are_repeated(specification: str) -> None:
    """A graph with a SCATTER of them is invalid; the last update counts."""
    lines = torch.tensor([[1, 0, 1], [2, 2, 0], [0, 1, 2]])
    source = floats(3, 3, seed=1)
    for constant, names in ((lines, {"GATHER", "SELECT"}), (lines.argsort(1), {"SCATTER"})):
        compiled = run_case(
            lambda x, y: x.scatter(1, constant, y),  # noqa: B023 - called at once
            (floats(3, 4), source),
            specification=specification,
        )
        assert names <= {*operators(compiled)}
    for index in (torch.tensor([2, 0, 2]), torch.tensor([2, 0, 1])):
        run_case(
            lambda x, y: torch.ops.aten.index_put(x, (None, index), y),  # noqa: B023 - called at once
            (DATA, floats(3, 3, 4, seed=1)),
            specification=specification,
        )


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_one_value_of_any_dtype(specification: str) -> None:
    """A scatter of uint8 has no comparison as its rewrite; its positions may be repeated."""
    index, module = ints(1, 4, 2, high=4), Call(lambda x, i: x.scatter(1, i, 1.5))
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.float16, torch.bool):
        x = torch.ones(1, 4, 2, dtype=dtype)
        compiled = compile_module(module, (x, index), specification=specification)
        assert not compiled.delegates or "SCATTER" not in operators(compiled), dtype
        assert torch.equal(compiled(x, index)[0], module(x, index))


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_more_positions_than_elements(specification: str) -> None:
    """Some are repeated: a graph with a SCATTER of them is invalid."""
    x, values, index = DATA[:, :2], floats(3, 5, 4), torch.tensor([0, 0, 0, 0, 0])
    cases = (
        (lambda x, i, v: torch.ops.aten.index_put(x, (None, i), v), (index, values[:1].expand(3, 5, 4))),
        (lambda x, i, v: x.scatter(1, i.abs(), v), (index.view(1, 5, 1).expand(3, 5, 4), values)),
    )
    for function, (positions, updates) in cases:
        compiled = compile_module(Call(function), (x, positions, updates), specification=specification)
        assert not compiled.delegates or "SCATTER" not in operators(compiled)


def test_a_constant_in_three_shapes() -> None:
    """The selected elements of a constant, which replace others of the same constant."""
    table = torch.arange(24.0).view(2, 3, 4) / 7

    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.masked_scatter(table, mask, table) * x

    run_case(function, (torch.tensor(2.0), table > 1.5), specification="TOSA-1.0+FP")


def test_an_operand_of_a_dtype_that_the_target_does_not_have() -> None:
    """The rewrite of a write to all elements is the operand, which no operator of the graph checks."""
    module = Call(lambda x: torch.slice_scatter(x, x[:1], 0, 0, 1))
    compiled = compile_module(module, (torch.ones(1, 2).bfloat16(),), specification="TOSA-1.0+FP")
    assert not compiled.delegates and compiled.left
