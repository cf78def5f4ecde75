# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators: the operations that they become, and what is special to MPSGraph and to scalars."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.testing import BOOL, EDGES, PAIRS, Function, X, Y, floats, ints
from delegatec.backends.mps.testing.grid import PRECISIONS, rejected, run_case

LARGE = 2**40 + 1
INTEGERS = torch.tensor([-7, 7, -8, 8, 0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**31 - 1])
BY = torch.tensor([2, -2, 3, -3, 5, 7, -7, 3, 3, -2])
ANGLES = torch.tensor([1e-3, -1e-3, 0.1, -0.7, 6.0, -7.5, 100.0, -1000.0, 0.3, 0.6])
WIDE = torch.tensor([-(2**40) - 1, -(2**40), -1, 0, 1, 2**40, 2**40 + 1, 2**62])
BITS = torch.tensor([-7, 5, -1, 0, 2**20 + 3, -(2**31)], dtype=torch.int32)
SHIFTS = torch.tensor([0, 1, 31, 5, 7, 40], dtype=torch.int32)
BYTES = torch.tensor([-100, 3, 127], dtype=torch.int8)
MASK = floats(2, 3, 4, seed=7) > 0
BASES = torch.tensor([-8.0, -2.0, -2.0, -1.5, 0.0, 2.0])
POWERS = torch.tensor([1 / 3, 3.0, -2.0, 4.0, 0.0, -1.0])

ARITHMETIC: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    "add": (torch.add, PAIRS, "Add"),
    "add int and float": (torch.add, (ints(3), floats(3)), "Cast Add"),
    "add of bools": (torch.add, (BOOL, ~BOOL), "BitwiseOr"),
    "add large alpha": (lambda a, b: torch.add(a, b, alpha=LARGE), (INTEGERS, BY), "Mul Add"),
    "add large alpha times a scalar": (lambda a: torch.add(a, 3, alpha=LARGE), (INTEGERS,), ""),
    "sub large alpha": (lambda a, b: torch.sub(a, b, alpha=LARGE), (INTEGERS, BY), "Mul Sub"),
    "sub large alpha times a scalar": (lambda a: torch.sub(a, 3, alpha=LARGE), (INTEGERS,), ""),
    "rsub large alpha": (lambda a: torch.rsub(a, 3, alpha=LARGE), (INTEGERS,), "Mul Sub"),
    "add beyond int8": (lambda a: a + 300, (BYTES,), "Add"),
    "sub": (torch.sub, PAIRS, "Sub"),
    "mul": (torch.mul, PAIRS, "Mul"),
    "mul of bools": (torch.mul, (BOOL, ~BOOL), "BitwiseAnd"),
    "mul large scalar int": (lambda a: a * LARGE, (INTEGERS,), "Mul"),
    "div": (torch.div, PAIRS, "Div"),
    "div of ints": (torch.div, (INTEGERS[:7], BY[:7]), "Cast Cast Div"),
    "div trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), PAIRS, "Div"),
    "div trunc of ints": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), (INTEGERS, BY), "Div"),
    "div trunc of halves": (
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        (ANGLES.half(), torch.full((10,), 0.3).half()),
        "",
    ),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), PAIRS, ""),
    "floor_divide": (torch.floor_divide, (ANGLES, ANGLES.flip(0)), ""),
    "floor_divide by a tenth": (lambda a: a // 0.1, (ANGLES,), ""),
    "floor_divide by minus a tenth": (lambda a: a // -0.1, (ANGLES,), ""),
    "floor_divide by a power of two": (lambda a: a // 0.25, (ANGLES,), "Div Floor Isinf Where"),
    "floor_divide by zero": (lambda a: a // 0.0, (ANGLES,), ""),
    "remainder": (torch.remainder, PAIRS, ""),
    "remainder of angles": (torch.remainder, (ANGLES, ANGLES.flip(0)), ""),
    "remainder by a power of two": (lambda a: torch.remainder(a, -2), (ANGLES,), "Remainder"),
    "remainder by infinity": (lambda a: torch.remainder(a, float("inf")), (ANGLES,), ""),
    "fmod": (torch.fmod, PAIRS, ""),
    "fmod of angles": (torch.fmod, (ANGLES, ANGLES.flip(0)), ""),
    "fmod by a power of two": (lambda a: torch.fmod(a, 2), (ANGLES,), "Fmod"),
    "fmod of ints": (torch.fmod, (INTEGERS, BY), "Div Mul Sub"),
    "fmod of int by scalar": (lambda a: torch.fmod(a, 3), (INTEGERS,), "Div Mul Sub"),
    **{f"pow {n}": (lambda a, n=n: a**n, (X,), "") for n in (3, 31, 40, 41, -3)},
    **{f"pow {n} of edges": (lambda a, n=n: a**n, (EDGES,), "") for n in (2, 3, -2)},
    "pow of negative base by fraction": (lambda a: a**1.5, (X,), ""),
    "pow of int": (lambda a: a**5, (INTEGERS,), "Mul Mul Mul"),
    "pow of int by fraction": (lambda a: a**0.5, (ints(4),), "Cast Sqrt"),
    "pow of negative bases": (torch.pow, (BASES, POWERS), ""),
    "pow of 2": (lambda a: torch.pow(2.0, a), (X,), "Exp2"),
    "pow of 3": (lambda a: torch.pow(3, a), (X,), "Pow"),
    "pow of -3": (lambda a: torch.pow(-3.0, a), (torch.tensor([1.0, 2.0, 0.5]),), ""),
    "minimum": (torch.minimum, PAIRS, "Lt Isnan BitwiseOr Where"),
    "minimum of ints": (torch.minimum, (INTEGERS, BY), "Minimum"),
    "minimum of bools": (torch.minimum, (BOOL, ~BOOL), "BitwiseAnd"),
    "maximum": (torch.maximum, PAIRS, "Gt Isnan BitwiseOr Where"),
    "maximum of ints": (torch.maximum, (INTEGERS, BY), "Gt Where"),
    "fmax": (torch.fmax, PAIRS, ""),
    "fmin": (torch.fmin, PAIRS, ""),
    "atan2": (torch.atan2, PAIRS, ""),
    "hypot": (torch.hypot, PAIRS, ""),
    "copysign": (torch.copysign, tuple(p[p == p][:256] for p in PAIRS), ""),
    "xlogy": (torch.xlogy, PAIRS, ""),
    "lerp of tensors": (torch.lerp, (X, Y, floats(4)), ""),
    "addcmul": (lambda a, b: torch.addcmul(a, a, b, value=0.4), (X, Y), ""),
    "addcdiv": (lambda a, b: torch.addcdiv(a, a, b, value=0.4), (X, Y.abs() + 0.1), ""),
    "logaddexp": (torch.logaddexp, (X, Y), ""),
}
LOGIC: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    "gt float scalar of int": (lambda a: a > 1.5, (ints(5),), "Cast Gt"),
    "eq of bools": (torch.eq, (BOOL, ~BOOL), "Cast Cast Eq"),
    "lt beyond int32": (lambda a: a < 2**40, (BITS,), "Lt"),
    "bitwise_and of int64": (lambda a: a & (2**40 + 1), (WIDE,), "BitwiseAnd"),
    **{f"shift by {n}": (lambda a, n=n: (a << n, a >> n), (BITS,), "") for n in (0, 1, 5, 30, 31, 32, -1)},
    "shift of int64": (lambda a: (a << 3, a << 63, a >> 3, a >> 63), (WIDE,), ""),
    "shift of int8": (lambda a: (a << 7, a >> 6), (BYTES,), ""),
    "shift by tensor": (lambda a, n: (a << n, a >> n), (BITS, SHIFTS), ""),
    "shift of scalar": (lambda n: (3 << n, -9 >> n), (SHIFTS,), ""),
    "logical_and of floats": (torch.logical_and, PAIRS, "Ne Ne BitwiseAnd"),
    "logical_xor": (torch.logical_xor, (BOOL, ~BOOL), "BitwiseXor"),
    "clamp": (lambda a: a.clamp(-0.25, 0.75), (EDGES,), "HardTanh"),
    "clamp max": (lambda a: a.clamp(max=float("inf")), (EDGES,), "HardTanh"),
    "clamp to NaN": (lambda a: a.clamp(float("nan"), 1.0), (EDGES,), "Mul"),
    "clamp of int": (lambda a: a.clamp(max=2), (ints(5),), "Clamp"),
    "clamp of int far": (lambda a: a.clamp(-(2**40), 2**40), (WIDE,), "Gt Where Minimum"),
    "clamp of int to floats": (lambda a: a.clamp(0.5, 2.5), (ints(5),), "Cast HardTanh"),
    "clamp of int between tensors": (lambda x, a: torch.clamp(x, a, a + 3), (WIDE, ints(8)), ""),
    "where": (torch.where, (MASK, X, Y), "Where"),
    "where promotes": (lambda c, a: torch.where(c, a, torch.tensor(2.0)), (BOOL, ints(3)), "Cast Where"),
    "where of scalars": (lambda c: torch.where(c, 1.0, float("-inf")), (MASK,), "Where"),
    "masked_fill of int": (lambda x, m: x.masked_fill(m, 2**40 + 1), (WIDE[:3], BOOL), "Where"),
    "masked_fill by a tensor": (lambda x, m, v: x.masked_fill(m, v), (X, MASK, torch.tensor(3.0)), ""),
    "heaviside": (torch.heaviside, PAIRS, ""),
}
CASES = {**ARITHMETIC, **LOGIC}

# Eager mode in float16 does not round scalars of the program to float16; the graph does.
ONLY_FP32 = {"floor_divide by a tenth", "floor_divide by minus a tenth"}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, precision: str) -> None:
    if name in ONLY_FP32 and precision == "fp16":
        return
    function, args, expected = CASES[name]
    run_case(function, args, expected if precision == "fp32" else "", precision, special=len(args))


def test_a_floored_quotient_is_not_rounded_up() -> None:
    """1 / 0.1 is 10 in float32, and the true quotient is less."""
    compiled = run_case(lambda a: a // 0.1, (torch.ones(3),))
    assert compiled(torch.ones(3))[0].tolist() == [9.0] * 3


def test_remainders_are_exact() -> None:
    run_case(lambda a: torch.remainder(a, 6.2831855), (floats(500) * 20000,), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "args", "operator", "rule"),
    [
        (lambda a: a**-1, (INTEGERS,), "aten.pow.Tensor_Scalar", "argument"),
        (lambda a: torch.pow(2, a), (ints(3),), "aten.pow.Scalar", "dtype"),
        (lambda a, b: a - b, (torch.ones(3, dtype=torch.float64), X[0, 0, :3]), "aten.sub.Tensor", "dtype"),
        (lambda a: a + 1, (torch.ones(3, dtype=torch.uint8),), "aten.add.Scalar", "dtype"),
        (
            lambda a: torch.ops.aten.bitwise_left_shift.Tensor_Scalar(a, 2),
            (X,),
            "aten.bitwise_left_shift.Tensor_Scalar",
            "dtype",
        ),
    ],
)
def test_rejected(function: Function, args: tuple[torch.Tensor, ...], operator: str, rule: str) -> None:
    assert (operator, rule) in [found[:2] for found in rejected(function, args)]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_bounds_beyond_float16_bound_nothing_there(precision: str) -> None:
    run_case(lambda a: a.clamp(-1e9, 1e9), (EDGES[:-3],), precision=precision, reference=lambda a: a)
