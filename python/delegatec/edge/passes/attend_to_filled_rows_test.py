# SPDX-License-Identifier: Apache-2.0
"""Attention to the filled rows of a cache computes the same, and takes the place of attention to all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
attention = aten.scaled_dot_product_attention.default
attend: Any = torch.nn.functional.scaled_dot_product_attention

_LENGTH, _HEADS, _DEPTH = 256, 2, 8
_ROWS: Final = torch.arange(_LENGTH)


def _noise(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def _decoder(
    mask: Callable[..., Tensor], dtype: torch.dtype = torch.float32, length: int = _LENGTH
) -> Function:
    """A step of a decoder: query [1, heads, n, depth], new rows [1, 2, n, depth], position [1]."""

    def step(self: Any, query: Tensor, new: Tensor, start: Tensor) -> Tensor:
        positions = start + torch.arange(query.shape[2])
        self.keys[:, :, positions] = new.to(dtype)
        self.values[:, :, positions] = new.to(dtype) * 2
        keys, values = self.keys.to(query.dtype), self.values.to(query.dtype)
        result: Tensor = attend(query, keys, values, mask(positions), enable_gqa=True)
        return result

    caches = _noise(2, 1, _HEADS, length, _DEPTH).to(dtype)
    return Function(step, keys=caches[0].clone(), values=caches[1].clone())


def _inputs(count: int, start: int, heads: int = 4) -> tuple[Tensor, ...]:
    query, new = _noise(1, heads, count, _DEPTH, seed=2), _noise(1, _HEADS, count, _DEPTH, seed=3)
    return query, new, torch.tensor([start])


def _program(model: Function, count: int = 3, heads: int = 4, *, is_dynamic: bool = False) -> EdgeProgram:
    dim = Dim("n", min=1, max=32)
    shapes = (({2: dim}, {2: dim}, None),) if is_dynamic else None
    inputs = _inputs(count, 5, heads)
    return _attending(edge(model, *inputs, dynamic_shapes=shapes, preserve=[attention]))


def _attending(program: EdgeProgram) -> EdgeProgram:
    run_passes(program, [attend_to_filled_rows])
    verify(program)
    return program


def _check(model: Function, program: EdgeProgram, *inputs: Tensor) -> None:
    before = {name: each.clone() for name, each in model.named_buffers()}
    expected = model(*inputs)
    after = [each.clone() for each in model.buffers()]
    for name, each in model.named_buffers():
        each.copy_(before[name])
    assert_computes(program, (*after, expected), *inputs, atol=1e-5)


def _causal(positions: Tensor) -> Tensor:
    return _ROWS[None] <= positions[:, None]


_MASKS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "rows up to the position": _causal,
    "positions from the row on": lambda at: at[:, None] >= _ROWS[None],
    "rows before the position": lambda at: _ROWS[None] < at[:, None],
    "positions after the row": lambda at: (at[:, None] > _ROWS[None])[None, None],
    "a window": lambda at: _causal(at) & (_ROWS[None] > at[:, None] - 4),
    "of rank 4": lambda at: _causal(at)[None, None],
    "compared in rank 4": lambda at: _ROWS[None, None, None] <= at[None, None, :, None],
}


@pytest.mark.parametrize("name", _MASKS)
def test_masks_of_positions(name: str) -> None:
    model = _decoder(_MASKS[name])
    program = _program(model)
    assert called(program).count(attention) == _HEADS
    assert called(program).count(aten._local_scalar_dense.default) == 1
    # at 0, some masks allow no row; no row is allowed at -1, at which the last row is written
    for start in (0, 5, 100, _LENGTH - 3, -3):
        _check(model, program, *_inputs(3, start))


@pytest.mark.parametrize("heads", [2, 4, 8])
def test_any_number_of_new_rows(heads: int) -> None:
    model = _decoder(_causal)
    program = _program(model, heads=heads, is_dynamic=True)
    assert called(program).count(attention) == _HEADS
    for count, start in ((1, 0), (1, 255), (7, 3), (32, 224)):
        _check(model, program, *_inputs(count, start, heads))


def test_one_new_row() -> None:
    model = _decoder(_causal)
    program = _program(model, 1)
    assert called(program).count(attention) == _HEADS
    for start in (0, 17, 255, -1):
        _check(model, program, *_inputs(1, start))


def test_rows_that_are_used_again() -> None:
    """A window whose rows have the latest positions of the same remainder."""

    def step(self: Any, query: Tensor, new: Tensor, start: Tensor) -> Tensor:
        at = start + torch.arange(query.shape[2])
        self.cache[:, :, at % _LENGTH] = new
        held = at[-1] - (at[-1] - _ROWS[None]) % _LENGTH
        mask = _causal(at) & (held <= at[:, None]) & (held > at[:, None] - 200)
        result: Tensor = attend(query, self.cache, self.cache, mask, enable_gqa=True)
        return result

    model = Function(step, cache=_noise(1, _HEADS, _LENGTH, _DEPTH))
    program = _program(model, is_dynamic=True)
    assert called(program).count(attention) == _HEADS
    for count, start in ((1, 0), (20, 3), (32, 240), (1, 256), (7, 1000)):
        _check(model, program, *_inputs(count, start))


def test_a_cache_of_another_dtype() -> None:
    model = _decoder(_causal, torch.float16)
    program = _program(model)
    assert called(program).count(attention) == _HEADS
    _check(model, program, *_inputs(3, 40))


def _quantized(scales: Callable[[Any], Tensor]) -> Function:
    """A step of a decoder whose cache has quantized rows, and their scales."""

    def step(self: Any, query: Tensor, new: Tensor, start: Tensor) -> Tensor:
        positions = start + torch.arange(query.shape[2])
        self.rows[:, :, positions] = (new * 40).round().to(torch.int8)
        self.row_scales[:, :, positions] = new.abs().amax(-1, keepdim=True) / 40
        rows = self.rows.to(query.dtype) * scales(self)
        result: Tensor = attend(query, rows, rows, _causal(positions), enable_gqa=True)
        return result

    rows = torch.randint(-128, 128, (1, _HEADS, _LENGTH, _DEPTH), dtype=torch.int8)
    return Function(step, rows=rows, row_scales=_noise(1, _HEADS, _LENGTH, 1) / 100)


def test_quantized_rows_and_their_scales() -> None:
    model = _quantized(lambda own: own.row_scales)
    program = _program(model)
    assert called(program).count(attention) == _HEADS
    for start in (0, 40, _LENGTH - 3):
        _check(model, program, *_inputs(3, start))


@pytest.mark.parametrize(
    "scales",
    [
        pytest.param(lambda _: torch.ones(1, _HEADS, _LENGTH, 1) / 50, id="constants"),
        pytest.param(lambda own: own.row_scales.exp(), id="computed"),
        pytest.param(lambda own: own.row_scales[:, :1], id="of another shape"),
    ],
)
def test_rows_with_other_scales_do_not_change(scales: Callable[[Any], Tensor]) -> None:
    assert called(_program(_quantized(scales))).count(attention) == 1


def test_layers_share_the_mask() -> None:
    def step(self: Any, query: Tensor, new: Tensor, at: Tensor) -> Tensor:
        for name in ("first", "second"):
            cache = getattr(self, name)
            cache[:, :, at] = new
            query = attend(query, cache, cache, _causal(at))
        return query

    model = Function(step, **{name: _noise(1, 2, _LENGTH, 8) for name in ("first", "second")})
    inputs = _noise(1, 2, 1, 8), _noise(1, 2, 1, 8), torch.tensor([9])
    program = _attending(edge(model, *inputs, preserve=[attention]))
    assert called(program).count(attention) == 4
    assert called(program).count(aten.le.Tensor) == called(program).count(aten.any.dim) == 1
    _check(model, program, *inputs)


def test_layers_with_other_heads_share_the_positions() -> None:
    def step(self: Any, query: Tensor, new: Tensor, at: Tensor) -> Tensor:
        self.cache[:, :, at] = new
        mask = _causal(at)
        wide = attend(query.repeat(1, 2, 1, 1), self.cache, self.cache, mask, enable_gqa=True)
        result: Tensor = attend(query.double(), self.cache.double(), self.cache.double(), mask).float()
        return result + wide[:, :2]

    model = Function(step, cache=_noise(1, 2, _LENGTH, 8))
    inputs = _noise(1, 2, 3, 8), _noise(1, 2, 3, 8), torch.tensor([9, 7, 8])
    program = _attending(edge(model, *inputs, preserve=[attention]))
    assert called(program).count(attention) == 4
    assert called(program).count(aten._local_scalar_dense.default) == 1
    _check(model, program, *inputs)


def test_one_position_in_a_window() -> None:
    model = _decoder(_MASKS["a window"])
    program = _program(model, 1)
    for start in (0, 2, 100, 255, -1):
        _check(model, program, *_inputs(1, start))


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(lambda at: _causal(at) | (_ROWS[None] > 250), id="more rows"),
        pytest.param(lambda at: ~_causal(at), id="later rows"),
        pytest.param(lambda at: _ROWS.flip(0)[None] <= at[:, None], id="rows in another order"),
        pytest.param(lambda at: torch.where(_causal(at), 0.0, -1e9), id="float"),
        pytest.param(lambda at: _ROWS[None] <= _ROWS[None] * 0 + at.sum(), id="positions for each row"),
    ],
)
def test_other_masks_do_not_change(mask: Callable[[Tensor], Tensor]) -> None:
    assert aten._local_scalar_dense.default not in called(_program(_decoder(mask)))


def test_other_caches_do_not_change() -> None:
    short = _decoder(lambda at: torch.arange(64)[None] <= at[:, None], length=64)
    assert aten._local_scalar_dense.default not in called(_program(short))

    def from_input(query: Tensor, keys: Tensor, at: Tensor) -> Any:
        return attend(query, keys, keys, _causal(at))

    inputs = _noise(1, 2, 1, 8), _noise(1, 2, _LENGTH, 8), torch.tensor([9])
    program = _attending(edge(from_input, *inputs, preserve=[attention]))
    assert aten._local_scalar_dense.default not in called(program)


def test_batches_do_not_change() -> None:
    def step(self: Any, query: Tensor, new: Tensor, at: Tensor) -> Tensor:
        self.cache[:, :, at] = new
        shared = self.cache.expand(query.shape[0], 2, _LENGTH, 8)
        result: Tensor = attend(query, shared, shared, _causal(at))
        return result

    model = Function(step, cache=_noise(1, 2, _LENGTH, 8))
    inputs = _noise(3, 2, 1, 8), _noise(1, 2, 1, 8), torch.tensor([9])
    shapes = (({0: Dim("batch", min=1, max=8)}, None, None),)
    program = _attending(edge(model, *inputs, dynamic_shapes=shapes, preserve=[attention]))
    assert aten._local_scalar_dense.default not in called(program)
    _check(model, program, *inputs)


def test_scores_that_are_computed_in_float16() -> None:
    model = _decoder(_causal)
    program = edge(model, *_inputs(3, 5), preserve=[attention])
    run_passes(program, [partial(attend_to_filled_rows, is_narrowed=True)])
    verify(program)
    tables = [value for value in program.fixed_constants().values() if value.is_floating_point()]
    assert min(float(value.min()) for value in tables) > torch.finfo(torch.float16).min
    _check(model, program, *_inputs(3, 5))
