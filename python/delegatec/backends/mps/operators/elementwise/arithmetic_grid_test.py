# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on two tensors, against eager mode."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.testing import BOOL, EDGES, PAIRS, Function, X, Y, floats, ints
from delegatec.backends.mps.operators.grid import PRECISIONS, rejected, run_case

LARGE = 2**40 + 1
INTEGERS = torch.tensor([-7, 7, -8, 8, 0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**31 - 1])
BY = torch.tensor([2, -2, 3, -3, 5, 7, -7, 3, 3, -2])
ANGLES = torch.tensor([1e-3, -1e-3, 0.1, -0.7, 6.0, -7.5, 100.0, -1000.0, 0.3, 0.6])

CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    "add": (torch.add, PAIRS, "Add"),
    "add broadcasts": (torch.add, (X, floats(4)), "Add"),
    "add of rank 0": (torch.add, (torch.tensor(0.5), torch.tensor(2.0)), "Add"),
    "add alpha": (lambda a, b: torch.add(a, b, alpha=3), (X, Y), "Add"),
    "add scalar": (lambda a: a + 2, (X,), "Add"),
    "add int and float": (torch.add, (ints(3), floats(3)), "Cast Add"),
    "add int32 and int64": (torch.add, (ints(3, dtype=torch.int32), ints(3)), "Cast Add"),
    "add float to int": (lambda a: a + 0.5, (ints(3),), "Cast Add"),
    "add of bools": (torch.add, (BOOL, ~BOOL), "BitwiseOr"),
    "add large alpha": (lambda a, b: torch.add(a, b, alpha=LARGE), (INTEGERS, BY), "Mul Add"),
    "add large alpha times a scalar": (lambda a: torch.add(a, 3, alpha=LARGE), (INTEGERS,), ""),
    "sub large alpha": (lambda a, b: torch.sub(a, b, alpha=LARGE), (INTEGERS, BY), "Mul Sub"),
    "sub large alpha times a scalar": (lambda a: torch.sub(a, 3, alpha=LARGE), (INTEGERS,), ""),
    "rsub large alpha": (lambda a: torch.rsub(a, 3, alpha=LARGE), (INTEGERS,), "Mul Sub"),
    "add beyond int8": (lambda a: a + 300, (torch.tensor([1, -100], dtype=torch.int8),), "Add"),
    "sub": (torch.sub, PAIRS, "Sub"),
    "sub alpha": (lambda a, b: torch.sub(a, b, alpha=0.5), (X, Y), "Sub"),
    "sub from scalar": (lambda a: 1.0 - a, (X,), "Sub"),
    "rsub alpha of int": (lambda a: torch.rsub(a, 3, alpha=2), (INTEGERS,), "Sub"),
    "mul": (torch.mul, PAIRS, "Mul"),
    "mul of bool and float": (torch.mul, (BOOL, floats(3)), "Cast Mul"),
    "mul of bools": (torch.mul, (BOOL, ~BOOL), "BitwiseAnd"),
    "mul large scalar int": (lambda a: a * LARGE, (INTEGERS,), "Mul"),
    "div": (torch.div, PAIRS, "Div"),
    "div by scalar": (lambda a: a / 3, (X,), "Div"),
    "scalar by tensor": (lambda a: 2 / a, (X,), ""),
    "div of ints": (torch.div, (INTEGERS[:7], BY[:7]), "Cast Cast Div"),
    "div of bools": (torch.div, (BOOL, torch.tensor([True] * 3)), "Cast Cast Div"),
    "div trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), PAIRS, "Div"),
    "div trunc of ints": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), (INTEGERS, BY), "Div"),
    "div trunc by int": (lambda a: torch.div(a, -3, rounding_mode="trunc"), (INTEGERS,), "Div"),
    "div trunc of halves": (
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        (ANGLES.half(), torch.full((10,), 0.3).half()),
        "",
    ),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), PAIRS, ""),
    "div floor of ints": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (INTEGERS, BY), ""),
    "div floor by int": (lambda a: torch.div(a, -3, rounding_mode="floor"), (INTEGERS,), ""),
    "floor_divide": (torch.floor_divide, (ANGLES, ANGLES.flip(0)), ""),
    "floor_divide by a tenth": (lambda a: a // 0.1, (ANGLES,), ""),
    "floor_divide by minus a tenth": (lambda a: a // -0.1, (ANGLES,), ""),
    "floor_divide by a power of two": (lambda a: a // 0.25, (ANGLES,), "Div Floor Isinf Where"),
    "floor_divide by zero": (lambda a: a // 0.0, (ANGLES,), ""),
    "floor_divide of ints": (lambda a: 20 // a, (BY,), ""),
    "remainder": (torch.remainder, PAIRS, ""),
    "remainder of angles": (torch.remainder, (ANGLES, ANGLES.flip(0)), ""),
    "remainder by scalar": (lambda a: torch.remainder(a, 0.3), (ANGLES,), ""),
    "remainder by minus a scalar": (lambda a: torch.remainder(a, -0.3), (ANGLES,), ""),
    "remainder by a power of two": (lambda a: torch.remainder(a, -2), (ANGLES,), "Remainder"),
    "remainder by infinity": (lambda a: torch.remainder(a, float("inf")), (ANGLES,), ""),
    "remainder of scalar": (lambda a: torch.remainder(20, a), (ANGLES,), ""),
    "remainder of ints": (torch.remainder, (INTEGERS, BY), ""),
    "remainder of scalar int": (lambda a: torch.remainder(20, a), (BY,), ""),
    "fmod": (torch.fmod, PAIRS, ""),
    "fmod of angles": (torch.fmod, (ANGLES, ANGLES.flip(0)), ""),
    "fmod by scalar": (lambda a: torch.fmod(a, 0.3), (ANGLES,), ""),
    "fmod by a power of two": (lambda a: torch.fmod(a, 2), (ANGLES,), "Fmod"),
    "fmod of ints": (torch.fmod, (INTEGERS, BY), "Div Mul Sub"),
    "fmod of int by scalar": (lambda a: torch.fmod(a, 3), (INTEGERS,), "Div Mul Sub"),
    **{f"pow {n}": (lambda a, n=n: a**n, (X,), "") for n in (0, 2, 3, 7, 31, 40, 41, -1, -2, -3)},
    **{f"pow {n} of edges": (lambda a, n=n: a**n, (EDGES,), "") for n in (2, 3, -2)},
    **{f"pow {n}": (lambda a, n=n: a**n, (X.abs() + 0.1,), "") for n in (0.5, -0.5, 0.3, -1.7)},
    "pow of negative base by fraction": (lambda a: a**1.5, (X,), ""),
    "pow of int": (lambda a: a**5, (INTEGERS,), "Mul Mul Mul"),
    "pow 0 of int": (lambda a: a**0 + a, (INTEGERS,), ""),
    "pow of int by fraction": (lambda a: a**0.5, (ints(4),), "Cast Sqrt"),
    "pow of tensors": (torch.pow, (X.abs(), Y), ""),
    "pow of negative bases": (
        torch.pow,
        (torch.tensor([-8.0, -2.0, -2.0, -1.5, 0.0, 2.0]), torch.tensor([1 / 3, 3.0, -2.0, 4.0, 0.0, -1.0])),
        "",
    ),
    "pow of 2": (lambda a: torch.pow(2.0, a), (X,), "Exp2"),
    "pow of 3": (lambda a: torch.pow(3, a), (X,), "Pow"),
    "pow of -3": (lambda a: torch.pow(-3.0, a), (torch.tensor([1.0, 2.0, 0.5]),), ""),
    "minimum": (torch.minimum, PAIRS, "Lt Isnan BitwiseOr Where"),
    "minimum of ints": (torch.minimum, (INTEGERS, BY), "Minimum"),
    "minimum of bools": (torch.minimum, (BOOL, ~BOOL), "BitwiseAnd"),
    "maximum": (torch.maximum, PAIRS, "Gt Isnan BitwiseOr Where"),
    "maximum of ints": (torch.maximum, (INTEGERS, BY), "Gt Where"),
    "maximum promotes": (torch.maximum, (X, ints(4)), ""),
    "maximum of bools": (torch.maximum, (BOOL, ~BOOL), "BitwiseOr"),
    "fmax": (torch.fmax, PAIRS, ""),
    "fmin": (torch.fmin, PAIRS, ""),
    "atan2": (torch.atan2, PAIRS, ""),
    "atan2 of ints": (torch.atan2, (INTEGERS, BY), ""),
    "hypot": (torch.hypot, PAIRS, ""),
    "copysign": (torch.copysign, tuple(p[p == p][:256] for p in PAIRS), ""),
    "xlogy": (torch.xlogy, PAIRS, ""),
    "xlogy of a scalar": (lambda a: torch.xlogy(a, 2.5), (X,), ""),
    "xlogy by a scalar": (lambda a: torch.xlogy(0.0, a), (EDGES,), ""),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), (X, Y), ""),
    "lerp of tensors": (torch.lerp, (X, Y, floats(4)), ""),
    "addcmul": (lambda a, b: torch.addcmul(a, a, b, value=0.4), (X, Y), ""),
    "addcdiv": (lambda a, b: torch.addcdiv(a, a, b, value=0.4), (X, Y.abs() + 0.1), ""),
    "logaddexp": (torch.logaddexp, (X, Y), ""),
    **{
        f"{function.__name__} of rank 0": (function, (torch.tensor(7.5), torch.tensor(-2.0)), "")
        for function in (
            torch.floor_divide,
            torch.fmod,
            torch.remainder,
            torch.atan2,
            torch.hypot,
            torch.fmax,
        )
    },
}


# Eager mode in float16 does not round scalars of the program to float16; the graph does.
ONLY_FP32 = {"floor_divide by a tenth", "floor_divide by minus a tenth"}


# Eager mode has the root of minus infinity for float32, its power for float16.
UNSTABLE = {"pow 0.5", "pow -0.5"}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, precision: str) -> None:
    if name in ONLY_FP32 and precision == "fp16":
        return
    function, args, expected = CASES[name]
    special = 0 if name in UNSTABLE else len(args)
    run_case(function, args, expected if precision == "fp32" else "", precision, special=special)


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
    ],
)
def test_rejected(function: Function, args: tuple[torch.Tensor, ...], operator: str, rule: str) -> None:
    assert (operator, rule) in [found[:2] for found in rejected(function, args)]
