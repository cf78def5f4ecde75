# SPDX-License-Identifier: Apache-2.0
"""Samples of operators that move, make, pick and write elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.operators.elementwise import RANKS, both
from tests.operators.sample import Maker, Sample, Samples, call, turned

LONG = torch.int64


def of(sizes: tuple[int, ...], *choices: tuple[Any, ...]) -> Samples:
    """One tensor, row-major and transposed, with each choice of the other arguments."""

    def samples(make: Maker) -> Iterator[Sample]:
        for choice in choices:
            yield call(make(*sizes), *choice)
        if len(sizes) > 1:
            yield call(turned(make(*sizes)), *choices[0])

    return samples


def _cat(make: Maker) -> Iterator[Sample]:
    yield call([make(2, 3), make(1, 3), make(0, 3)], 0)
    yield call([make(2, 3), make(2, 1)], -1)
    yield call([make(3)])
    yield call([make(1, 2, 3, 2), make(1, 2, 3, 2)], 2)
    yield call([make(1, 1, 2, 1, 2), make(1, 1, 2, 1, 2)], 4)
    yield call([make(0), make(2, 3)], 0)
    yield call([turned(make(2, 3)), make(2, 3)], 1)
    for partner in (torch.float32, LONG, torch.bool):
        yield call([make(2, 3), make(2, 3, dtype=partner)], 0)


def _stack(make: Maker) -> Iterator[Sample]:
    for sizes in ((), (3,), (2, 3), (1, 2, 3, 2)):
        for dim in (0, -1):
            yield call([make(*sizes), make(*sizes)], dim)
    yield call([turned(make(2, 3)), make(2, 3)], 1)
    yield call([make(2, 3), make(2, 3, dtype=torch.float32)], 0)


def _index(make: Maker) -> Iterator[Sample]:
    rows, columns = torch.tensor([2, 0, -1]), torch.tensor([[1], [0]])
    yield call(make(3, 4), [rows])
    yield call(make(3, 4), [rows.to(torch.int32)])
    yield call(make(3, 4), [None, columns])
    yield call(make(3, 4), [rows, columns])
    yield call(make(3, 4, 2), [rows, None, torch.tensor([1])])
    yield call(turned(make(3, 4)), [rows])
    yield call(make(3, 4), [torch.tensor(1)])
    yield call(make(1, 3, 2, 4, 2), [None, rows, None, torch.tensor([1])])
    yield call(make(3, 4), [torch.zeros(0, dtype=LONG)])
    pairs = torch.tensor([1, 0, -1])
    yield call(make(2, 3, 4), [None, rows, rows])
    yield call(make(2, 3, 4), [None, rows, columns])
    yield call(make(2, 3, 4), [pairs, None, columns])
    yield call(make(2, 3, 4), [pairs, rows.abs(), rows])


def _index_put(make: Maker) -> Iterator[Sample]:
    rows, columns = torch.tensor([2, 0]), torch.tensor([1, 3])
    for accumulate in (False, True):
        yield call(make(3, 4), [rows], make(2, 4), accumulate)
        yield call(make(3, 4), [rows, columns], make(2), accumulate)
        yield call(make(3, 4), [None, columns], make(3, 2), accumulate)
    yield call(turned(make(3, 4)), [rows], make())
    yield call(make(3, 4), [make(3, dtype=torch.bool)], make(1))
    yield call(make(3, 4), [make(3, 4, dtype=torch.bool)], make())
    yield call(make(1, 3, 2, 2, 2), [None, rows], make(1, 2, 2, 2, 2))
    ends, mask = torch.tensor([-1, 0]), make(2, 3, 4, dtype=torch.bool)
    yield call(make(2, 3, 4), [None, None, ends], make(3, 1))
    yield call(make(2, 3, 4), [None, torch.tensor([[0], [2]])], make(2, 1, 4))
    yield call(make(2, 3, 4), [None, ends, ends], make(2, 2))
    for accumulate in (False, True):
        yield call(make(2, 3, 4), [ends, None, ends], make(2, 3), accumulate)
    yield call(make(2, 3, 4), [ends, None, torch.tensor([[0], [3]])], make(2, 1, 1))
    yield call(make(2, 3, 4), [None, torch.tensor([0, 2, 0, -1, 0])], make(2, 5, 4, low=-1, high=1), True)
    yield call(make(2, 3, 4), [torch.tensor([0, 0, 1])], make(), True)
    yield call(make(2, 3, 4), [mask], make())
    yield call(make(2, 3, 4), [mask[..., 0]], make(1, 4))
    yield call(make(2, 3, 4), [None, mask[0]], make(2, 1))


def _index_select(make: Maker) -> Iterator[Sample]:
    for dtype in (LONG, torch.int32):
        for dim in (0, 1, -1):
            yield call(make(3, 4, 3), dim, torch.tensor([2, 0, 0], dtype=dtype))
    yield call(make(4), 0, torch.tensor([1]))
    yield call(turned(make(3, 4)), 0, torch.zeros(0, dtype=LONG))


def _gather(make: Maker) -> Iterator[Sample]:
    yield call(make(3, 4), 0, torch.tensor([[0, 1, 2, 0]]))
    yield call(make(3, 4), -1, torch.tensor([[0, 1], [3, 0], [2, 2]]))
    yield call(make(4), 0, torch.tensor([3, 0]))
    yield call(make(), 0, torch.tensor(0))
    yield call(turned(make(3, 4)), 1, torch.tensor([[0], [3], [2]]))
    yield call(make(1, 2, 1, 2, 3), 4, torch.zeros(1, 2, 1, 2, 2, dtype=LONG))
    rows = torch.tensor([[2, 0], [1, 2]])
    yield call(make(2, 3, 4), 1, rows[:, :, None].expand(-1, -1, 4).contiguous())
    yield call(make(2, 3, 4), 1, rows[:, :, None].expand(-1, -1, 3).contiguous())
    yield call(make(2, 3, 4), 2, rows[:1, None].expand(2, 3, -1).contiguous())


def scatter(value: bool) -> Samples:
    """Scatter of a tensor or of a scalar."""

    def samples(make: Maker) -> Iterator[Sample]:
        for sizes, dim, index in (
            ((3, 4), 0, torch.tensor([[0, 1, 2, 0]])),
            ((3, 4), -1, torch.tensor([[0, 1], [3, 0], [2, 1]])),
            ((4,), 0, torch.tensor([3, 0])),
            ((), 0, torch.tensor(0)),
            ((1, 2, 1, 2, 3), 4, torch.tensor([0, 2]).expand(1, 2, 1, 2, 2).contiguous()),
        ):
            yield call(make(*sizes), dim, index, 1 if value else make(*index.shape))
        yield call(turned(make(3, 4)), 1, torch.tensor([[0], [3], [2]]), 2.0 if value else make(3, 1))
        columns = torch.stack([torch.arange(3), torch.arange(3).roll(1)])[:, :, None].expand(-1, -1, 3)
        yield call(make(2, 3, 4), 1, columns.contiguous(), 3 if value else make(2, 3, 4))

    return samples


def _scatter_add(make: Maker) -> Iterator[Sample]:
    repeated = torch.tensor([[0, 2, 0, 0], [1, 1, 0, 2], [2, 2, 2, 2]]).expand(2, 3, 4).contiguous()
    for dim in (1, 2):
        yield call(make(2, 3, 4), dim, repeated, make(2, 3, 4, low=-1, high=1))


def _select_scatter(make: Maker) -> Iterator[Sample]:
    for dim, index in ((0, 1), (-1, -1), (1, 0)):
        source = [size for i, size in enumerate((2, 3, 4)) if i != dim % 3]
        yield call(make(2, 3, 4), make(*source), dim, index)
    yield call(turned(make(3, 4)), make(4), 0, 1)


def _slice_scatter(make: Maker) -> Iterator[Sample]:
    yield call(make(4, 3), make(2, 3), 0, 1, 3)
    yield call(make(4, 3), make(2, 3), 0, 0, 4, 2)
    yield call(turned(make(3, 4)), make(3, 2), -1, -2)
    yield call(make(2, 1, 2, 1, 3), make(2, 1, 2, 1, 1), 4, 2)
    yield call(make(4, 3), make(4, 3))


def _masked_scatter(make: Maker) -> Iterator[Sample]:
    yield call(make(2, 3), make(2, 3, dtype=torch.bool), make(6))
    yield call(make(2, 3), make(3, dtype=torch.bool), make(2, 3))
    yield call(turned(make(3, 4)), make(3, 1, dtype=torch.bool), make(12))


def _copy(make: Maker) -> Iterator[Sample]:
    for sizes in (*RANKS, (0, 3)):
        yield call(make(*sizes), make(*sizes))
    yield call(make(2, 3), make(3))
    yield call(turned(make(3, 4)), make())
    yield call(make(2, 3), make(2, 3, dtype=torch.float32))


def _fill(value: bool) -> Samples:
    def samples(make: Maker) -> Iterator[Sample]:
        for sizes in (*RANKS, (0, 3)):
            yield call(make(*sizes), 2 if value else make())
        yield call(turned(make(3, 4)), 1.5 if value else make())
        yield call(make(3), True if value else make(dtype=torch.float32))

    return samples


def _made(*choices: tuple[Any, ...]) -> Samples:
    return lambda make: (call(*choice, dtype=make.dtype) for choice in choices)


def _data_dependent(make: Maker) -> Iterator[Sample]:
    yield call(make(2, 3, low=0, high=1))
    yield call(make(5, low=0, high=1))
    yield call(make(2, 1, 2, 1, 3, low=0, high=1))


def _masked_select(make: Maker) -> Iterator[Sample]:
    yield call(make(2, 3), make(2, 3, dtype=torch.bool))
    yield call(make(5), make(2, 5, dtype=torch.bool))


def _repeat_interleave(make: Maker) -> Iterator[Sample]:
    repeats = make(4, low=0, high=3)
    yield call(repeats, output_size=int(repeats.sum()))


def _views(shapes: tuple[tuple[tuple[int, ...], list[int]], ...]) -> Samples:
    return lambda make: (call(make(*sizes), target) for sizes, target in shapes)


_VIEWS = both(
    _views((((2, 3), [6]), ((2, 3), [3, -1]), ((6,), [1, 2, 1, 3, 1]), ((1, 1), []), ((), [1]))),
    _views((((0, 3), [3, 0]), ((2, 3, 4), [6, 4]), ((1, 6, 4, 5), [1, 120]), ((2, 3, 4, 5, 2), [6, 40]))),
)
_PERMUTES = both(
    of((2, 3, 4), ([2, 0, 1],), ([-1, 0, 1],), ([0, 1, 2],)),
    of((2, 1, 2, 1, 3), ([4, 3, 2, 1, 0],)),
    of((), ([],)),
    of((0, 2), ([1, 0],)),
)
_EXPANDS = both(
    of((2, 1, 3), ([2, 4, 3],), ([5, -1, 2, -1],), ([1, 2, 2, 1, 3],)),
    of((), ([3],)),
    of((1,), ([0],)),
    of((1, 3), ([-1, -1],)),
)
_SELECTS = both(of((2, 3, 4), (0, 1), (-1, -1), (1, 0)), of((4,), (0, 2)), of((1, 2, 1, 2, 3), (4, 1)))
_SLICES = both(
    of((5, 4), (0, 1, 4, 2), (-1, -3, -1), (1, 2, 100), (0, 3, 1), ()),
    of((2, 1, 2, 1, 3), (4, 1)),
    of((7,), (0, None, None, 3)),
)
_SQUEEZE = both(of((1, 3, 1), (0,), (-1,), (1,)), of((), (0,)), of((2, 1, 2, 1, 3), (3,)))
_SQUEEZES = both(of((1, 3, 1), ([0, 2],), ([-1],), ([1],), ([],)), of((2, 1, 2, 1, 3), ([1, 3],)))
_TRANSPOSES = both(
    of((2, 3, 4), (0, 1), (-1, 0), (1, 1)), of((), (0, -1)), of((2, 1, 2, 1, 3), (4, 0)), of((0, 2), (0, 1))
)
_TS = both(of((2, 3), ()), of((4,), ()), of((), ()), of((0, 3), ()))
_UNFOLDS = both(of((2, 7), (1, 3, 2), (-1, 7, 1), (0, 1, 1)), of((5,), (0, 2, 1)))
_UNSQUEEZES = both(of((2, 3), (0,), (-1,), (1,)), of((), (0,)), of((1, 2, 1, 2), (-1,)))
_DIAGONALS = both(of((3, 4), (), (1,), (-1, 1, 0)), of((2, 3, 3), (0, -2, -1)), of((2, 1, 2, 3), (0, 0, 3)))
_STRIDES = (([2, 3], [3, 1]), ([2, 2], [1, 4], 1), ([12], [1]), ([], [], 5))


def _strided(make: Maker) -> Iterator[Sample]:
    # a program does not have strides: operands with strides are rejected before
    return (call(make(4, 3), *choice) for choice in _STRIDES)


SHAPE: dict[str, Samples] = {
    "arange.default": _made((5,), (0,), (4.0,)),
    "arange.start_step": _made((1, 7, 2), (3, 0, -1), (0, 5)),
    "as_strided.default": _strided,
    "as_strided_copy.default": _strided,
    "cat.default": _cat,
    "constant_pad_nd.default": both(
        of((2, 3), ([1, 2], 1), ([0, 1, 2, 0], 0), ([-1, 1], 2), ([1, 1],)),
        of((1, 2, 2, 2), ([1, 1, 1, 0, 0, 1, 1, 1], 1)),
        of((2, 1, 2, 1, 3), ([1, 1, 0, 1], 0)),
        of((2, 2, 4, 3, 2), ([-1, 2, 2, -1], 3), ([-1, 0, 0, 0, -2, -1], 1), ([0, 0, 0, 0, 0, 0, 1, 2], 0)),
        of((2, 3, 3, 3, 4), ([1, 2, 1, 0, 2, 1, 1, 1], 1), ([1, 0, 0, 0, 0, 0, 0, 0, 2, -1], 2)),
    ),
    "copy.default": _copy,
    "diagonal.default": _DIAGONALS,
    "diagonal_copy.default": _DIAGONALS,
    "empty.memory_format": _made(([2, 3],), ([],)),
    "expand.default": _EXPANDS,
    "expand_copy.default": _EXPANDS,
    "fill.Scalar": _fill(True),
    "fill.Tensor": _fill(False),
    "flip.default": both(
        of((2, 3, 4), ([0],), ([-1, 1],), ([],)),
        *(of((5,), ([0],)), of((2, 1, 2, 1, 3), ([4],)), of((), ([],))),
    ),
    "full.default": _made(([2, 3], 1), ([], 2), ([0], 1), ([1, 2, 1, 2, 2], 1.5)),
    "full_like.default": both(of((2, 3), (1,), (2.5,), (True,)), of((), (1,)), of((2, 1, 2, 1, 3), (3,))),
    "gather.default": _gather,
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "index_select.default": _index_select,
    "masked_scatter.default": _masked_scatter,
    "masked_select.default": _masked_select,
    "narrow_copy.default": both(
        of((5, 4), (0, 1, 3), (-1, -2, 2), (1, 0, 0)), of((2, 1, 2, 1, 3), (4, 1, 2))
    ),
    "nonzero.default": _data_dependent,
    "ones.default": _made(([2, 3],), ([],), ([0, 2],)),
    "permute.default": _PERMUTES,
    "permute_copy.default": _PERMUTES,
    "repeat.default": both(
        of((2, 3), ([2, 1],), ([2, 1, 3],), ([0, 1],)), of((), ([2],)), of((1, 2, 1, 2), ([1, 2, 1, 1, 2],))
    ),
    "repeat_interleave.Tensor": _repeat_interleave,
    "roll.default": both(
        of((2, 3, 4), ([1], [0]), ([-1, 2], [-1, 1]), ([2],)), of((5,), ([2], [0])), of((0, 2), ([1], [1]))
    ),
    "scalar_tensor.default": _made((3,), (2.5,), (True,)),
    "scatter.src": scatter(False),
    "scatter.value": scatter(True),
    "scatter_add.default": both(scatter(False), _scatter_add),
    "select.int": _SELECTS,
    "select_copy.int": _SELECTS,
    "select_scatter.default": _select_scatter,
    "slice.Tensor": _SLICES,
    "slice_copy.Tensor": _SLICES,
    "slice_scatter.default": _slice_scatter,
    "split_with_sizes.default": both(
        of((5, 4), ([2, 3],), ([1, 3], -1), ([1, 1, 2], 1)),
        of((2, 1, 2, 3), ([1, 2], 3)),
        of((2, 5, 6, 7), ([1, 4], 1), ([1, 1], 0), ([1, 5], 2), ([1, 6], 3)),
    ),
    "squeeze.dim": _SQUEEZE,
    "squeeze_copy.dim": _SQUEEZE,
    "squeeze.dims": _SQUEEZES,
    "squeeze_copy.dims": _SQUEEZES,
    "stack.default": _stack,
    "t.default": _TS,
    "t_copy.default": _TS,
    "transpose.int": _TRANSPOSES,
    "transpose_copy.int": _TRANSPOSES,
    "tril.default": both(of((3, 4), (), (1,), (-1,)), of((2, 1, 2, 3, 3), (0,)), of((2, 0, 2), (0,))),
    "unfold.default": _UNFOLDS,
    "unfold_copy.default": _UNFOLDS,
    "unsqueeze.default": _UNSQUEEZES,
    "unsqueeze_copy.default": _UNSQUEEZES,
    "view.default": _VIEWS,
    "view_copy.default": _VIEWS,
    "zeros.default": _made(([2, 3],), ([],), ([0, 2],)),
}
