# SPDX-License-Identifier: Apache-2.0
"""Functions of elements and activations: their operations."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.testing import Function, X, Y
from delegatec.backends.xnnpack.operators.grid import rejected, run_case

functional = torch.nn.functional
POSITIVE = X.abs() + 0.1

UNARY: dict[str, tuple[Function, torch.Tensor]] = {
    "Absolute": (torch.abs, X),
    "Ceiling": (torch.ceil, X),
    "Cos": (torch.cos, X),
    "Exp": (torch.exp, X),
    "Floor": (torch.floor, X),
    "HardSwish": (functional.hardswish, X),
    "Log": (torch.log, POSITIVE),
    "Negate": (torch.neg, X),
    "ReciprocalSquareRoot": (torch.rsqrt, POSITIVE),
    "Sigmoid": (torch.sigmoid, X),
    "Sin": (torch.sin, X),
    "Square": (torch.square, X),
    "SquareRoot": (torch.sqrt, POSITIVE),
    "Tanh": (torch.tanh, X),
    "Clamp": (torch.relu, X),
    "Gelu": (functional.gelu, X),
    "LeakyRelu": (lambda x: functional.leaky_relu(x, 0.2), X),
    "Elu": (lambda x: functional.elu(x, 0.7), X),
    "Divide": (torch.reciprocal, POSITIVE),
    "Sigmoid Multiply": (functional.silu, X),
    "Add Clamp Multiply": (functional.hardsigmoid, X),
    "Elu Multiply": (functional.selu, X),
}


@pytest.mark.parametrize("expected", UNARY)
def test_functions_of_one_tensor(expected: str) -> None:
    function, x = UNARY[expected]
    run_case(function, (x,), expected)
    run_case(function, (x,), f"Convert {expected} Convert", precision="fp16")


@pytest.mark.parametrize(
    "function",
    [functional.relu6, functional.hardtanh, lambda x: x.clamp(-0.3, 0.2), lambda x: x.clamp(max=0)],
)
def test_clamps(function: Function) -> None:
    run_case(function, (X,), "Clamp")


BINARY: dict[str, Function] = {
    "Add": torch.add,
    "Subtract": torch.sub,
    "Multiply": torch.mul,
    "Divide": torch.div,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
}


@pytest.mark.parametrize("expected", BINARY)
def test_functions_of_two_tensors(expected: str) -> None:
    run_case(BINARY[expected], (X, Y), expected)
    run_case(BINARY[expected], (X, Y[:, :1, :1]), expected)
    run_case(BINARY[expected], (X, Y), f"Convert Convert {expected} Convert", precision="fp16")


def test_numbers_and_factors() -> None:
    run_case(lambda x: 2 * x + 1.5, (X,), "Multiply Add")
    run_case(lambda x: 3 - x / 4, (X,), "Divide Subtract")
    run_case(lambda x, y: torch.add(x, y, alpha=3), (X, Y), "Multiply Add")
    run_case(lambda x, y: torch.sub(x, y, alpha=0.5), (X, Y), "Multiply Subtract")
    run_case(lambda x: torch.rsub(x, 2.0, alpha=3), (X,), "Multiply Subtract")


def test_integers_are_left() -> None:
    (left,) = rejected(torch.add, (torch.arange(3), torch.arange(3)))
    assert left[1] == "dtype" and "float32" in left[2]
