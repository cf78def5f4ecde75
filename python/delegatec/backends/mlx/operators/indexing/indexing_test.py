# SPDX-License-Identifier: Apache-2.0
"""Gathers and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch

from delegatec.backends.common.testing import Function, floats, ints
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.grid import run_case

_X: Final = floats(5, 6, 4)
_INDEX: Final = torch.tensor([3, 0, -1, 3])

CASES: Final[dict[str, tuple[Function, tuple[torch.Tensor, ...], str]]] = {
    "rows": (lambda x, i: x[i] * 2, (_X, _INDEX), "Take Multiply"),
    "columns": (lambda x, i: x[:, i.view(2, 2)] * 2, (_X, _INDEX), "Reshape Take Multiply"),
    "selected": (lambda x, i: x.index_select(1, i.abs()) * 2, (_X, _INDEX), "Abs Take Multiply"),
    "gathered": (
        lambda x, i: x.gather(1, i) * 2,
        (_X, ints(5, 3, 4, high=6)),
        "TakeAlongAxis Multiply",
    ),
    "pairs": (lambda x, i: x[i, i] * 2, (_X, _INDEX), "Gather Reshape Multiply"),
    "pairs of the last dimensions": (
        lambda x, i: x[:, i, i] * 2,
        (_X, _INDEX),
        "Gather Reshape Transpose Multiply",
    ),
    "pairs of dimensions apart": (lambda x, i: x[i, :, i] * 2, (_X, _INDEX), "Gather Reshape Multiply"),
    "slice": (lambda x: torch.slice_scatter(x, x[:2] * 2, 0, 1, 3), (_X,), "Slice Multiply SliceUpdate"),
    "added": (
        lambda x, i: x.scatter_add(1, i, x[:, :3]) * 2,
        (_X, ints(5, 3, 4, high=6)),
        "Slice ScatterAdd Multiply",
    ),
    "written": (
        lambda x, i: x.index_copy(0, i, x[:2] * 2),
        (_X, torch.tensor([4, 1])),
        "Slice Multiply IndexCopy",
    ),
    "written to a constant": (
        lambda x, i: _X.index_copy(0, i, x[:2] * 2),
        (_X, torch.tensor([4, 1])),
        "Slice Multiply IdCopy IndexCopy",
    ),
    "written to positions with a stride": (
        lambda x, i: x.index_copy(0, i[:, 1], x[:2] * 2),
        (_X, torch.tensor([[0, 4], [2, 1]])),
        "Take Slice Multiply Contiguous IndexCopy",
    ),
    "one value": (lambda x, i: x.exp().index_fill(1, i, 2.0), (_X, _INDEX), "Exp BroadcastTo IndexCopy"),
    "one row": (
        lambda x, i, y: x.exp().index_put((i,), y),
        (_X, _INDEX, floats(6, 1)),
        "Exp BroadcastTo IndexCopy",
    ),
    "slice of a constant": (
        lambda x: torch.slice_scatter(_X, x[:2] * 2, 0, 1, 3),
        (_X,),
        "Slice Multiply IdCopy SliceUpdate",
    ),
}


_SCATTERED: Final = ints(5, 3, 4, high=6)

SCATTERS: Final[dict[str, tuple[Function, tuple[torch.Tensor, ...]]]] = {
    "elements": (lambda x, i, y: x.exp().scatter(1, i, y), (_X, _SCATTERED, floats(5, 3, 4, seed=1))),
    "one element": (lambda x, i, y: x.exp().scatter(1, i, y), (_X, _SCATTERED[:, :1], floats(5, 1, 4))),
    "a part": (
        lambda x, i, y: x.exp().scatter(1, i, y),
        (_X, _SCATTERED[:2, :, :3], floats(5, 5, 4, seed=1)),
    ),
    "rows": (lambda x, i, y: x.exp().scatter(0, i, y), (_X, ints(9, 6, 4, high=5), floats(9, 6, 4, seed=1))),
    "integers": (
        lambda x, i, y: (x + 1).scatter(1, i, y),
        (ints(5, 6, 4), _SCATTERED, ints(5, 3, 4, high=90)),
    ),
    "one value": (lambda x, i: x.exp().scatter(2, i, -2.5), (_X, ints(5, 6, 7, high=4))),
    "one value in a part": (lambda x, i: x.exp().scatter(-1, i, 2.0), (_X, ints(3, 6, 2, high=4))),
    "a mask of the largest": (
        lambda x: torch.zeros_like(x).scatter(1, x.topk(2, 1).indices, torch.softmax(x[:, :2], 1)),
        (_X,),
    ),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name: str) -> None:
    """Of repeated positions, the last element counts, as on a CPU in eager mode."""
    function, args = SCATTERS[name]
    compiled = run_case(function, args, special=1 if name != "a mask of the largest" else 0)
    assert "IndexCopy" not in operations(compiled.blobs()[0])


@pytest.mark.parametrize("name", CASES)
def test_nodes(name: str) -> None:
    function, args, expected = CASES[name]
    run_case(function, args, expected)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_indices_of_both_dtypes(dtype: torch.dtype) -> None:
    run_case(lambda x, i: x[i] * 2, (_X, _INDEX.to(dtype)))


def test_dynamic_indices() -> None:
    count = torch.export.Dim("count", min=2, max=30)
    shapes: Any = ((None, {0: count}),)
    run_case(
        lambda x, i: (x[i] * 2, x.index_select(1, i) + 1),
        (_X, torch.tensor([3, 0, 4])),
        dynamic_shapes=shapes,
        others=[(_X, torch.arange(30) % 5)],
    )


_ROWS: Final = torch.export.Dim("rows", min=2, max=9)
_COUNT: Final = torch.export.Dim("count", min=1, max=7)
Make = Callable[[int, int], tuple[torch.Tensor, ...]]


def _elements(rows: int, count: int) -> tuple[torch.Tensor, ...]:
    """Returns a tensor of rows, positions along its second dimension, and what is written there."""
    return floats(rows, 6, 4), ints(rows, count, 4, high=6), floats(rows, count, 4, seed=1)


def _narrower(rows: int, count: int) -> tuple[torch.Tensor, ...]:
    _, index, updates = _elements(rows, count)
    return floats(rows + 1, 6, 6), index, updates


def _along_rows(rows: int, count: int) -> tuple[torch.Tensor, ...]:
    return floats(rows, 4), ints(count, 4, high=rows), floats(count, 4, seed=1)


_ELEMENTS: Final[tuple[Any, ...]] = ({0: _ROWS}, {0: _ROWS, 1: _COUNT}, {0: _ROWS, 1: _COUNT})

DYNAMIC: Final[dict[str, tuple[Function, Make, Any]]] = {
    "elements": (lambda x, i, y: x.exp().scatter(1, i, y), _elements, _ELEMENTS),
    "elements of some columns": (
        lambda x, i, y: x.exp().scatter(1, i, y),
        _narrower,
        ({0: _ROWS + 1}, *_ELEMENTS[1:]),
    ),
    "integers": (
        lambda x, i, y: (x * 9).long().scatter(1, i, (y * 9).long()),
        _elements,
        _ELEMENTS,
    ),
    "rows": (
        lambda x, i, y: x.exp().scatter(0, i, y),
        _along_rows,
        ({0: _ROWS}, {0: _COUNT}, {0: _COUNT}),
    ),
    "one value": (lambda x, i, y: x.exp().scatter(1, i, -2.5) * y.sum(), _elements, _ELEMENTS),
    "a sum without the old elements": (
        lambda x, i, y: x.scatter_reduce(1, i, y, "sum", include_self=False),
        _elements,
        _ELEMENTS,
    ),
    "one value for rows": (
        lambda x, i, y: x.exp().index_fill(0, i[:, 0], 2.0) + y.sum(),
        _along_rows,
        ({0: _ROWS}, {0: _COUNT}, {0: _COUNT}),
    ),
    "one value for pairs": (
        lambda x, i, y: x.exp().index_put((i[:, 0], i[:, 1] % 4), torch.tensor(3.0)) + y.sum(),
        _along_rows,
        ({0: _ROWS}, {0: _COUNT}, {0: _COUNT}),
    ),
    "a diagonal": (
        lambda x, y: x.exp().diagonal_scatter(y[:, 0]),
        lambda rows, _: (floats(rows, rows), floats(rows, 1, seed=1)),
        ({0: _ROWS, 1: _ROWS}, {0: _ROWS}),
    ),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_writes_of_dynamic_sizes(name: str) -> None:
    """At both bounds, and between them; repeated positions as in `test_scatters`."""
    function, make, shapes = DYNAMIC[name]
    others = [make(*sizes) for sizes in ((2, 1), (9, 7), (2, 7), (9, 1))]
    run_case(function, make(5, 3), dynamic_shapes=(shapes,), others=others)
