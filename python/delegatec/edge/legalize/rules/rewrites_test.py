# SPDX-License-Identifier: Apache-2.0
"""Every rewrite of a pointwise operator has the results of the operator, for all targets."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload

from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.rule import Refusal, rewrites
from delegatec.edge.legalize.rules import (
    activations,
    bits,
    comparison,
    division,
    exponentials,
    extrema,
    powers,
    promotion,
    rounding,
    slicing,
    special,
    trigonometry,
)
from delegatec.edge.passes.pass_manager import verify_after
from delegatec.edge.testing import assert_computes, assert_rewrites, call_program

aten = torch.ops.aten
INF, NAN = math.inf, math.nan

REWRITES = rewrites(
    activations.REWRITES,
    bits.REWRITES,
    comparison.REWRITES,
    division.REWRITES,
    exponentials.REWRITES,
    extrema.OF_OPERANDS,
    powers.REWRITES,
    rounding.REWRITES,
    trigonometry.REWRITES,
)

# for the targets that prefer them
ALTERNATIVES = rewrites(
    (activations.ELU_IN_FLOAT32, activations.GELU_BY_ERF, activations.GELU_BY_EXP),
    (activations.LEAKY_RELU_BY_MAXIMUM, extrema.MAXIMUM_BY_MINIMUM),
    (special.ERF_BY_EXP, special.ERF_BY_GELU),
    (powers.RECIPROCAL_BY_DIVISION, powers.NEGATIVE_BY_RECIPROCAL, *powers.IN_DOMAIN),
    (*powers.BY_EXP, powers.RSQRT_BY_SQRT, slicing.TRIANGLE_BY_CONSTANT),
    (exponentials.EXP2_BY_EXP, exponentials.EXP2_IN_FLOAT32),
    (*exponentials.IN_FLOAT32, *exponentials.BY_ROOTS),
    (rounding.SIGN_BY_DIFFERENCE, *rounding.SIGN_BY_WHERE, *rounding.BY_FLOOR),
    (rounding.SIGN_BY_CLAMP, rounding.ROUND_BY_SUM),
    comparison.EQUAL_BY_ORDER,
    comparison.NOT_FINITE_BY_ORDER,
    comparison.WHERE_BY_ARITHMETIC,
    (comparison.WHERE_BY_EXTREMA,),
    division.TRUNCATED,
    (*promotion.PROMOTED, promotion.PROMOTED_CLAMP),
)

EDGES = torch.tensor(
    [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        1.0,
        -1.0,
        3.0,
        -7.0,
        0.001,
        -0.001,
        100.25,
        -513.5,
        INF,
        -INF,
        NAN,
    ]
)
PAIRS = (EDGES.repeat_interleave(len(EDGES)), EDGES.repeat(len(EDGES)))
FINITE = EDGES[:-3]
SMALL = torch.linspace(-0.9, 0.9, 37)
POSITIVE = SMALL.abs() + 0.1
ZEROS = torch.tensor([0.0, -0.0, 1.5, -1.5])
UNIT = torch.linspace(-1.0, 1.0, 41)
LARGE = torch.tensor([1e3, -1e3, 6e4, -6e4])
INTS = torch.tensor([-(2**40) - 1, -(2**24) - 1, -7, 7, -8, 8, 0, 1, -1, 2**40 + 1])
BY = torch.tensor([2, -2, 3, -3, 5, 7, -7, 3, 3, -2])
BITS = torch.tensor([-7, 5, -1, 0, 2**20 + 3, -(2**31)], dtype=torch.int32)
SHIFTS = torch.tensor([0, 1, 31, 5, -7, 40], dtype=torch.int32)
NARROW = torch.tensor([-100, 3, 127], dtype=torch.int8)
BOOLS = (torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False]))

_UNARY = [(INTS,), (NARROW,)]
_SHIFTED = [(BITS, SHIFTS), (INTS, INTS % 64), (NARROW, NARROW % 8)]
_QUOTIENTS = [PAIRS, (INTS, BY), (NARROW, torch.tensor([7, -2, 3], dtype=torch.int8))]
_DIVISORS = (0.1, -0.3, 0.25, 0.0, INF, -INF, 3e38)

# operator -> calls of it: positional arguments, and keyword arguments if the last one is a dict
CASES: dict[OpOverload, list[tuple[Any, ...]]] = {
    aten.abs.default: _UNARY,
    aten.atan2.default: [PAIRS, (INTS, BY)],
    aten.bitwise_left_shift.Scalar_Tensor: [(3, SHIFTS)],
    aten.bitwise_left_shift.Tensor: _SHIFTED,
    aten.bitwise_left_shift.Tensor_Scalar: [(BITS, by) for by in (0, 5, 31, 32, -1)],
    aten.bitwise_right_shift.Scalar_Tensor: [(-9, SHIFTS)],
    aten.bitwise_right_shift.Tensor: _SHIFTED,
    aten.bitwise_right_shift.Tensor_Scalar: [(BITS, by) for by in (0, 5, 30, 31, 32, -1)],
    aten.clamp.default: [
        (EDGES, -0.25, 0.75),
        (EDGES, 2.0, -1.0),
        (EDGES, NAN, 1.0),
        (INTS, -(2**40), 2**40),
        (INTS, None, 3),
    ],
    aten.clamp.Tensor: [
        (*PAIRS, PAIRS[1].nan_to_num(0.0) + 1.0),
        (PAIRS[0], None, PAIRS[1]),
        (INTS, BY),
    ],
    aten.div.Scalar_mode: [
        *((FINITE, by, {"rounding_mode": mode}) for by in _DIVISORS for mode in ("floor", None)),
        (FINITE, 0.25, {"rounding_mode": "trunc"}),
        (INTS, -3, {"rounding_mode": "floor"}),
    ],
    aten.div.Tensor_mode: [(*pair, {"rounding_mode": "floor"}) for pair in _QUOTIENTS],
    aten.elu.default: [(EDGES,), (SMALL, 0.5), (SMALL, 1.5, 2.0, 0.7)],
    aten.expm1.default: [(EDGES[EDGES.abs() < 50],), (SMALL * 1e-3,)],
    aten.floor_divide.default: _QUOTIENTS,
    aten.fmod.Scalar: [(FINITE, by) for by in _DIVISORS],
    aten.fmod.Tensor: _QUOTIENTS,
    aten.gelu.default: [(FINITE, {"approximate": "tanh"})],
    aten.glu.default: [(SMALL[:36].view(3, 12),), (SMALL[:36].view(6, 6), 0)],
    aten.hardtanh.default: [(EDGES, -0.25, 0.75), (EDGES, NAN, 1.0)],
    aten.isinf.default: _UNARY,
    aten.isnan.default: _UNARY,
    aten.leaky_relu.default: [(EDGES, 1.5), (EDGES, -0.5), (FINITE, 0.0)],
    aten.log1p.default: [(EDGES,), (SMALL * 1e-3,)],
    aten.logit.default: [(EDGES,), (POSITIVE, 0.25)],
    aten.masked_fill.Scalar: [
        (EDGES, EDGES > 0, -INF),
        (INTS, BY > 0, 2**40 + 1),
        (BOOLS[0], BOOLS[1], True),
    ],
    aten.maximum.default: [PAIRS, (INTS, BY), BOOLS, (INTS[:3], EDGES[2:5])],
    aten.minimum.default: [PAIRS, (INTS, BY), BOOLS],
    aten.pow.Scalar: [
        (2.0, SMALL),
        (-0.0, torch.tensor([-1.0, -2.0, 3.0, 0.5])),
        (3.0, SMALL),
        (-3.0, torch.tensor([1.0, 2.0, 0.5])),
    ],
    aten.pow.Tensor_Scalar: [
        *((SMALL, by) for by in (0, 1, 2, 3, 7, 31, 40, 41, 1.5, INF, -INF)),
        *((POSITIVE, by) for by in (-1, -2, 0.5, -0.5, 0.3, -1.7)),
        *((EDGES, by) for by in (2, 3)),
        *((ZEROS, by) for by in (-33, -34)),
        (INTS, 5),
        (INTS, 0),
        (BY.abs(), 0.5),
    ],
    aten.pow.Tensor_Tensor: [
        (POSITIVE, SMALL),
        (torch.tensor([-0.0, -0.0, 0.0]), torch.tensor([-1.0, -2.0, -3.0])),
        (torch.tensor([-8.0, -2.0, -2.0, -1.5, 0.0, 2.0]), torch.tensor([0.3, 3.0, -2.0, 4.0, 0.0, -1.0])),
    ],
    aten.relu.default: [(BY,)],
    aten.remainder.Scalar: [*((FINITE, by) for by in _DIVISORS), (INTS, -3)],
    aten.remainder.Tensor: _QUOTIENTS,
    aten.sign.default: _UNARY,
    aten.acos.default: [(UNIT,), (EDGES,)],
    aten.acosh.default: [(1.0 + UNIT.abs(),), (1.0 + UNIT.abs() / 1000.0,), (EDGES,), (LARGE,)],
    aten.asin.default: [(UNIT,), (EDGES,)],
    aten.asinh.default: [(UNIT,), (EDGES,), (LARGE,)],
    aten.atan.default: [(UNIT,), (EDGES,), (LARGE,)],
    aten.atanh.default: [(UNIT,), (EDGES,)],
    aten.cosh.default: [(UNIT,), (EDGES,), (UNIT * 88.5,)],
    aten.log10.default: [(EDGES,), (UNIT,)],
    aten.log2.default: [(EDGES,), (UNIT,)],
    aten.sinh.default: [(UNIT,), (EDGES,), (UNIT * 88.5,)],
    aten.tan.default: [(UNIT,), (UNIT * 7.0,), (EDGES,), (LARGE,), (UNIT * 0.01 + 1.5 * math.pi,)],
    aten.trunc.default: [(EDGES,)],
    aten.xlogy.Scalar_Other: [(SMALL, 2.5)],
    aten.xlogy.Scalar_Self: [(0.0, EDGES), (2.0, EDGES)],
}

_COMPARED: list[tuple[Any, ...]] = [PAIRS, (INTS, BY), (INTS, EDGES[:10]), BOOLS]
_COMPARED_SCALARS: list[tuple[Any, ...]] = [(EDGES, 0.5), (INTS, 7), (BY, 2.5)]
_SUMS: list[tuple[Any, ...]] = [(INTS, FINITE[:10]), (BY.int(), BY)]
# calls of the alternatives, besides those of CASES
OTHER_CASES: dict[OpOverload, list[tuple[Any, ...]]] = {
    aten._to_copy.default: [(each, {"dtype": torch.bool}) for each in (EDGES, INTS)],
    aten.add.Scalar: [(BY, 2.5)],
    aten.add.Tensor: _SUMS,
    aten.ceil.default: [(EDGES,)],
    aten.clamp.default: [(BY, 0.5, None)],
    aten.div.Scalar: [(BY, 2.5)],
    aten.div.Scalar_mode: [(FINITE, by, {"rounding_mode": "trunc"}) for by in (0.1, -0.3, 0.25)],
    aten.div.Tensor: _SUMS,
    aten.div.Tensor_mode: [(*PAIRS, {"rounding_mode": "trunc"})],
    aten.eq.Scalar: _COMPARED_SCALARS,
    aten.eq.Tensor: _COMPARED,
    aten.erf.default: [(EDGES,), (SMALL,)],
    aten.exp2.default: [(SMALL,), (EDGES[EDGES.abs() < 100],)],
    aten.ge.Scalar: _COMPARED_SCALARS,
    aten.ge.Tensor: _COMPARED,
    aten.gelu.default: [(FINITE,), (SMALL,)],
    aten.gt.Scalar: _COMPARED_SCALARS,
    aten.gt.Tensor: _COMPARED,
    aten.isinf.default: [(EDGES,)],
    aten.isnan.default: [(EDGES,)],
    aten.le.Scalar: _COMPARED_SCALARS,
    aten.le.Tensor: _COMPARED,
    aten.leaky_relu.default: [(EDGES, 0.25)],
    aten.log.default: [(EDGES,), (POSITIVE,), (LARGE,)],
    aten.lt.Scalar: _COMPARED_SCALARS,
    aten.lt.Tensor: _COMPARED,
    aten.maximum.default: [
        (torch.tensor([-(2**63), 3]), torch.tensor([5, -(2**63)])),
        (INTS, FINITE[:10]),
    ],
    aten.minimum.default: [(INTS, FINITE[:10])],
    aten.mul.Scalar: [(BY, 2.5)],
    aten.mul.Tensor: _SUMS,
    aten.ne.Scalar: _COMPARED_SCALARS,
    aten.ne.Tensor: _COMPARED,
    aten.pow.Tensor_Scalar: [(EDGES, by) for by in (1.5, -1.5, 33, -3)]
    + [(POSITIVE, -33), (ZEROS, -33), (ZEROS, -35)],
    aten.pow.Tensor_Tensor: [PAIRS],
    aten.reciprocal.default: [(EDGES,)],
    aten.round.default: [(EDGES,), (LARGE + 0.5,)],
    aten.rsqrt.default: [(EDGES,)],
    aten.rsub.Scalar: [(BY, 2.5)],
    aten.sgn.default: [(EDGES,)],
    aten.sign.default: [(EDGES[:-1],)],
    aten.sub.Scalar: [(BY, 2.5)],
    aten.sub.Tensor: _SUMS,
    aten.tril.default: [(FINITE[:12].view(2, 2, 3), by) for by in (0, 1, -1)],
    aten.where.self: [
        (BY > 0, INTS, BY.int()),
        (BOOLS[0], *BOOLS),
        (BOOLS[0], torch.ones(2, 4), torch.zeros(2, 4)),
        (EDGES[:-1] > 0.5, EDGES[:-1], -EDGES[:-1]),
    ],
}

_TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3}


def test_every_rewrite_has_cases() -> None:
    assert set(CASES) == set(REWRITES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("operator", CASES, ids=str)
def test_replacements_have_the_same_results(operator: OpOverload, dtype: torch.dtype) -> None:
    rewritten = 0
    for call in CASES[operator]:
        args = [each.to(dtype) if _is_float(each) else each for each in call]
        program, wanted, inputs = call_program(operator, args, preserve=[operator])
        (node,) = (each for each in program.graph.nodes if each.target is operator)
        builder = Builder(program).at(node)
        results = [rewrite(builder, node) for rewrite in REWRITES[operator]]
        for result in results:
            if isinstance(result, Refusal):
                continue
            assert dtype_of(result) == wanted.dtype and result.meta["val"].shape == wanted.shape
            rewritten += 1
        replace(node, next(each for each in results if not isinstance(each, Refusal)))
        program.graph.eliminate_dead_code()
        verify_after(str(operator), program, True)
        tolerance = _TOLERANCE.get(wanted.dtype, 0.0)
        assert_computes(program, wanted, *inputs, rtol=tolerance, atol=tolerance)
    assert rewritten == len(CASES[operator])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("operator", ALTERNATIVES, ids=str)
def test_alternatives_have_the_same_results(operator: OpOverload, dtype: torch.dtype) -> None:
    tolerance = _TOLERANCE[dtype] * (1.5 if operator is aten.erf.default else 1)  # 1 - 0.999 in float16
    calls = [*CASES.get(operator, ()), *OTHER_CASES.get(operator, ())]
    assert_rewrites(ALTERNATIVES[operator], calls, dtype, tolerance, refuses=True)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
