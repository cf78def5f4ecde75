# SPDX-License-Identifier: Apache-2.0
"""Every function of every table: its trace has the same results, without the operator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export import Dim

from delegatec.edge.interpret import interpret
from delegatec.edge.legalize.rules import FUNCTIONS, quantized
from delegatec.edge.out_variants import out_variant
from delegatec.edge.testing import assert_computes, call_program, called, edge

aten = torch.ops.aten
INF, NAN = math.inf, math.nan


def _noise(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def _brief(*sizes: int) -> Tensor:
    """Values whose products bfloat16 represents exactly."""
    return _integers(-2, 3, *sizes).bfloat16()


def _integers(low: int, high: int, *sizes: int) -> Tensor:
    return torch.randint(low, high, sizes, generator=torch.Generator().manual_seed(3))


X = _noise(2, 3, 4)
VOLUME = _noise(2, 3, 5, 6, 7)
INTS = _integers(-3, 4, 3, 7)
# ties, infinities, NaN, both zeros
ODD = torch.tensor([[1.0, NAN, -INF, 0.0, -0.0, 1.0, INF, NAN], [2.0, 2.0, -1.0, 2.0, 3.0, -1.0, -1.0, 0.5]])
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-30, -1e30])
SPREAD = torch.cat([torch.linspace(-6, 6, 61), SPECIAL])
MARGINS = torch.tensor([[0.5, NAN, 1.0, -2.0], [NAN, 1.0, 7.0, 3.0], [1.0, -INF, 2.0, 0.0]])
LABELS = torch.tensor([0, 1, 2])
SQUARE = _noise(2, 4, 4) + 3 * torch.eye(4)
POSITIVE = SQUARE @ SQUARE.mT + torch.eye(4)
SINGULAR = torch.ones(3, 3)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
ROWS = torch.tensor([[0, 1, 1, 2], [2, 2, 0, 0]])
LADDER = torch.tensor([[-1.0, 0.0, 0.0, 0.5, 2.0], [0.0, 1.0, 2.0, 3.0, 4.0]])


def _reductions(name: OpOverload, *args: Any) -> list[tuple[Any, ...]]:
    """Each reduction, with and without the elements that are there."""
    reductions = ["prod", "mean", "amax", "amin"]
    if name is aten.scatter_reduce.two:
        reductions.append("sum")
    return [(*args, reduce, {"include_self": own}) for reduce in reductions for own in (True, False)]


def _grids(mode: int) -> list[tuple[Any, ...]]:
    grid = _noise(2, 2, 3, 2, 3, seed=5) * 1.3
    return [(VOLUME, grid, mode, padding, corners) for padding in (0, 1, 2) for corners in (True, False)]


SMALL = torch.arange(9, dtype=torch.int32).view(3, 3)
_BAGS = (_noise(6, 3), torch.tensor([0, 2, 5, 5, 1]), torch.tensor([0, 2, 2]), False)

# operator -> calls of it: positional arguments, and keyword arguments if the last one is a dict
CASES: dict[OpOverload, list[tuple[Any, ...]]] = {
    # arithmetic
    aten._trilinear.default: [
        (*each, [1, 3], [0], [1, 2], [2, 3])
        for each in (
            (_noise(5, 2), _noise(3, 2, 4), _noise(5, 4)),
            tuple((_noise(*size) * 9).to(torch.int8) for size in ((5, 2), (3, 2, 4), (5, 4))),
        )
    ],
    aten.addbmm.default: [
        (_noise(3, 3), X, X.mT.contiguous()),
        (_noise(3, 3), X, X.mT.contiguous(), {"beta": 0.5, "alpha": 2}),
        (SMALL, *(SMALL.expand(2, 3, 3).clone(),) * 2, {"beta": 0.5, "alpha": 1.6}),
    ],
    aten.angle.default: [(SPECIAL,), (INTS,)],
    aten.copysign.Scalar: [(SPECIAL, -0.0), (INTS, 2)],
    aten.copysign.Tensor: [(SPECIAL[:, None], SPECIAL.nan_to_num(3.0)), (INTS, INTS - 1)],
    aten.exp2.default: [(SPECIAL,), (INTS,), (X.double(),)],
    aten.mish.default: [(SPECIAL,), (50 * X,), (X.double(),)],
    aten.softplus.default: [(SPECIAL,), (50 * X,), (20 * X.double(),), (50 * X, 3.0), (X, 2.0, 0.5)],
    aten.fmax.default: [(SPECIAL[:, None], SPECIAL), (INTS, _noise(7))],
    aten.fmin.default: [(SPECIAL[:, None], SPECIAL), (INTS, INTS - 1)],
    aten.hypot.default: [(SPECIAL[:, None], SPECIAL), (X.double() * 1e200, X * 1e30)],
    aten.round.decimals: [
        *((X * 100, {"decimals": n}) for n in (0, 2, -1)),
        *((torch.linspace(-9, 9, 400).to(dtype), {"decimals": 1}) for dtype in (torch.half, torch.bfloat16)),
    ],
    aten.signbit.default: [(SPECIAL,), (INTS,), (INTS > 0,)],
    # cumulative
    **{
        operator: [(x, dim) for x in (ODD, INTS, X.double(), INTS > 0) for dim in (0, -1)]
        for operator in (aten.cummax.default, aten.cummin.default)
    },
    aten.cumprod.default: [(X, 1), (ODD, -1), (INTS.int(), 1), (X, 0, {"dtype": torch.float64})],
    aten.logcumsumexp.default: [(X * 50, -1), (ODD, 1), (torch.full((4,), -INF), 0)],
    # interpolation
    aten.multi_margin_loss.default: [
        (MARGINS, LABELS),
        (MARGINS, LABELS, 2, 0.5, torch.tensor([1.0, 2.0, 0.5, 3.0]), 2),
        (MARGINS, LABELS, 1, 1, None, 0),
        (X[0, 0], torch.tensor(2), 2),
        (X[0, 0], torch.tensor([2])),
    ],
    aten.multilabel_margin_loss_forward.default: [
        *((MARGINS, torch.tensor([[0, 2, -1, 1], [1, -1, 0, 0], [3, 2, 1, 0]]), by) for by in (0, 1, 2)),
        (X[0, 0], torch.tensor([2, 0, -1, 3]), 1),
    ],
    aten.cosine_similarity.default: [
        (X, X.flip(1)),
        (X, _noise(3, 1), 2),
        (X.double(), X.double(), -1, 2.0),
        (X.half(), torch.tensor(0.5)),
        ((X * 500).half(), (X.flip(1) * 500).half(), 0),
        (X, X * 0),
    ],
    aten.upsample_bicubic2d.vec: [
        (VOLUME[0], size, corners, scales)
        for size, scales in (([9, 4], None), ([6, 7], None), (None, [1.5, 2.0]), (None, [0.6, 1.0]))
        for corners in (True, False)
    ]
    + [(VOLUME[0].double(), [6, 7], False, None), (VOLUME[0].double(), None, False, [1.5, 0.6])],
    # lookup
    **{
        operator: [
            *((*_BAGS, mode) for mode in (0, 1, 2)),
            (*_BAGS, 0, False, _noise(5)),
            (*_BAGS, 1, False, None, True),
            *((*_BAGS, mode, False, None, False, 5) for mode in (0, 1, 2)),
        ]
        for operator in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
    },
    aten.grid_sampler_3d.default: [*_grids(0), *_grids(1)],
    # groups: few rows and many, some of groups without rows
    aten._grouped_mm.default: [
        (_brief(3, 8), _brief(4, 8, 16), torch.tensor([0, 1, 1, 3], dtype=torch.int32)),
        (_brief(9, 8), _brief(4, 16, 8).mT, torch.tensor([4, 4, 8, 9], dtype=torch.int32)),
        (_brief(4, 3, 8), _brief(4, 8, 16)),
    ],
    # matrices
    aten._linalg_det.default: [(SQUARE,), (SQUARE.double(),), (SINGULAR,), (X[0, :1, :1],)],
    aten._linalg_slogdet.default: [(SQUARE,), (SINGULAR,), (-torch.eye(3),)],
    aten._linalg_solve_ex.default: [
        (SQUARE, _noise(2, 4, 3)),
        (SQUARE, _noise(2, 4)),
        (SQUARE[0], _noise(4)),
        (SQUARE, _noise(2, 3, 4), {"left": False}),
    ],
    aten.cholesky.default: [
        (POSITIVE,),
        (POSITIVE, True),
        (torch.tensor([[[INF]], [[4.0]]]),),
        (torch.tensor([[9.0, 1.0], [1.0, INF]]),),
    ],
    aten.linalg_cholesky_ex.default: [(POSITIVE,), (POSITIVE.double(), {"upper": True})],
    aten.linalg_inv_ex.default: [(SQUARE,), (torch.tensor([[0.0, 1.0], [1.0, 0.0]]),)],
    aten.cholesky_inverse.default: [(SQUARE.tril() + torch.eye(4),), (SQUARE.triu() + torch.eye(4), True)],
    aten.cholesky_solve.default: [(_noise(4, 3), SQUARE.tril()), (_noise(4, 3), SQUARE.triu(), True)],
    aten.linalg_matrix_exp.default: [
        (SQUARE,),
        (torch.stack([torch.zeros(3, 3), torch.eye(3) * 9, _noise(3, 3) - 0.5]),),
        (-5 * SQUARE.double(),),
    ],
    aten.linalg_lu_solve.default: [(*torch.linalg.lu_factor(SQUARE.flip(0)), _noise(4, 3))],
    aten.triangular_solve.default: [
        (_noise(4, 3), SQUARE),
        (_noise(2, 4, 3), SQUARE, False, True, True),
    ],
    aten.linalg_solve_triangular.default: [
        (SQUARE, _noise(2, 4, 3), {"upper": True}),
        (SQUARE, _noise(4, 3), {"upper": False, "unitriangular": True}),
        (SQUARE, _noise(2, 3, 4), {"upper": True, "left": False}),
    ],
    # pooling
    aten._adaptive_avg_pool3d.default: [(VOLUME, [2, 3, 7]), (VOLUME[0], [1, 4, 2])],
    aten.adaptive_avg_pool3d.default: [(VOLUME, [2, 3, 7]), (VOLUME, [1, 1, 1])],
    aten.adaptive_max_pool2d.default: [(VOLUME[0], [2, 4]), (VOLUME[0, 0].round(), [6, 3])],
    aten.adaptive_max_pool3d.default: [(VOLUME, [2, 4, 7]), (VOLUME[0].round(), [5, 1, 3])],
    aten.avg_pool3d.default: [
        (VOLUME, [2]),
        (VOLUME, [2, 3, 2], [1, 2, 2], [1, 1, 0]),
        (VOLUME, [3, 2, 2], [2], [1], True, False),
        (VOLUME, [2, 4, 3], [3, 2, 2], [1, 1, 1], True, True),
        (VOLUME[0], [2], [1], [0], False, True, 3),
    ],
    aten.max_pool3d_with_indices.default: [
        (VOLUME, [2]),
        (VOLUME.round(), [2, 3, 2], [1, 2, 2], [1, 1, 0], [1, 1, 2]),
        (VOLUME[0], [3], [2], [1], [1], True),
    ],
    # scattering
    aten.diagonal_scatter.default: [
        (_noise(3, 5), _noise(3)),
        (X, _noise(3, 2), 0, 0, 2),
        (X, _noise(2, 2), -1, 1, -1),
        (_noise(3, 5) > 0, torch.tensor([0, 2, 3])),
    ],
    aten.histc.default: [(X, 5), (X, 4, -1.0, 1.5), (torch.ones(3), 3)],
    aten.index_fill.int_Scalar: [(X, 1, torch.tensor([0, -1]), 2.5), (INTS, 0, torch.tensor([1]), 7)],
    aten.index_fill.int_Tensor: [(X, -1, torch.tensor([3, 3]), torch.tensor(2.5))],
    aten.index_reduce.default: _reductions(
        aten.index_reduce.default, X, 1, torch.tensor([2, 0, 2, 2]), _noise(2, 4, 4)
    ),
    aten.put.default: [
        (X, torch.tensor([[0, 23], [-1, 5]]), _noise(2, 2)),
        (X, torch.tensor([1, 1, 2]), _noise(3), True),
    ],
    aten.scatter.reduce: [(X[0], 1, ROWS, _noise(2, 4), {"reduce": r}) for r in ("add", "multiply")],
    aten.scatter.value_reduce: [(X[0], 0, ROWS, 2.5, {"reduce": r}) for r in ("add", "multiply")],
    aten.scatter_reduce.two: [
        *_reductions(aten.scatter_reduce.two, X[0], 0, ROWS, _noise(2, 4)),
        *_reductions(aten.scatter_reduce.two, INTS, 1, ROWS, INTS + 1),
        *_reductions(aten.scatter_reduce.two, X, -2, ROWS[:, None], X),
    ],
    # sorting
    aten.bucketize.Tensor: [(ODD, LADDER[0]), (INTS, LADDER[0], {"right": True, "out_int32": True})],
    aten.isin.Scalar_Tensor: [(2, INTS), (2.5, X, {"invert": True}), (2, INTS[:0])],
    aten.isin.Tensor_Tensor: [
        *((INTS, LADDER, {"invert": invert}) for invert in (False, True)),
        *((X, X[:0], {"invert": invert}) for invert in (False, True)),
    ],
    aten.kthvalue.default: [(X, 2), (ODD[:1], 6, 1, True), (INTS[:, :1], 1, 1)],
    aten.median.default: [(X,), (ODD,), (INTS,), (torch.tensor(3.0),), (X[:0],)],
    aten.median.dim: [(X, 1), (ODD[:1], 1, True), (X, 0)],
    aten.mode.default: [
        *((x, dim, True) for x in (ODD[1:], INTS) for dim in (0, 1)),
        *((x,) for x in (INTS % 3, INTS > 1, X, torch.tensor(3.0))),
    ],
    aten.nanmedian.default: [(X,), (ODD,), (INTS,), (torch.full((3,), NAN),)],
    aten.nanmedian.dim: [(X, 1), (ODD[:, :4], 1, True)],
    aten.nonzero_static.default: [
        (INTS, {"size": size, "fill_value": fill}) for size, fill in ((4, -1), (40, 9), (0, -1))
    ],
    aten.searchsorted.Scalar: [(LADDER[1], 2.0), (LADDER[1], 2, {"right": True}), (LADDER[0], NAN)],
    aten.searchsorted.Tensor: [
        (LADDER, ODD),
        (LADDER, ODD, {"right": True}),
        (LADDER[0], X, {"out_int32": True, "side": "right"}),
        (LADDER.flip(1), ODD, {"sorter": torch.arange(4, -1, -1).expand(2, 5)}),
    ],
    aten.sort.stable: [
        *((ODD, {"stable": True, **order}) for order in ({}, {"descending": True}, {"dim": 0})),
        *((INTS.to(dtype), {"stable": True}) for dtype in INTEGERS),
        *((INTS.to(dtype), {"stable": True, "descending": True, "dim": 0}) for dtype in INTEGERS),
        (X.half(), {"stable": True, "dim": 1}),
        (torch.tensor(2.0), {"stable": True, "dim": 0}),
        (X[:, :1], {"stable": True, "dim": 1}),
        (torch.arange(2**15 + 1) % 3 > 0, {"stable": True}),
    ],
    aten.sort.default: [
        (X,),
        (INTS, 0, True),
        (torch.tensor([2**31 - 1, 2**24 + 1, -(2**31), 2**24], dtype=torch.int32),),
    ],
    # special
    aten.digamma.default: [(SPREAD,), (SPREAD.double(),)],
    aten.erfc.default: [(SPREAD,), (SPREAD.double(),), (INTS,), (X.half(),)],
    aten.erfinv.default: [(torch.linspace(-1, 1, 201),), (torch.linspace(-1.1, 1, 50).double(),)],
    aten.lgamma.default: [(SPREAD,), (SPREAD.double(),), (torch.tensor([1e-5, 30.0, 1e6]),)],
    aten.special_erfcx.default: [(SPREAD,), (SPREAD.double(),), (torch.tensor([20.0, 1e9]),)],
    aten.special_ndtri.default: [
        (torch.tensor([0.0, 1e-30, 1e-6, 0.2, 0.5, 0.9, 1.0, 1.5]),),
        (torch.linspace(0, 1, 41).double(),),
    ],
}

# Operators with results that only a derivative needs -> the results that are computed.
KEPT: dict[OpOverload, list[int]] = {
    aten._embedding_bag.default: [0],
    aten._embedding_bag_forward_only.default: [0],
    aten._linalg_det.default: [0],
    aten._linalg_slogdet.default: [0, 1],
    aten._linalg_solve_ex.default: [0, 3],
}

# Mean, deviation, minimum and maximum of many values; None if undefined.
MANY = torch.full((4000,), 0.3)
UNIT = (0.5, 12**-0.5, 0.0, 1.0)
NORMAL = (0.0, 1.0, None, None)
RANDOM: dict[OpOverload, tuple[tuple[Any, ...], tuple[float | None, ...]]] = {
    aten.bernoulli.default: ((MANY,), (0.3, 0.21**0.5, 0.0, 1.0)),
    aten.bernoulli.p: ((MANY, 0.8), (0.8, 0.4, 0.0, 1.0)),
    aten.cauchy.default: ((MANY, 1.0, 2.0), (None, None, None, None)),
    aten.exponential.default: ((MANY, 2.0), (0.5, 0.5, 0.0, None)),
    aten.geometric.default: ((MANY, 0.4), (2.5, 0.6**0.5 / 0.4, 1.0, None)),
    aten.log_normal.default: ((MANY, 0.0, 0.5), (math.exp(1 / 8), 0.604, 0.0, None)),
    aten.multinomial.default: ((torch.tensor([1.0, 0.0, 3.0]), 4000, True), (1.5, 0.866, 0.0, 2.0)),
    aten.normal.Tensor_Tensor: ((MANY * 0, MANY / MANY), NORMAL),
    aten.normal.Tensor_float: ((MANY * 0,), NORMAL),
    aten.normal.float_Tensor: ((0.0, MANY / MANY), NORMAL),
    aten.normal.float_float: ((0.0, 1.0, [4000]), NORMAL),
    aten.normal_functional.default: ((MANY, 2.0, 3.0), (2.0, 3.0, None, None)),
    aten.rand_like.default: ((MANY,), UNIT),
    aten.randint.default: ((5, [4000]), (2.0, 2**0.5, 0.0, 4.0)),
    aten.randint.low: ((-2, 3, [4000]), (0.0, 2**0.5, -2.0, 2.0)),
    aten.randint_like.default: ((MANY, 5), (2.0, 2**0.5, 0.0, 4.0)),
    aten.randint_like.low_dtype: ((MANY, -2, 3), (0.0, 2**0.5, -2.0, 2.0)),
    aten.randn_like.default: ((MANY,), NORMAL),
    aten.randperm.default: ((4001,), (2000.0, 1155.0, 0.0, 4000.0)),
    aten.uniform.default: ((MANY, -1.0, 1.0), (0.0, 3**-0.5, -1.0, 1.0)),
}

# Calls that a function declines.
DECLINED: list[tuple[Any, ...]] = [
    (aten._grouped_mm.default, _brief(8, 8), _brief(8, 16), torch.tensor([4, 8], dtype=torch.int32)),
    (aten.linalg_inv_ex.default, torch.eye(33)),
    (aten.scatter_reduce.two, _noise(3000), 0, _integers(0, 3000, 3000), _noise(3000), "amax"),
]


def _calls() -> Iterator[Any]:
    for operator, calls in CASES.items():
        for index, call in enumerate(calls):
            yield pytest.param(operator, call, id=f"{operator}-{index}")


def test_every_function_has_a_case() -> None:
    # those of quantized models have a separate test
    assert CASES.keys() | RANDOM.keys() | quantized.FUNCTIONS.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize(("operator", "call"), list(_calls()))
def test_function_computes_the_same(operator: OpOverload, call: tuple[Any, ...]) -> None:
    program, expected, tensors = call_program(operator, call, keep=KEPT.get(operator))
    assert operator not in called(program)
    assert [other for other in called(program) if out_variant(other) is None] == []
    wide = any(x.dtype is torch.float64 for x in tensors)
    low = any(x.dtype is torch.float16 for x in tensors)
    tolerance = 1e-3 if low else 1e-10 if wide else 1e-5
    assert_computes(program, expected, *tensors, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("operator", RANDOM)
def test_random_values_have_their_distribution(operator: OpOverload) -> None:
    call, (mean, deviation, least, largest) = RANDOM[operator]
    program, expected, tensors = call_program(operator, call)
    assert [other for other in called(program) if out_variant(other) is None] == []
    torch.manual_seed(1)
    (result,) = interpret(program, tensors)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    result = result.double()
    assert result.isfinite().all()
    for found, wanted, tolerance in (
        (result.mean(), mean, 0.06),
        (result.std(), deviation, 0.06),
    ):
        if wanted is not None:
            assert math.isclose(found.item(), wanted, rel_tol=tolerance, abs_tol=tolerance), wanted
    assert least is None or result.min() >= least
    assert largest is None or result.max() <= largest


@pytest.mark.parametrize("case", DECLINED, ids=lambda case: str(case[0]))
def test_calls_that_a_function_declines_are_kept(case: tuple[Any, ...]) -> None:
    operator, *call = case
    program, _, _ = call_program(operator, call)
    assert operator in called(program)


def test_lgamma_keeps_its_digits_near_its_roots() -> None:
    x = torch.linspace(0.5, 4, 701)
    program = edge(torch.lgamma, x)
    assert aten.lgamma.default not in called(program)
    assert_computes(program, torch.lgamma(x.double()).float(), x, atol=0, rtol=1e-6)


def test_angles_have_the_digits_of_float64() -> None:
    x = torch.tensor([-1.0, 2.0, math.nan], dtype=torch.float64)
    assert_computes(edge(torch.angle, x), torch.angle(x), x, atol=0, rtol=0)


def test_membership_in_a_tensor_that_may_be_empty() -> None:
    """Where the sizes vary, torch's decomposition looks up the first of no elements."""

    def function(x: torch.Tensor, empty: torch.Tensor, values: torch.Tensor) -> Any:
        return torch.isin(x, empty), torch.isin(x, values, invert=True), torch.isin(2.5, values)

    x, empty = torch.tensor([1.0, 2.5, 1.0, 2.5]), torch.zeros(2, 0)
    dynamic = ({0: Dim("n", min=2, max=9)}, None, {0: Dim("m", min=0, max=9)})
    program = edge(function, x, empty, x[1:], dynamic_shapes=dynamic)
    for count in (0, 1, 3):
        inputs = (x[:3], empty, x[:count])
        assert_computes(program, function(*inputs), *inputs)
