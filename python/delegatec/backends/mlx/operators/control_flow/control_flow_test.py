# SPDX-License-Identifier: Apache-2.0
"""Control flow in a delegate: results of eager mode, on both sides of conditions, and for all iterations."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import map as map_rows
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan

from delegatec.backends.common.testing import floats
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.operands import NODE_NAMES
from delegatec.backends.mlx.testing.grid import PRECISIONS, rejected, run_case

X: Final = floats(4, 8).abs()
Y: Final = floats(4, 8, seed=1)
ROWS: Final = floats(5, 4, 8, seed=2)
_RTOL: Final = {"fp32": 2e-5, "fp16": 1e-2}
_ATOL: Final = {"fp32": 2e-6, "fp16": 4e-3}
_WEIGHT: Final = floats(8, 8, seed=3)
_FILTERS: Final = floats(3, 3, 3, 3, seed=4)


def _cond(condition: Any, *arguments: Any) -> Any:
    return torch.cond(condition, *arguments)


def _layer(x: Tensor) -> Tensor:
    return x @ _WEIGHT.to(x.dtype)


def _convolution(x: Tensor) -> Tensor:
    return nn.functional.conv2d(x, _FILTERS.to(x.dtype), padding=1)


def _nested(x: Tensor) -> Any:
    def inner(x: Tensor) -> Any:
        return _cond(x.max() > 0.9, lambda x: x * 2, lambda x: x.sin(), (x,))

    return _cond(x.sum() > 0, inner, lambda x: x.exp(), (x,))


def _swapped(x: Tensor, y: Tensor) -> Any:
    return _cond(x.sum() > 0, lambda x, y: (y.clone(), x.clone()), lambda x, y: (x.clone(), y + 1), (x, y))


def _shared_in_branches(x: Tensor) -> Any:
    """Both branches and what follows convert the same value, once each."""
    integers = (x * 8).to(torch.int32)
    picked = _cond(x.sum() > 0, lambda i: i.float() + 1, lambda i: i.float().exp(), (integers,))
    return picked + integers.float()


def _step(carried: Any, row: Tensor) -> Any:
    following = torch.tanh(row @ row.mT @ carried + row)
    return following, following * 2


def _exchanged(carried: Any, row: Tensor) -> Any:
    """Each part of the next state is computed from the other part."""
    first, second = carried
    return (second.clone(), first + second * row), (first.clone(), row + 1)


def _alternating(x: Tensor, rows: Tensor) -> Any:
    """A branch in a loop."""

    def step(carried: Tensor, row: Tensor) -> Any:
        even = _cond(carried.sum() > 0, lambda c, r: c * 0.5 - r, lambda c, r: c + r.abs(), (carried, row))
        return even, carried.clone()

    return scan(step, x, rows)


def _in_branch(x: Tensor, rows: Tensor) -> Any:
    """A loop in a branch."""
    return _cond(x.sum() > 0, lambda x, rows: scan(_step, x, rows)[1], lambda _, rows: rows + 1, (x, rows))


CASES: Final[dict[str, tuple[Any, list[tuple[Tensor, ...]], str]]] = {
    "a layer in a branch": (
        lambda x: _cond(x.sum() > 0, lambda h: _layer(h).relu() + h, lambda h: h.sigmoid(), (x,)) * 2,
        [(X,), (-X,)],
        "Sum Greater AsType Item If Multiply",
    ),
    "several results": (
        lambda x: _cond(x.sum() > 0, lambda x: (x > 0, x.amax()), lambda x: (x < 0, x.amin()), (x,)),
        [(X,), (-X,)],
        "Sum Greater AsType Item If",
    ),
    "an unused result": (
        lambda x: _cond(x.sum() > 0, lambda x: (x + 1, x.sin()), lambda x: (x - 1, x.cos()), (x,))[0],
        [(X,), (-X,)],
        "Sum Greater AsType Item If",
    ),
    "operands are results": (_swapped, [(X, Y), (-X, Y)], "Sum Greater AsType Item If"),
    "no operands": (
        lambda x: _cond(x.sum() > 0, lambda: torch.zeros(3), lambda: torch.ones(3), ()),
        [(X,), (-X,)],
        "Sum Greater AsType Item If",
    ),
    "nested": (_nested, [(X,), (X / 10,), (-X,)], "Sum Greater AsType Item If"),
    "values of a branch are unknown after it": (_shared_in_branches, [(X,), (-X,)], ""),
    "convolutions": (
        lambda x: _cond(x.sum() > 0, lambda h: _convolution(h).relu() + h, lambda h: h.sigmoid(), (x,)),
        [(floats(1, 3, 6, 6).abs(),), (-floats(1, 3, 6, 6).abs(),)],
        "Sum Greater AsType Item If",
    ),
    "scan": (lambda x, rows: scan(_step, x, rows), [(X, ROWS)], "IdCopy Scan"),
    "parts of the state from each other": (
        lambda x, y, rows: scan(_exchanged, (x, y), rows),
        [(X, Y, ROWS)],
        "IdCopy IdCopy Scan",
    ),
    "map": (
        lambda rows, y: map_rows(lambda row, y: row.softmax(1) * y, rows, y),
        [(ROWS, Y)],
        "Scan",
    ),
    "a branch in a loop": (_alternating, [(X, ROWS), (-X, ROWS)], "IdCopy Scan"),
    "a loop in a branch": (_in_branch, [(X, ROWS), (-X, ROWS)], "Sum Greater AsType Item If"),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, precision: str) -> None:
    function, inputs, expected = CASES[name]
    nodes = expected if precision == "fp32" else ""
    run_case(
        function, inputs[0], nodes, precision, others=inputs[1:], rtol=_RTOL[precision], atol=_ATOL[precision]
    )


def _looped(more: Any, limit: int = 4) -> Any:
    """Returns a loop with a counter, whose other state is a layer of itself."""

    def function(x: Tensor) -> Any:
        loop: Any = while_loop
        start = torch.zeros((), dtype=torch.int64), x
        return loop(lambda i, h: more((i < limit), h), lambda i, h: (i + 1, torch.tanh(_layer(h)) + x), start)

    return function


@pytest.mark.parametrize("precision", PRECISIONS)
def test_loops_with_a_counter(precision: str) -> None:
    found = run_case(
        _looped(lambda below, _: below),
        (X,),
        precision=precision,
        others=[(Y,)],
        rtol=_RTOL[precision],
        atol=_ATOL[precision],
    )
    main, bodies = _chains(found)
    assert main[-4:] == ["IdCopy", "IdCopy", "Arange", "Scan"] and bodies == [["Add", "Addmm", "Tanh", "Add"]]


def test_loops_that_may_end_before() -> None:
    function = _looped(lambda below, h: below & (h.abs().sum() < 30))
    found = run_case(function, (X,), "IdCopy IdCopy Arange Scan", others=[(Y,), (X * 9,), (X / 9,)])
    assert [each for each in _chains(found)[1] if not each] == [[]]  # nothing after the last iteration


def test_loops_without_iterations() -> None:
    run_case(_looped(lambda below, _: below, 0), (X,), "IdCopy IdCopy")


def test_loops_without_a_bound_are_on_the_cpu() -> None:
    def function(x: Tensor) -> Any:
        loop: Any = while_loop
        return loop(lambda h: h.sum() < 10, lambda h: (h * 2 + 1,), (x,))[0]

    ((operator, rule, message),) = rejected(function, (X,))
    assert (operator, rule) == ("while_loop", "argument") and "no bound" in message


def test_loops_of_many_iterations_are_on_the_cpu() -> None:
    """The format's loop visits the rows of a tensor, which the runtime allocates."""
    function = _looped(lambda below, h: below & (h.abs().sum() < 30), 10**9)
    ((operator, rule, message),) = rejected(function, (X,))
    assert (operator, rule) == ("while_loop", "argument") and "1000000000 iterations" in message


@pytest.mark.parametrize(
    ("layer", "scans"),
    [
        (nn.LSTM(8, 6, 2, bidirectional=True, batch_first=True), 4),
        (nn.LSTM(8, 6, proj_size=3), 1),
        (nn.GRU(8, 6, 2), 2),
        (nn.RNN(8, 6, nonlinearity="relu"), 1),
    ],
    ids=["LSTM", "projection", "GRU", "RNN"],
)
def test_recurrent_layers_are_loops(layer: nn.Module, scans: int) -> None:
    layer = layer.requires_grad_(False)
    main, _ = _chains(run_case(layer, (floats(9, 5, 8),)))
    assert main.count("Scan") == scans


def test_dynamic_sizes() -> None:
    """A loop of any length, with a branch that computes sizes for itself."""
    length = torch.export.Dim("length", min=2, max=12)

    def function(x: Tensor, rows: Tensor) -> Any:
        def flat(rows: Tensor) -> Tensor:
            return rows.reshape(rows.shape[0] * 2, 16).sum(0)

        picked = _cond(x.sum() > 0, flat, lambda rows: rows.sum(0).reshape(2, 16).sum(0), (rows,))
        total: Any = scan(_step, x, rows)
        return total, picked, rows.reshape(rows.shape[0] * 2, 16) + 1

    others = [(-X, floats(12, 4, 8)), (X, floats(2, 4, 8))]
    run_case(function, (X, ROWS), dynamic_shapes=((None, {0: length}),), others=others)


def _chains(compiled: Any) -> tuple[list[str], list[list[str]]]:
    """Returns the nodes of the main chain, and those of each chain of control flow."""
    graph = read_blob(memoryview(compiled.blobs()[0]))
    names = [[NODE_NAMES[each.nodeType] for each in chain.instructions] for chain in graph.chains]
    last = len(names) - (graph.initChain >= 0)
    return names[0], names[1:last]
