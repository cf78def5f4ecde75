# SPDX-License-Identifier: Apache-2.0
"""Reductions, norms and products in the reference executor, against eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import EDGES, Function, X, Y, floats, ints

INTEGERS = ints(3, 4, 5, high=9, dtype=torch.int32) - 4
BOOLS = torch.tensor([[True, False], [True, True]])

CASES: dict[str, tuple[Function, tuple[Any, ...], str]] = {
    "sum": (torch.sum, (X,), "REDUCE_SUM REDUCE_SUM REDUCE_SUM RESHAPE"),
    "sum along dimensions": (lambda x: x.sum((0, -1)), (X,), "REDUCE_SUM REDUCE_SUM RESHAPE"),
    "sum of int": (lambda x: x.sum(1), (INTEGERS,), "REDUCE_SUM RESHAPE"),
    "sum of bool": (lambda x: x.sum(1), (BOOLS,), "CAST REDUCE_SUM RESHAPE"),
    "sum of half": (lambda x: x.sum(-1), (X.half(),), "CAST REDUCE_SUM RESHAPE CAST"),
    "mean": (lambda x: x.mean((1, 2), keepdim=True), (X,), "REDUCE_SUM REDUCE_SUM MUL"),
    "amax": (lambda x: x.amax((0, 2)), (X,), "REDUCE_MAX REDUCE_MAX RESHAPE"),
    "amin with NaN": (lambda x: x.amin(0), (EDGES,), "REDUCE_MIN RESHAPE"),
    "amax of int": (lambda x: x.amax(0), (INTEGERS,), "REDUCE_MAX RESHAPE"),
    "amax of bool": (lambda x: x.amax(0), (BOOLS,), "REDUCE_ANY RESHAPE"),
    "prod": (lambda x: x.prod(1), (X,), "REDUCE_PRODUCT RESHAPE"),
    "all of float": (torch.all, (X,), ""),
    "argmax that keeps": (lambda x: x.argmax(1, keepdim=True), (X,), "ARGMAX RESHAPE"),
    "argmax of all": (torch.argmax, (X,), "RESHAPE ARGMAX"),
    "argmax with NaN": (torch.argmax, (EDGES,), "ARGMAX"),
    "argmin": (lambda x: x.argmin(0), (X,), "NEGATE ARGMAX"),
    "std": (lambda x: x.std((0, 1), keepdim=True), (X,), ""),
    "logsumexp": (lambda x: x.logsumexp(-1), (X,), ""),
    "vector norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), (X,), ""),
    "softmax": (lambda x: x.softmax(1), (X,), "REDUCE_MAX SUB EXP REDUCE_SUM RECIPROCAL MUL"),
    "log_softmax": (lambda x: x.log_softmax(-1), (X,), "REDUCE_MAX SUB EXP REDUCE_SUM LOG SUB"),
    "group_norm": (lambda x: F.group_norm(x, 2), (floats(2, 4, 3, 5),), ""),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), (X, floats(4)), ""),
    "mm": (torch.mm, (X[0], Y[0].T.contiguous()), "RESHAPE RESHAPE MATMUL RESHAPE"),
    "bmm": (lambda x, y: x @ y.transpose(1, 2), (X, Y), "TRANSPOSE MATMUL"),
    "bmm of bfloat16": (
        lambda x, y: x @ y.transpose(1, 2),
        (X.bfloat16(), Y.bfloat16()),
        "TRANSPOSE MATMUL CAST",
    ),
}
SPECIFICATION = "TOSA-1.0+INT+FP+bf16"


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    function, args, expected = CASES[name]
    run_case(function, args, expected, specification=SPECIFICATION)


class _BatchNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)
        self.norm.running_mean = floats(3)
        self.norm.running_var = floats(3, seed=1) + 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(x)
        return result


def test_batch_norm_is_a_product_and_a_sum() -> None:
    run_case(_BatchNorm(), (floats(2, 3, 4, 5),), "MUL ADD")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_batch_norm_has_variable_parameters(dtype: torch.dtype) -> None:
    parameters = (floats(3), floats(3, seed=1).abs() + 1.0, floats(3, seed=2), floats(3, seed=3))
    inputs = tuple(each.to(dtype) for each in (floats(2, 3, 4, 5), *parameters))
    tolerance = (2 * torch.finfo(dtype).eps, 1e-5)
    run_case(F.batch_norm, inputs, "", tolerance, specification=SPECIFICATION)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [lambda x: x.softmax(1), lambda x: F.layer_norm(x, (4,)), torch.sum])
def test_half_precision_is_rounded_once(function: Function, dtype: torch.dtype) -> None:
    tolerance = (torch.finfo(dtype).eps, 0.0)
    run_case(function, (X.to(dtype),), tolerance=tolerance, specification=SPECIFICATION)
