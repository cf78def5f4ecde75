# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor and activations: their operations, and digits that MPSGraph would lose."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import EDGES, Function, X, floats, ints
from delegatec.backends.mps.testing import operations
from delegatec.backends.mps.testing.grid import PRECISIONS, rejected, run_case

SIGNED = torch.tensor([-(2**40) - 1, -(2**24) - 1, -3, 0, 2, 2**40 + 1])
TINY = torch.tensor([1e-3, 3e-4, -2e-4, 1e-5, -1e-7, 0.3, -0.49, 0.51])

CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    **{name: (getattr(torch, name), (EDGES,), name.capitalize()) for name in ("sqrt", "tan", "log", "acosh")},
    "exp of int": (torch.exp, (ints(3),), "Cast Exp"),
    "exp2": (torch.exp2, (X,), "Exp2"),
    "abs of int64": (torch.abs, (SIGNED,), "Lt Neg Where"),
    "sign of int64": (torch.sign, (SIGNED,), "Clamp"),
    **{name: (getattr(torch, name), (EDGES,), "") for name in ("ceil", "floor", "round", "trunc")},
    "rounding of int": (lambda x: x.floor() + x.ceil() + x.round() + x.trunc(), (SIGNED,), "Add Add Add"),
    "frac": (torch.frac, (EDGES[:-3],), ""),
    "round to decimals": (lambda x: torch.round(x, decimals=1), (floats(3, 5) * 9,), ""),
    "round to tens": (lambda x: torch.round(x, decimals=-1), (floats(3, 5) * 99,), ""),
    "isinf of int": (lambda x: torch.isinf(x) | (x > 2), (SIGNED,), ""),
    "isposinf": (torch.isposinf, (EDGES,), "Eq"),
    "signbit": (torch.signbit, (EDGES,), ""),
    "nan_to_num": (lambda x: torch.nan_to_num(x, 3.0, 7.0, -7.0), (EDGES,), ""),
    "log1p": (torch.log1p, (torch.cat([EDGES, TINY]),), ""),
    "expm1": (torch.expm1, (torch.cat([EDGES[:-5], TINY, EDGES[-2:]]),), ""),
    "logit": (torch.logit, (torch.tensor([0.0, 0.25, 0.5, 0.9, 1.0, 2.0, -1.0]),), "Sub Div Log"),
    "logit with eps": (lambda x: torch.logit(x, 1e-3), (torch.tensor([0.0, 0.25, 1.0, 3.0]),), ""),
    "square": (torch.square, (EDGES,), "Mul"),
    "erfc": (torch.erfc, (floats(9) * 4,), ""),
    "hardtanh with NaN": (lambda x: F.hardtanh(x, float("nan"), 0.75), (EDGES,), "Mul"),
    "hardtanh of int": (lambda x: F.hardtanh(x, -1.5, 2.5), (SIGNED,), "Clamp"),
    "silu": (F.silu, (EDGES[:-3],), "Sigmoid Mul"),
    "elu": (F.elu, (torch.cat([EDGES, TINY]),), ""),
    "selu": (F.selu, (torch.cat([EDGES, TINY]),), ""),
    "celu": (lambda x: F.celu(x, 1.5), (EDGES,), ""),
    "softplus": (F.softplus, (EDGES,), ""),
    "mish": (F.mish, (EDGES[:-3],), ""),
    "logsigmoid": (F.logsigmoid, (EDGES[:-3],), ""),
    "softshrink": (lambda x: F.softshrink(x, 0.3), (EDGES,), ""),
    "threshold": (lambda x: F.threshold(x, 0.3, 20.0), (EDGES,), "Le Where"),
    "glu": (lambda x: F.glu(x, 1), (floats(2, 6, 4),), "SplitWithSizes Sigmoid Mul"),
    "gelu": (F.gelu, (EDGES[:-3],), "Gelu"),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.3), (EDGES,), "LeakyRelu"),
    "leaky_relu that is steep": (lambda x: F.leaky_relu(x, 1.5), (EDGES,), "Gt Mul Where"),
    "leaky_relu that falls": (lambda x: F.leaky_relu(x, -0.5), (EDGES,), "Gt Mul Where"),
    "softmax": (lambda x: x.softmax(-2), (X,), "Softmax"),
}


# Eager mode returns NaN for infinity, only in vectors on some CPUs.
UNSTABLE = {"gelu"}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, precision: str) -> None:
    function, args, expected = CASES[name]
    special = 0 if name in UNSTABLE else len(args)
    run_case(function, args, expected if precision == "fp32" else "", precision, special=special)


@pytest.mark.parametrize("function", [torch.log1p, torch.expm1])
def test_digits_near_zero_are_kept(function: Function) -> None:
    run_case(function, (TINY,), rtol=1e-6, atol=0.0)
    run_case(function, (TINY[:-4],), precision="fp16", rtol=2e-3, atol=0.0)


# Rows of logits 200 and 17 apart, with no and one relevant element; all equal; without a finite one.
LOGITS = torch.tensor(
    [
        [0.0, -200.0, -17.0, 3.0],
        [float("-inf"), 1.0, 2.0, -90.0],
        [5.0, 5.0, 5.0, 5.0],
        [float("-inf")] * 4,
        [float("inf"), 1.0, 2.0, 3.0],
        [float("nan"), 1.0, 2.0, 3.0],
        [3e4, -3e4, 0.0, 1.0],
    ]
)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dim", [0, 1])
def test_log_softmax_does_not_underflow(dim: int, precision: str) -> None:
    compiled = run_case(lambda x: x.log_softmax(dim), (LOGITS if dim else LOGITS.mT,), "", precision)
    assert "LogSoftmax" not in operations(compiled.blobs()[0])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_log_softmax_of_many(precision: str) -> None:
    run_case(lambda x: x.log_softmax(-1), (floats(2, 30000) * 20,), "", precision)


def bounded(x: torch.Tensor) -> torch.Tensor:
    return (torch.tanh(x / 30.0) * 30.0).log_softmax(-1)


def test_log_softmax_of_bounded_values_is_one_operation() -> None:
    run_case(bounded, (floats(3, 9) * 200,), "Div Tanh Mul LogSoftmax")


def test_log_softmax_of_wide_bounds_is_decomposed() -> None:
    def function(x: torch.Tensor) -> Any:
        return (torch.tanh(x) * 60.0).log_softmax(-1)

    compiled = run_case(function, (floats(3, 9) * 200,))
    assert "Softmax" in operations(compiled.blobs()[0])
    assert "LogSoftmax" not in operations(compiled.blobs()[0])


def test_rejections_have_a_reason() -> None:
    assert rejected(lambda x: torch.logit(x, 0.7), (floats(3),)) == [
        (
            "aten.logit.default",
            "argument",
            "eps is 0.7. eps is at most 0.5, so that the bounds are in order.",
        )
    ]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_lgamma_stays_within_float16(precision: str) -> None:
    x = torch.tensor([-2.5, -0.3, 0.001, 0.4, 1.0, 2.5, 9.5, 9.996, 10.0, 20.0, 400.0])
    tolerance = {"fp32": 1e-5, "fp16": 3e-2}[precision]
    run_case(torch.lgamma, (x,), "", precision, rtol=tolerance, atol=tolerance)
