# SPDX-License-Identifier: Apache-2.0
"""Operators that compute element by element, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.mps.operators.grid import BOOL, X, Y, floats, ints, run_case

UNARY = [
    *("abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor"),
    *("neg", "reciprocal", "relu", "sigmoid", "sign", "sin", "sinh", "tan", "tanh"),
]
POSITIVE = ["log", "log10", "log2", "rsqrt", "sqrt"]
COMPARISONS = ["eq", "ge", "gt", "le", "lt", "ne"]

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    **{name: (getattr(torch, name), (X,), "") for name in UNARY},
    **{name: (getattr(torch, name), (X.abs() + 0.1,), "") for name in POSITIVE},
    "acosh": (torch.acosh, (X.abs() + 1.1,), "Acosh"),
    "exp of int": (torch.exp, (ints(3),), "Cast Exp"),
    "neg of int": (torch.neg, (ints(3),), "Neg"),
    "isnan": (torch.isnan, (torch.tensor([1.0, float("nan")]),), "Isnan"),
    "isinf": (torch.isinf, (torch.tensor([1.0, float("inf"), -float("inf")]),), "Isinf"),
    "bitwise_not": (torch.bitwise_not, (ints(4),), "BitwiseNot"),
    "bitwise_not of bool": (torch.bitwise_not, (BOOL,), "BitwiseNot"),
    "logical_not": (torch.logical_not, (BOOL,), "LogicalNot"),
    "logical_not of float": (torch.logical_not, (torch.tensor([0.0, 0.5]),), "Ne LogicalNot"),
    "add": (torch.add, (X, Y), "Add"),
    "add broadcasts": (torch.add, (X, floats(4)), "Add"),
    "add alpha": (lambda a, b: torch.add(a, b, alpha=3), (X, Y), "Add"),
    "add scalar": (lambda a: a + 2, (X,), "Add"),
    "add int and float": (torch.add, (ints(3), floats(3)), "Cast Add"),
    "add int32 and int64": (torch.add, (ints(3, dtype=torch.int32), ints(3)), "Cast Add"),
    "add float to int": (lambda a: a + 0.5, (ints(3),), "Cast Add"),
    "sub alpha": (lambda a, b: torch.sub(a, b, alpha=0.5), (X, Y), "Sub"),
    "sub from scalar": (lambda a: 1.0 - a, (X,), "Sub"),
    "mul": (torch.mul, (X, Y), "Mul"),
    "mul bool": (torch.mul, (BOOL, floats(3)), "Cast Mul"),
    "mul large scalar int": (lambda a: a * 16777217, (ints(3),), "Mul"),
    "div": (torch.div, (X, Y), "Div"),
    "div of ints": (torch.div, (ints(3), ints(3) + 1), "Cast Cast Div"),
    "div trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), (X * 9, Y), "Div"),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (X * 9, Y), "Div"),
    "floor_divide": (torch.floor_divide, (X * 9, Y), "Div"),
    "remainder": (torch.remainder, (X * 9, Y), "Remainder"),
    "remainder scalar": (lambda a: torch.remainder(a, 0.3), (X,), "Remainder"),
    "fmod": (torch.fmod, (X * 9, Y), "Fmod"),
    "fmod scalar": (lambda a: torch.fmod(a, 0.3), (X,), "Fmod"),
    "pow": (torch.pow, (X.abs(), Y), "Pow"),
    "pow scalar": (lambda a: torch.pow(a, 3), (X,), "Pow"),
    "scalar pow": (lambda a: torch.pow(2.0, a), (X,), "Pow"),
    "minimum": (torch.minimum, (X, Y), "Minimum"),
    "maximum": (torch.maximum, (X, floats(4)), "Neg Neg Minimum Neg"),
    **{name: (getattr(torch, name), (ints(9), ints(9).flip(0)), name.capitalize()) for name in COMPARISONS},
    "gt scalar": (lambda a: a > 0.1, (X,), "Gt"),
    "gt float scalar of int": (lambda a: a > 1.5, (ints(5),), "Cast Gt"),
    "eq of bools": (torch.eq, (BOOL, ~BOOL), "Cast Cast Eq"),
    "bitwise_and": (torch.bitwise_and, (ints(4), ints(4).flip(0)), "BitwiseAnd"),
    "bitwise_or of bool": (torch.bitwise_or, (BOOL, ~BOOL), "BitwiseOr"),
    "bitwise_xor scalar": (lambda a: a ^ 3, (ints(4),), "BitwiseXor"),
    "logical_and": (torch.logical_and, (BOOL, ~BOOL), "BitwiseAnd"),
    "logical_or of ints": (torch.logical_or, (ints(4), ints(4).flip(0)), "Ne Ne BitwiseOr"),
    "logical_xor": (torch.logical_xor, (BOOL, ~BOOL), "BitwiseXor"),
    "clamp": (lambda a: a.clamp(-0.2, 0.3), (X,), "Clamp"),
    "clamp min": (lambda a: a.clamp(min=0.1), (X,), "Clamp"),
    "clamp max of int": (lambda a: a.clamp(max=2), (ints(5),), "Clamp"),
    "hardtanh": (F.relu6, (X * 9,), "HardTanh"),
    "where": (torch.where, (X > 0, X, Y), "Where"),
    "where promotes": (lambda c, a: torch.where(c, a, torch.tensor(2.0)), (BOOL, ints(3)), "Cast Where"),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), (floats(3), BOOL), ""),
    "glu": (lambda x: F.glu(x, 1), (floats(2, 6, 4),), "SplitWithSizes Sigmoid Mul"),
    "gelu": (F.gelu, (X,), "Gelu"),
    "gelu tanh": (lambda a: F.gelu(a, approximate="tanh"), (X,), ""),
    "leaky_relu": (lambda a: F.leaky_relu(a, 0.3), (X,), "LeakyRelu"),
    "softmax": (lambda a: a.softmax(-1), (X,), "Softmax"),
    "log_softmax": (lambda a: a.log_softmax(1), (X,), "LogSoftmax"),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    run_case(*CASES[name])
