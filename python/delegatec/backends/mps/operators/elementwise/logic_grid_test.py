# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logical and bitwise operators, clamp and where, against eager mode."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.testing import BOOL, EDGES, PAIRS, Function, X, Y, floats, ints
from delegatec.backends.mps.operators.grid import PRECISIONS, rejected, run_case

COMPARISONS = ["eq", "ge", "gt", "le", "lt", "ne"]
WIDE = torch.tensor([-(2**40) - 1, -(2**40), -1, 0, 1, 2**40, 2**40 + 1, 2**62])
BITS = torch.tensor([-7, 5, -1, 0, 2**20 + 3, -(2**31)], dtype=torch.int32)
SHIFTS = torch.tensor([0, 1, 31, 5, 7, 40], dtype=torch.int32)
MASK = floats(2, 3, 4, seed=7) > 0

CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    **{name: (getattr(torch, name), PAIRS, name.capitalize()) for name in COMPARISONS},
    **{
        f"{name} of int64": (getattr(torch, name), (WIDE, WIDE.roll(1) + 1), name.capitalize())
        for name in COMPARISONS
    },
    "gt scalar": (lambda a: a > 0.5, (EDGES,), "Gt"),
    "gt float scalar of int": (lambda a: a > 1.5, (ints(5),), "Cast Gt"),
    "gt of int and float": (torch.gt, (ints(4), floats(4)), "Cast Gt"),
    "le of rank 0": (torch.le, (torch.tensor(1.0), floats(4)), "Le"),
    "eq of bools": (torch.eq, (BOOL, ~BOOL), "Cast Cast Eq"),
    "lt beyond int32": (lambda a: a < 2**40, (BITS,), "Lt"),
    "bitwise_and": (torch.bitwise_and, (BITS, BITS.flip(0)), "BitwiseAnd"),
    "bitwise_or of bool": (torch.bitwise_or, (BOOL, ~BOOL), "BitwiseOr"),
    "bitwise_or scalar": (lambda a: a | 3, (BITS,), "BitwiseOr"),
    "bitwise_xor": (torch.bitwise_xor, (BITS, BITS.flip(0)), "BitwiseXor"),
    "bitwise_xor scalar": (lambda a: a ^ 3, (BITS,), "BitwiseXor"),
    "bitwise_and of int64": (lambda a: a & (2**40 + 1), (WIDE,), "BitwiseAnd"),
    "bitwise_not": (torch.bitwise_not, (BITS,), "BitwiseNot"),
    "bitwise_not of bool": (torch.bitwise_not, (BOOL,), "BitwiseNot"),
    **{f"shift by {n}": (lambda a, n=n: (a << n, a >> n), (BITS,), "") for n in (0, 1, 5, 30, 31, 32, -1)},
    "shift of int64": (lambda a: (a << 3, a << 63, a >> 3, a >> 63), (WIDE,), ""),
    "shift of int8": (lambda a: (a << 7, a >> 6), (torch.tensor([-100, 3, 127], dtype=torch.int8),), ""),
    "shift by tensor": (lambda a, n: (a << n, a >> n), (BITS, SHIFTS), ""),
    "shift of scalar": (lambda n: (3 << n, -9 >> n), (SHIFTS,), ""),
    "shift of rank 0": (lambda a, n: (a << n, a >> n), (BITS[0], SHIFTS[3]), ""),
    "logical_and": (torch.logical_and, (BOOL, ~BOOL), "BitwiseAnd"),
    "logical_and of floats": (torch.logical_and, PAIRS, "Ne Ne BitwiseAnd"),
    "logical_or of ints": (torch.logical_or, (ints(4), ints(4).flip(0)), "Ne Ne BitwiseOr"),
    "logical_xor": (torch.logical_xor, (BOOL, ~BOOL), "BitwiseXor"),
    "logical_not": (torch.logical_not, (BOOL,), "LogicalNot"),
    "logical_not of float": (torch.logical_not, (EDGES,), "Ne LogicalNot"),
    "clamp": (lambda a: a.clamp(-0.25, 0.75), (EDGES,), "HardTanh"),
    "clamp min": (lambda a: a.clamp(min=0.5), (EDGES,), "HardTanh"),
    "clamp max": (lambda a: a.clamp(max=float("inf")), (EDGES,), "HardTanh"),
    "clamp out of order": (lambda a: a.clamp(2.0, -1.0), (EDGES,), "HardTanh"),
    "clamp to NaN": (lambda a: a.clamp(float("nan"), 1.0), (EDGES,), "Mul"),
    "clamp of int": (lambda a: a.clamp(max=2), (ints(5),), "Clamp"),
    "clamp of int64": (lambda a: a.clamp(-3, 2), (WIDE,), "Clamp"),
    "clamp of int out of order": (lambda a: a.clamp(3, -2), (WIDE,), "Clamp"),
    "clamp of int far": (lambda a: a.clamp(-(2**40), 2**40), (WIDE,), "Gt Where Minimum"),
    "clamp of int to floats": (lambda a: a.clamp(0.5, 2.5), (ints(5),), "Cast HardTanh"),
    "clamp between tensors": (
        lambda x, a, b: torch.clamp(x, a, b),
        (PAIRS[0], PAIRS[1], PAIRS[1].nan_to_num(0.0) + 1.0),
        "",
    ),
    "clamp above a tensor": (lambda x, a: torch.clamp(x, min=a), (X, floats(4)), ""),
    "clamp_min": (lambda a: a.clamp_min(0.1), (X,), "HardTanh"),
    "clamp of int between tensors": (lambda x, a: torch.clamp(x, a, a + 3), (WIDE, ints(8)), ""),
    "where": (torch.where, (MASK, X, Y), "Where"),
    "where broadcasts": (torch.where, (MASK, torch.tensor(2.0), floats(3, 1)), "Where"),
    "where promotes": (lambda c, a: torch.where(c, a, torch.tensor(2.0)), (BOOL, ints(3)), "Cast Where"),
    "where of ints": (lambda c, a: torch.where(c, a, -a), (BOOL, WIDE[:3]), "Neg Where"),
    "where of bools": (torch.where, (BOOL, ~BOOL, BOOL), "Where"),
    "where of a scalar": (lambda c, a: torch.where(c, a, 0.0), (MASK, X), "Where"),
    "where of scalars": (lambda c: torch.where(c, 1.0, float("-inf")), (MASK,), "Where"),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), (X, MASK), "Where"),
    "masked_fill of int": (lambda x, m: x.masked_fill(m, 2**40 + 1), (WIDE[:3], BOOL), "Where"),
    "masked_fill by a tensor": (lambda x, m, v: x.masked_fill(m, v), (X, MASK, torch.tensor(3.0)), ""),
    "heaviside": (torch.heaviside, PAIRS, ""),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, precision: str) -> None:
    function, args, expected = CASES[name]
    run_case(function, args, expected if precision == "fp32" else "", precision, special=len(args))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_bounds_beyond_float16_bound_nothing_there(precision: str) -> None:
    run_case(lambda a: a.clamp(-1e9, 1e9), (EDGES[:-3],), precision=precision, reference=lambda a: a)


def test_bits_of_floats_are_rejected() -> None:
    function = torch.ops.aten.bitwise_left_shift.Tensor_Scalar
    assert rejected(lambda a: function(a, 2), (floats(3),))[0][1] == "dtype"
