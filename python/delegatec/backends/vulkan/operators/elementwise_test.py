# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, in the reference executor, compared with eager mode."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.operators.grid import (
    BOOLS,
    DIVISORS,
    IMAGE,
    INTEGERS,
    POSITIVE,
    Case,
    X,
    Y,
    over_settings,
)
from delegatec.backends.vulkan.testing import calls, compile_module, run_case
from delegatec.diagnostics import DelegatecError

UNARY = ("abs", "cos", "exp", "neg", "sigmoid", "sin", "tanh", "relu", "round", "floor")
# 0.002 and 0.002004 differ in float16, too.
CLOSE = torch.tensor([1.0, 1.0, 2.0, 0.002])
SPECIAL = torch.tensor([[1.0, -2.5, math.nan, math.inf], [-math.inf, 0.0, -0.0, 3.0]])

CASES: dict[str, Case] = {
    **{name: (getattr(torch, name), (X * 3,), "" if name == "floor" else name) for name in UNARY},
    **{f"{name} of an image": (getattr(torch, name), (IMAGE,), "") for name in UNARY},
    "tan": (lambda x: torch.tan(x * 0.3), (X,), "mul.Tensor tan"),
    "sqrt": (torch.sqrt, (POSITIVE,), "sqrt"),
    "rsqrt": (torch.rsqrt, (POSITIVE,), "rsqrt"),
    "ceil": (torch.ceil, (X * 3,), "neg div.Tensor_mode neg"),
    "trunc": (torch.trunc, (X * 3,), ""),
    "sign": (torch.sign, (X,), ""),
    "reciprocal": (torch.reciprocal, (POSITIVE,), "prepack div.Tensor"),
    "erf": (torch.erf, (X,), ""),
    "exp2": (torch.exp2, (X,), "mul.Tensor exp"),
    "gelu": (functional.gelu, (X,), ""),
    "atan": (lambda x: torch.atan(x * 3), (X,), ""),
    "atan2": (lambda x, y: torch.atan2(x, y + 2), (X, Y), ""),
    "sinh": (torch.sinh, (X,), ""),
    "cosh": (torch.cosh, (X,), ""),
    "asin": (lambda x: torch.asin(x / 4), (X,), ""),
    "acos": (lambda x: torch.acos(x / 4), (X,), ""),
    "gelu by tanh": (lambda x: functional.gelu(x, approximate="tanh"), (X,), "gelu"),
    "silu": (functional.silu, (X,), "sigmoid mul.Tensor"),
    "hardswish": (functional.hardswish, (X * 3,), "hardswish"),
    "hardsigmoid": (functional.hardsigmoid, (X * 3,), "hardsigmoid"),
    "hardshrink": (functional.hardshrink, (X,), "hardshrink"),
    "leaky_relu": (functional.leaky_relu, (X,), "leaky_relu"),
    "elu": (functional.elu, (X,), ""),
    "relu6": (functional.relu6, (X * 4,), "clamp"),
    "hardtanh": (lambda x: functional.hardtanh(x, -0.5, 0.3), (X,), "clamp"),
    "clamp": (lambda x: x.clamp(-0.5, 0.3), (X,), "clamp"),
    "clamp below": (lambda x: x.clamp(min=0.1), (X,), "clamp"),
    "clamp of integers by floats": (lambda x: x.clamp(0.5, 3.5), (INTEGERS,), ""),
    "clamp of integers": (lambda x: x.clamp(2, 5), (INTEGERS,), "clamp"),
    **{
        f"{name} {what}": (getattr(torch, name), args, "")
        for name in ("add", "sub", "mul", "div", "minimum", "maximum")
        for what, args in {
            "of tensors": (X, Y + 3),
            "of a column": (X, Y[0, :, :1] + 3),
            "of a row": (Y[0, 0], X.abs() + 1),
            "of channels": (IMAGE, IMAGE[:, :, :1, :1] + 5),
            "of rank 0": (X, torch.tensor(2.5)),
        }.items()
    },
    **{
        f"{name} of integers": (getattr(torch, name), (INTEGERS, DIVISORS), "")
        for name in ("add", "sub", "mul", "minimum", "maximum")
    },
    "add with a factor": (lambda x, y: torch.add(x, y, alpha=2.5), (X, Y), "add.Tensor"),
    "a scalar": (lambda x: 1.0 - x / 3 + 2.5, (X,), "div.Tensor sub.Tensor add.Tensor"),
    "a scalar over a tensor": (lambda x: 3 / x, (POSITIVE,), ""),
    "a constant": (lambda x: torch.arange(4.0) * x + 1, (X,), "prepack mul.Tensor add.Tensor"),
    "reciprocal of rank 0": (lambda x: x.reciprocal(), (torch.tensor(3.0),), ""),
    "rank 0": (lambda x: x * 2 + 1, (torch.tensor(3.0),), ""),
    "rank 5": (lambda x: x.exp() * 2 + 1, (X.reshape(2, 1, 3, 2, 2),), ""),
    "a constant of rank 5": (
        lambda x: x * torch.arange(24.0).view(2, 1, 3, 2, 2),
        (X.reshape(2, 1, 3, 2, 2),),
        "",
    ),
    "power": (lambda x: x**3, (X,), ""),
    "power of zero": (lambda x: (x.abs() ** 2.5, x.abs() ** -1.5), (torch.tensor([0.0, 1.0, -2.0]),), ""),
    "comparisons of rank 0": (lambda x, y: (x > 1) & (y > 1), (torch.tensor(1.5), torch.tensor(2.5)), ""),
    "alpha of rank 0": (lambda x: torch.sub(x, x + 1, alpha=2), (torch.tensor(1.5),), ""),
    "not of rank 5": (lambda x: ~(x > 0), (X.reshape(2, 1, 3, 2, 2),), ""),
    "fractional power": (lambda x: x**3.5, (POSITIVE,), ""),
    **{f"{name} of floats": (getattr(torch, name), (X.round(), Y.round()), "") for name in ("eq", "ne")},
    **{
        f"{name} of {what}": (getattr(torch, name), args, "")
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for what, args in {
            "neighbors": (CLOSE, CLOSE + torch.tensor([0, 1e-6, -1e-6, 4e-6])),
            "integers": (INTEGERS, DIVISORS),
        }.items()
    },
    **{
        f"{name} of an integer and a fraction": (getattr(torch, name), args, "")
        for name in ("add", "mul", "div", "maximum", "eq", "ne", "lt")
        for args in ((INTEGERS.int(), INTEGERS + 0.5 * (INTEGERS % 2)),)
    },
    "sum of bools and numbers": (lambda x, mask: mask + x, (X, BOOLS), ""),
    "quotient of integers": (torch.div, (INTEGERS, DIVISORS), ""),
    "an integer and a fraction": (lambda x: (x + 1.5, 1.5 - x, (x == 1.5) | (x < 2.5)), (INTEGERS,), ""),
    "where of several dtypes": (lambda x, mask: torch.where(mask, x, mask.int() + 3), (X, BOOLS), ""),
    "a comparison with a scalar": (lambda x: x > 0.5, (X,), "gt.Tensor"),
    "and": (lambda a, b: a & b, (BOOLS, BOOLS.flip(0)), "bitwise_and.Tensor"),
    "or": (torch.logical_or, (BOOLS, BOOLS.flip(0)), "logical_or"),
    "logical and": (torch.logical_and, (BOOLS, BOOLS.flip(0)), ""),
    "not": (torch.logical_not, (BOOLS,), "bitwise_not"),
    "eq of bools": (torch.eq, (BOOLS, BOOLS.flip(0)), ""),
    "isnan": (torch.isnan, (SPECIAL,), ""),
    "isinf": (torch.isinf, (SPECIAL,), ""),
    "where": (torch.where, (BOOLS, X, Y), "where.self"),
    "where of bools": (torch.where, (BOOLS, BOOLS.flip(0), BOOLS.flip(1)), ""),
    "where of rank 5": (
        lambda x: torch.where(x > 0, x, -1.0),
        (X.reshape(2, 1, 3, 2, 2),),
        "",
    ),
    "masked_fill": (lambda x, mask: x.masked_fill(mask, -100.0), (X, BOOLS), ""),
    "float of a comparison": (lambda x: (x > 0).float() * 2, (X,), ""),
    "float of integers": (lambda x: x.float() * 1.5, (INTEGERS,), ""),
    "integers of floats": (lambda x: (x * 3).to(torch.int32), (X,), ""),
    "half": (lambda x: x.half() * 2, (X,), ""),
}


@over_settings(CASES)
def test_elements(case: Case, options: dict[str, str]) -> None:
    function, args, expected = case
    found = run_case(function, args, "", **options)
    if expected and options.get("precision") != "fp16":
        assert calls(found) == expected.split()


def test_values_beyond_float16_are_an_error() -> None:
    with pytest.raises(DelegatecError, match="DC406"):
        compile_module(Call(lambda x: x + 1e6), (X,), precision="fp16")
    run_case(lambda x: (x + 1e6).clamp(max=1), (X,), precision="fp16", fp16_overflow="saturate")


@pytest.mark.parametrize("function", [torch.special.bessel_j0, torch.special.bessel_y1])
def test_functions_that_the_runtime_lacks(function: Any) -> None:
    compiled = compile_module(Call(function), (POSITIVE,))
    assert compiled.delegates == []
    assert [rule for _, rule, _ in compiled.left] == ["operator"]
