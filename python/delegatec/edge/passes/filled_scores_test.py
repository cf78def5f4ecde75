# SPDX-License-Identifier: Apache-2.0
"""Attention that computes its scores by calls, restricted to the filled rows of a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.edge.passes.attend_to_filled_rows import attend_to_filled_rows
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten

_LENGTH, _SHARED, _GROUP, _DEPTH = 256, 2, 3, 8
_ROWS: Final = torch.arange(_LENGTH)

_Weights = Callable[[Any, Tensor, Tensor], Tensor]
"""The module, scores [1, shared, group, n, length] and a mask [1, 1, 1, n, length] -> weights."""


def _noise(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def _softmax(own: Any, scores: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, scores, -torch.inf).softmax(4)


def _bounded(own: Any, scores: Tensor, mask: Tensor) -> Tensor:
    return _softmax(own, torch.tanh(scores / 2) * 2, mask)


def _with_sinks(own: Any, scores: Tensor, mask: Tensor) -> Tensor:
    scores, sink = torch.where(mask, scores, -torch.inf), own.sinks.view(1, _SHARED, _GROUP, 1, 1)
    largest = torch.maximum(scores.amax(4, keepdim=True), sink)
    terms = torch.exp(scores - largest)
    return terms / (terms.sum(4, keepdim=True) + torch.exp(sink - largest))


def _decoder(weights: _Weights, dtype: torch.dtype = torch.float32, window: int = _LENGTH) -> Function:
    """A step of a decoder: query [1, 6, n, depth], new rows [1, 2, n, depth], position [1]."""

    def step(self: Any, query: Tensor, new: Tensor, start: Tensor) -> Tensor:
        count = query.shape[2]
        positions = start + torch.arange(count)
        self.keys[:, :, positions] = new.to(dtype)
        self.values[:, :, positions] = new.to(dtype) * 2
        keys, values = self.keys.to(query.dtype), self.values.to(query.dtype)
        own: Any = torch.unflatten(query, 1, (_SHARED, _GROUP))
        scores: Any = torch.unflatten(own.flatten(2, 3) @ keys.transpose(2, 3), 2, (_GROUP, count))
        mask = (_ROWS[None] <= positions[:, None]) & (_ROWS[None] > positions[:, None] - window)
        found: Any = weights(self, scores, mask[None, None, None]).flatten(2, 3) @ values
        result: Tensor = torch.unflatten(found, 2, (_GROUP, count)).flatten(1, 2)
        return result

    caches = _noise(2, 1, _SHARED, _LENGTH, _DEPTH).to(dtype)
    sinks = _noise(_SHARED * _GROUP, seed=1)
    return Function(step, keys=caches[0].clone(), values=caches[1].clone(), sinks=sinks)


def _inputs(count: int, start: int) -> tuple[Tensor, ...]:
    query = _noise(1, _SHARED * _GROUP, count, _DEPTH, seed=2)
    return query, _noise(1, _SHARED, count, _DEPTH, seed=3), torch.tensor([start])


def _program(model: Function, count: int = 3, *, is_dynamic: bool = False) -> EdgeProgram:
    dim = Dim("n", min=1, max=32)
    shapes = (({2: dim}, {2: dim}, None),) if is_dynamic else None
    program = edge(model, *_inputs(count, 5), dynamic_shapes=shapes)
    run_passes(program, [attend_to_filled_rows])
    verify(program)
    return program


def _check(model: Function, program: EdgeProgram, *inputs: Tensor) -> None:
    before = {name: each.clone() for name, each in model.named_buffers()}
    expected = model(*inputs)
    after = [each.clone() for name, each in model.named_buffers() if name != "sinks"]
    for name, each in model.named_buffers():
        each.copy_(before[name])
    assert_computes(program, (*after, expected), *inputs, atol=1e-5)


def _is_restricted(program: EdgeProgram) -> bool:
    return aten._local_scalar_dense.default in called(program)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("weights", [_softmax, _bounded, _with_sinks])
def test_scores_of_filled_rows(weights: _Weights, dtype: torch.dtype) -> None:
    model = _decoder(weights, dtype)
    program = _program(model)
    assert _is_restricted(program) and called(program).count(aten.mm.default) == 2 * _SHARED
    assert aten.bmm.default not in called(program)
    for start in (0, 5, 100, _LENGTH - 3):
        _check(model, program, *_inputs(3, start))


@pytest.mark.parametrize("weights", [_bounded, _with_sinks])
def test_any_number_of_new_rows(weights: _Weights) -> None:
    model = _decoder(weights, window=20)
    program = _program(model, is_dynamic=True)
    assert _is_restricted(program)
    for count, start in ((1, 0), (1, 255), (7, 3), (32, 224)):
        _check(model, program, *_inputs(count, start))


@pytest.mark.parametrize("weights", [_bounded, _with_sinks])
def test_nan_and_infinities_stay(weights: _Weights) -> None:
    model = _decoder(weights)
    program = _program(model)
    for value in (torch.nan, torch.inf, -torch.inf):
        query, new, start = _inputs(3, 9)
        query[0, 1, 1, 3] = value
        _check(model, program, query, new, start)
    model.get_buffer("sinks")[2] = -torch.inf
    _check(model, _program(model), *_inputs(3, 9))


@pytest.mark.parametrize(
    "weights",
    [
        pytest.param(lambda _, x, mask: torch.where(mask, x, -1e9).softmax(4), id="finite"),
        pytest.param(lambda own, x, mask: torch.tanh(_softmax(own, x, mask) + 1), id="other weights"),
        pytest.param(
            lambda _, x, mask: torch.where(mask, x, -torch.inf).tanh().softmax(4), id="bounded later"
        ),
        pytest.param(lambda _, x, mask: torch.where(mask, x, -torch.inf).softmax(3), id="of queries"),
        pytest.param(lambda own, x, mask: _softmax(own, x, ~mask), id="later rows"),
        pytest.param(lambda own, x, mask: _softmax(own, x.flip(4), mask), id="in another order"),
        pytest.param(lambda own, x, mask: _softmax(own, x + own.keys[0, 0, :, 0], mask), id="with addends"),
    ],
)
def test_other_scores_do_not_change(weights: _Weights) -> None:
    model = _decoder(weights)
    program = _program(model)
    assert not _is_restricted(program)
    _check(model, program, *_inputs(3, 40))
