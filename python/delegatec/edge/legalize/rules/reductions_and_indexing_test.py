# SPDX-License-Identifier: Apache-2.0
"""Each rewrite of a reduction, a sort, a gather or a scatter has the results of its operator."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from delegatec.edge.legalize.rule import Rewrite, rewrites
from delegatec.edge.legalize.rules import (
    cumulative,
    distances,
    extrema,
    gather,
    index_put,
    integer_moves,
    reductions,
    scatter,
    topk,
)
from delegatec.edge.testing import assert_rewrites

aten = torch.ops.aten
INF, NAN = math.inf, math.nan

REWRITES = rewrites(
    cumulative.REWRITES,
    reductions.REWRITES,
    extrema.ALONG_DIM,
    topk.REWRITES,
    distances.REWRITES,
    gather.REWRITES,
    index_put.REWRITES,
    scatter.REWRITES,
    integer_moves.REWRITES,
)

# Small integers and quarters: float16 represents them and their sums.
X = (torch.randint(-16, 17, (2, 3, 4), generator=torch.Generator().manual_seed(0)) / 4).float()
Y = (torch.randint(-16, 17, (2, 3, 4), generator=torch.Generator().manual_seed(1)) / 4).float()
INTS = (X * 4).long()
HUGE = INTS * (2**40 + 1)
WIDE = (X * 4).int() * (2**27 + 1)
FLAGS = X > 0
SCALAR = torch.tensor(2.5)
SPECIAL = torch.tensor([[1.0, NAN, -3.0], [INF, -INF, INF], [-INF, -INF, -INF], [2.0, 2.0, -0.0]])
EXTREME = torch.tensor([[-(2**63), 2**63 - 1, 0], [2**63 - 1, 3, 3]])
ORDERED = torch.randperm(24, generator=torch.Generator().manual_seed(2)).view(2, 3, 4).float()

AT = torch.tensor([1, 0, 1])
BACK = torch.tensor([-1, 0, -2])
ROWS = torch.tensor([[1], [0]])
ONE = torch.tensor(1)
PERMUTED = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(n)) for n in range(6)])
PERMUTED = PERMUTED.view(2, 3, 4)
EXPANDED = torch.tensor([2, 0]).view(1, 2, 1).expand(2, 2, 4)

_DIMS = [(X, [1]), (X, [0, -1], True), (X, [0, 2]), (INTS, [1]), (HUGE, [0, 2]), (SPECIAL, [1])]
_EXTREMA = [*_DIMS, (EXTREME, [1]), (FLAGS, [1]), (SCALAR, [])]
_ALL_DIMS = [(X,), (INTS,), (SCALAR,)]
_POSITIONS = [(each, dim) for each in (X, INTS % 3, SPECIAL, EXTREME) for dim in (0, -1)]
_MOVED = [X, INTS, HUGE, WIDE, FLAGS]

_NO_HALF = (aten._cdist_forward.default, aten._pdist_forward.default)

# operator -> calls of it: positional arguments, and keyword arguments if the last one is a dict
CASES: dict[OpOverload, list[tuple[Any, ...]]] = {
    aten.mean.default: [(X,), (SCALAR,), (INTS, {"dtype": torch.float32})],
    aten.mean.dim: [(X, [1]), (X, [0, -1], True), (X.view(1, 2, 3, 2, 2), [1, 3]), (SPECIAL, [1])],
    aten.sum.dim_IntList: [*_DIMS, (X, []), (EXTREME, [1]), (FLAGS, [1], {"dtype": torch.bool})],
    aten.prod.default: [(X[0, :2],), (INTS,), (SCALAR,)],
    aten.prod.dim_int: [(X, 1), (INTS, -1, True), (EXTREME, 1), (FLAGS, 1, {"dtype": torch.bool})],
    aten.amax.default: _EXTREMA,
    aten.amin.default: _EXTREMA,
    aten.max.default: [*_ALL_DIMS, (SPECIAL,)],
    aten.min.default: [*_ALL_DIMS, (EXTREME,)],
    aten.any.default: _ALL_DIMS,
    aten.any.dim: [(FLAGS, 1), (INTS, -1, True), (SPECIAL, 1)],
    aten.any.dims: [(FLAGS, [0, 1]), (FLAGS, [])],
    aten.cumsum.default: [(X, 1), (INTS, -1), (HUGE, 0), (SPECIAL[3:], 1)],
    aten.argmax.default: [*_POSITIONS, (X,), (X, None, True), (SCALAR, 0)],
    aten.argmin.default: [*_POSITIONS, (X,), (X, -1, True)],
    aten.max.dim: [*_POSITIONS, (FLAGS, 1), (X, 1, True), (SCALAR, 0)],
    aten.min.dim: [*_POSITIONS, (X, 1, True)],
    aten.topk.default: [
        (ORDERED, 2),
        (ORDERED, 3, 1, False),
        (ORDERED.long(), 4),
        (EXTREME[:1], 2),
        (SCALAR, 1),
    ],
    aten._cdist_forward.default: [(X, Y, p, None) for p in (0.0, 1.0, 2.0, INF, 3.0)]
    + [(X[:1], Y, 2.0, None)],
    aten._pdist_forward.default: [(X.view(6, 4), p) for p in (1.0, 2.0, INF)],
    aten.embedding.default: [(each[0], ONE) for each in _MOVED] + [(each[0], ROWS) for each in _MOVED[2:]],
    aten.index_select.default: [(each, 1, ONE) for each in _MOVED] + [(each, 1, AT) for each in _MOVED[2:]],
    aten.index.Tensor: [
        *((each, [None, BACK]) for each in _MOVED),
        *((X, indices) for indices in ([None, ROWS, AT], [ROWS, None, BACK], [ROWS, AT, BACK], [ONE - 2])),
        (WIDE, [BACK[1:2].int()]),
    ],
    aten.gather.default: [
        *((each, 2, PERMUTED) for each in _MOVED),
        (X, 1, EXPANDED),
        (X, 1, PERMUTED[:, :2, :3].clamp(max=2)),
        (SCALAR, 0, ONE - 1),
    ],
    aten.flip.default: [(X, [0, -1]), (HUGE, [1]), (FLAGS, [2])],
    aten.as_strided.default: [(X, [2, 3, 2], [5, 1, 2], 1), (X, [], [], 7)],
    aten.slice_scatter.default: [
        (X, Y[..., :2], 2, 1, 3),
        (X, Y[:, :1], 1, -1),
        (HUGE, HUGE[..., :2] * 3, 2, 0, 4, 2),
    ],
    aten.index_put.default: [
        *((each, [None, BACK[:2]], each[:, 1:]) for each in _MOVED),
        (X, [None, ROWS, AT], SCALAR),
        (X, [ROWS, None, BACK], Y[:1, :1, :1]),
        (X, [FLAGS], SCALAR),
        (X, [None, FLAGS[0]], Y[:, 0, :1]),
        (X, [None, AT], Y, True),
        (WIDE, [AT, None, AT], WIDE[0, :, :3], True),
    ],
    aten.scatter.src: [
        *((each, 2, PERMUTED, each.flip(0)) for each in _MOVED),
        (X, 1, EXPANDED, Y),
        (X, 2, PERMUTED[:1, :2], Y),
        (SCALAR.view(1), 0, ONE.view(1) - 1, SCALAR.view(1) * 3),
        (SCALAR, 0, ONE - 1, SCALAR * 3),
    ],
    aten.scatter.value: [(X, 2, PERMUTED[..., :2], 0.5), (HUGE, 1, PERMUTED[:, :2].clamp(max=2), 2**40 + 1)],
    aten.masked_scatter.default: [(X, FLAGS, Y), (HUGE, FLAGS[:, :1].expand(2, 3, 4), HUGE * 3)],
    aten.scatter_add.default: [
        (X, 2, PERMUTED, Y),
        (X, 1, EXPANDED[:, :, :3], Y),
        (WIDE, 0, PERMUTED // 2, WIDE),
    ],
}


def test_every_rewrite_has_cases() -> None:
    assert set(CASES) == set(REWRITES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("operator", CASES, ids=str)
def test_replacements_have_the_same_results(operator: OpOverload, dtype: torch.dtype) -> None:
    if dtype == torch.float16 and operator in _NO_HALF:
        pytest.skip("eager mode has it in float32 only")
    assert_rewrites(REWRITES[operator], CASES[operator], dtype, 2e-3 if dtype == torch.float16 else 2e-6)


@pytest.mark.parametrize("rewrite", reductions.MINIMUM_BY_MAXIMUM, ids=lambda each: str(each.target))
def test_minima_are_maxima_of_reversed_elements(rewrite: Rewrite) -> None:
    calls = [call for call in CASES[rewrite.target] if call[0] is not FLAGS]
    assert_rewrites([rewrite], calls, torch.float32, 0.0)


@pytest.mark.parametrize("rewrite", extrema.SEPARATE_POSITION, ids=lambda each: str(each.target))
def test_extrema_and_positions_are_computed_apart(rewrite: Rewrite) -> None:
    calls = [call for call in CASES[rewrite.target] if call[0] is not FLAGS]
    assert_rewrites([rewrite], calls, torch.float32, 0.0)


@pytest.mark.parametrize("rewrite", extrema.POSITION_OF_FLOATS, ids=lambda each: str(each.target))
def test_positions_among_bools(rewrite: Rewrite) -> None:
    calls = [call for call in CASES[rewrite.target] if call[0].is_floating_point()]
    assert_rewrites([rewrite], calls, torch.float32, 0.0)


_OTHER_CASES: dict[OpOverload, list[tuple[Any, ...]]] = {
    aten.index.Tensor: [(X, [None, ROWS.squeeze(1), ROWS.squeeze(1)])],
    aten.index_put.default: [
        (X, [None, AT], SCALAR),
        (X, [AT], Y[:, :1, :1].sum(0, keepdim=True)),
        (X, [None, BACK], Y),
        (X, [None, None, ONE.view(1)], Y[..., :1]),
    ],
    aten.scatter.value: [(X, 2, PERMUTED[:1, :2] // 2, 0.5)],
    aten.scatter.src: [
        (X, 2, PERMUTED[:1, :2] // 2, Y),
        (X, 0, PERMUTED // 2, SPECIAL[:2].repeat(6, 2, 2)[:2, :3, :4]),
    ],
}


@pytest.mark.parametrize(
    "rewrite",
    [
        *(gather.INDEX_BY_SELECTION, index_put.PUT_ONE_VALUE),
        *(index_put.PUT_BY_SELECTION, scatter.SCATTER_ONE_VALUE),
        *(gather.SELECTION_BY_GATHER, gather.EMBEDDING_BY_SELECTION),
        *scatter.BY_SUMS,
    ],
    ids=lambda each: each.note or str(each.target),
)
def test_alternatives_have_the_same_results(rewrite: Rewrite) -> None:
    calls = [*CASES[rewrite.target], *_OTHER_CASES.get(rewrite.target, [])]
    assert_rewrites([rewrite], calls, torch.float32, 0.0, refuses=True)
