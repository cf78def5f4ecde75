# SPDX-License-Identifier: Apache-2.0
"""Writes through views become functional without a new trace, and have the results of eager mode."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim
from torch.export.graph_signature import OutputKind

from delegatec.diagnostics import DelegatecError
from delegatec.edge import convert
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, assert_computes, called, edge

aten = torch.ops.aten
X = torch.randn(4, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def no_retracing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("torch retraced the program")

    monkeypatch.setattr(convert, "_retrace", fail)


def _rows(x: Tensor) -> Any:
    a = x * 2
    for n in range(1, 4):
        a[..., n, :n] = a[..., n, :n] + a[..., :n, :n].sum(-1)
    return a


def _other_views(x: Tensor) -> Any:
    a = torch.zeros_like(x)
    row, plane, parts = a[0], a[..., 1:3], torch.split(a, 2)
    row += x[1]
    read = plane * 2
    plane.mul_(3)
    plane[0].transpose(0, 1)[1] = 5
    return a, row * 2, read, parts[0] + 1, plane


def _chain_of_views(x: Tensor) -> Any:
    a = x.sin()
    a.view(16, 4).permute(1, 0).unsqueeze(0)[:, 1:3, ::2].diagonal(0, 1, 2).zero_()
    a.unsqueeze(0).transpose(1, 2).squeeze(0)[1].fill_(2)
    return a


def _results_of_writes(x: Tensor) -> Any:
    a = x + 1
    b = a[0].add_(1)
    c = b[1].mul_(b[2])
    a[0, 1].sub_(c)
    return b, c + 1, a


def _overlapping(x: Tensor) -> Any:
    a = x.clone()
    a[1:].copy_(a[:-1].clone())
    a[0] = a[1]
    a[2].view(-1)[3:5] = a[3].view(-1)[:2]
    return a


def _branches(x: Tensor) -> Any:
    def write(x: Tensor) -> Tensor:
        a = x * 3
        a[0] = 1
        return a

    a = x + 1
    a[1] = 0
    row = a[1]
    result = torch.cond(x.sum() > 0, write, lambda x: x * 2, (a,))
    a[1] = 2
    return result, row


@pytest.mark.usefixtures("no_retracing")
@pytest.mark.parametrize(
    "function", [_rows, _other_views, _chain_of_views, _results_of_writes, _overlapping, _branches]
)
def test_it_computes_the_same(function: Callable[..., Any]) -> None:
    program = edge(function, X)
    assert not any(each._schema.is_mutable for part in program.walk() for each in called(part))
    assert_computes(program, function(X.clone()), X)


@pytest.mark.usefixtures("no_retracing")
def test_buffers_get_their_last_value() -> None:
    def model(self: Any, x: Tensor) -> Any:
        row = self.state[1]
        self.state[:2] += x[:2]
        row.mul_(2)
        return row, self.other * 2

    state = torch.ones(4, 4, 4)
    program = edge(Function(model, state=state, other=torch.ones(4)), X)
    specs = [spec.kind for spec in program.output_specs]
    assert specs == [OutputKind.BUFFER_MUTATION, OutputKind.USER_OUTPUT, OutputKind.USER_OUTPUT]
    expected = state.clone()
    expected[:2] += X[:2]
    expected[1] *= 2
    assert_computes(program, (expected, expected[1], torch.full((4,), 2.0)), X)


@pytest.mark.usefixtures("no_retracing")
def test_sizes_may_vary() -> None:
    def function(x: Tensor) -> Tensor:
        a = x * 2
        a[1:, :2] = a[:-1, 1:3] + 1
        a[:, 3].neg_()
        return a

    program = edge(function, X, dynamic_shapes=({0: Dim("rows", min=3, max=9)},))
    for rows in (3, 9):
        x = torch.randn(rows, 4, 4)
        assert_computes(program, function(x), x)


def _windows(x: Tensor) -> Tensor:
    """Writes to windows with gaps between them, after the last one, and of views."""
    x.unfold(2, 1, 2).neg_()
    x[1:].unfold(-1, 2, 2).transpose(0, 1)[0].mul_(3)
    x[0].unfold(0, 2, 3).unfold(1, 1, 3)[0].copy_(x[1, 0, 0])
    return x * 2


@pytest.mark.usefixtures("no_retracing")
def test_windows_of_temporaries() -> None:
    def function(x: Tensor) -> Tensor:
        a = torch.tensor(2.0).exp()
        a.unfold(0, 1, 1).mul_(2)
        return _windows(x + 1) * a

    assert_computes(edge(function, X), function(X), X)
    rows = edge(function, X, dynamic_shapes=({0: Dim("rows", min=3, max=9)},))
    assert_computes(rows, function(X[:3]), X[:3])


def test_windows_of_inputs() -> None:
    """Torch makes them functional, and would clear the elements in no window."""
    written = X.clone()
    expected = _windows(written)
    assert_computes(edge(_windows, X), [written, expected], X)


def test_writes_to_windows_without_a_functional_form() -> None:
    with pytest.raises(DelegatecError, match="writes to windows of unfold"):
        edge(lambda x: (x + 1).half().unfold(0, 1, 2).add_(x[..., None][:2]), X)


def test_writes_to_the_bits_as_another_dtype() -> None:
    """Torch makes them functional: the inverse of such a view has its dtype."""

    def function(x: Tensor) -> Any:
        bits = x.clone()
        bits.view(torch.int32)[:, 1] = 7
        bits.view(torch.int16)[1, 0].neg_()
        return bits

    assert_computes(edge(function, X), function(X), X)


def _input(x: Tensor) -> Any:
    x[0] = 1
    return x * 2


def _perhaps_a_view(x: Tensor) -> Any:
    a = x + 1
    flat = a.reshape(-1)
    a[0] = 0
    return flat * 2


def _several(x: Tensor) -> Any:
    a, b = x[0, 0] + 1, x[1, 1] + 1
    rows, columns = torch.meshgrid(a, b, indexing="ij")
    a[0] = 9
    return rows + columns


def _promoting(x: Tensor) -> Any:
    a = x.half()
    a[0].add_(x[1])
    return a


@pytest.mark.parametrize("function", [_input, _perhaps_a_view, _several, _promoting])
def test_others_are_retraced(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    retrace = convert._retrace

    def count(*args: Any) -> EdgeProgram:
        calls.append(args)
        return retrace(*args)

    monkeypatch.setattr(convert, "_retrace", count)
    expected = function(x := X.clone())
    program = edge(function, X)
    assert calls
    assert_computes(program, [x, expected] if function is _input else expected, X, atol=2e-3, rtol=1e-3)


_VIEWS: list[Callable[[Tensor, random.Random], Tensor]] = [
    lambda x, r: x[r.randrange(x.shape[0])] if x.ndim > 1 else x,
    lambda x, r: x[..., r.randrange(x.shape[-1]) :],
    lambda x, r: x[:: r.choice((1, 2))],
    lambda x, r: x.transpose(0, -1),
    lambda x, r: x.unsqueeze(r.randrange(x.ndim + 1)),
    lambda x, r: x.permute(*r.sample(range(x.ndim), x.ndim)),
    lambda x, r: x.diagonal() if x.ndim > 1 else x,
    lambda x, r: torch.split(x, 1)[0],
    lambda x, r: x.squeeze(),
    lambda x, r: x.squeeze(0),
    lambda x, r: x.unfold(0, 1, 2),
]
_WRITES: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x.add_(y.sum()),
    lambda x, y: x.copy_(y.mean()),
    lambda x, y: x.mul_(2),
    lambda x, y: x.fill_(3),
    lambda x, y: x.sigmoid_(),
]


def _random(seed: int) -> Callable[[Tensor], Any]:
    """Takes views of two tensors, writes to some, and reads others, in random order."""

    def function(x: Tensor) -> Any:
        draw = random.Random(seed)
        values, read = [x + 1, x * 2], []
        for _ in range(12):
            value = draw.choice(values)
            kind = draw.random()
            if kind < 0.5:
                values.append(draw.choice(_VIEWS)(value, draw))
            elif kind < 0.8:
                values.append(draw.choice(_WRITES)(value, draw.choice(values)))
            else:
                read.append(value.cos())
        return [*read, *(value + 0 for value in values)]

    return function


@pytest.mark.parametrize("seed", range(20))
def test_random_views_and_writes(seed: int) -> None:
    function = _random(seed)
    program = edge(function, X)
    assert_computes(program, function(X), X)
