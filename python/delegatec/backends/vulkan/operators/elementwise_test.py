# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions: the operations that they become, int64, and values near each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.testing import calls, compile_module, run_case
from delegatec.backends.vulkan.testing.grid import (
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
from delegatec.diagnostics import DelegatecError

UNARY = ("abs", "cos", "exp", "neg", "sigmoid", "sin", "tanh", "relu", "round")
# 0.002 and 0.002004 differ in float16, too.
CLOSE = torch.tensor([1.0, 1.0, 2.0, 0.002])

CASES: dict[str, Case] = {
    **{name: (getattr(torch, name), (X * 3,), name) for name in UNARY},
    "functions of an image": (lambda x: [getattr(torch, name)(x) for name in UNARY], (IMAGE,), ""),
    "tan": (lambda x: torch.tan(x * 0.3), (X,), "mul.Tensor tan"),
    "sqrt": (torch.sqrt, (POSITIVE,), "sqrt"),
    "rsqrt": (torch.rsqrt, (POSITIVE,), "rsqrt"),
    "ceil": (torch.ceil, (X * 3,), "neg div.Tensor_mode neg"),
    "reciprocal": (torch.reciprocal, (POSITIVE,), "prepack div.Tensor"),
    "exp2": (torch.exp2, (X,), "mul.Tensor exp"),
    "gelu by tanh": (lambda x: functional.gelu(x, approximate="tanh"), (X,), "gelu"),
    "silu": (functional.silu, (X,), "sigmoid mul.Tensor"),
    "hardswish": (functional.hardswish, (X * 3,), "hardswish"),
    "hardsigmoid": (functional.hardsigmoid, (X * 3,), "hardsigmoid"),
    "hardshrink": (functional.hardshrink, (X,), "hardshrink"),
    "leaky_relu": (functional.leaky_relu, (X,), "leaky_relu"),
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
            "of a column": (X, Y[0, :, :1] + 3),
            "of channels": (IMAGE, IMAGE[:, :, :1, :1] + 5),
        }.items()
    },
    **{
        f"{name} of integers": (getattr(torch, name), (INTEGERS, DIVISORS), "")
        for name in ("add", "sub", "mul", "minimum", "maximum")
    },
    "add with a factor": (lambda x, y: torch.add(x, y, alpha=2.5), (X, Y), "add.Tensor"),
    "a scalar": (lambda x: 1.0 - x / 3 + 2.5, (X,), "div.Tensor sub.Tensor add.Tensor"),
    "a constant": (lambda x: torch.arange(4.0) * x + 1, (X,), "prepack mul.Tensor add.Tensor"),
    # views between the absolute value and the power
    "powers of many dimensions": (
        lambda x: torch.linalg.vector_norm(x, 2.5, 1),
        (torch.tensor([-2.0, 1.0, 0.0, 3.0, 0.5, 1.5]).reshape(2, 3, 1, 1, 1),),
        "",
    ),
    "power of zero": (lambda x: (x.abs() ** 2.5, x.abs() ** -1.5), (torch.tensor([0.0, 1.0, -2.0]),), ""),
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
        for name in ("eq", "ne", "lt")
        for args in ((INTEGERS.int(), INTEGERS + 0.5 * (INTEGERS % 2)),)
    },
    "a comparison with a scalar": (lambda x: x > 0.5, (X,), "gt.Tensor"),
    "and": (lambda a, b: a & b, (BOOLS, BOOLS.flip(0)), "bitwise_and.Tensor"),
    "or": (torch.logical_or, (BOOLS, BOOLS.flip(0)), "logical_or"),
    "not": (torch.logical_not, (BOOLS,), "bitwise_not"),
    "where": (torch.where, (BOOLS, X, Y), "where.self"),
    "float of integers": (lambda x: x.float() * 1.5, (INTEGERS,), ""),
    "power of one integer": (lambda x: x**0.3, (torch.tensor(5),), ""),
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
