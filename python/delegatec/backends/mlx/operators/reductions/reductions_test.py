# SPDX-License-Identifier: Apache-2.0
"""Reductions, cumulative sums, and order."""

from __future__ import annotations

import math
from typing import Final

import pytest
import torch

from delegatec.backends.common.testing import BOOL, Function, X, floats, ints
from delegatec.backends.mlx.testing.grid import PRECISIONS, rejected, run_case

_INTS: Final = ints(3, 5, high=7)
_TIES: Final = torch.tensor([[1.0, math.inf, math.nan, 1.0, math.inf, math.nan, -math.inf, -math.inf]])

_POSITION: Final = "{} Equal NotEqual LogicalOr AsType Argmax"

CASES: Final[dict[str, tuple[Function, torch.Tensor, str]]] = {
    "sum": (lambda x: x.sum(1), X, "Sum"),
    "sum of integers": (lambda x: x.to(torch.int32).sum(), _INTS, "AsType AsType Sum"),
    "sum of bools": (lambda x: x.sum(), BOOL, "AsType Sum"),
    "mean": (lambda x: x.mean((0, 2), keepdim=True), X, "Mean"),
    "maximum": (lambda x: x.amax((0, 2)), X, "Max"),
    "any": (lambda x: (x > 0).any(1), X, "Greater Any"),
    "all": (lambda x: (x > -1).all(1), X, "Greater All"),
    "all of two dimensions": (lambda x: torch.all(x > -1, dim=(0, 2)), X, "Greater All"),
    "all of integers": (lambda x: x.all(), _INTS, "AsType All"),
    "maximum of bools": (lambda x: (x > 0).amax(1), X, "Greater Any"),
    "variance": (lambda x: x.var((0, 2)), X, "Var"),
    "product": (lambda x: x.prod(1), X, "Prod"),
    "logarithm of a sum": (lambda x: x.logsumexp((1, 2)), X, "LogSumExp"),
    "cumulative sum": (lambda x: x.cumsum(1), X, "Cumsum"),
    "position": (lambda x: x.argmax(1), X, _POSITION.format("Max")),
    "position of all": (
        lambda x: x.argmin(),
        X,
        "Min Equal NotEqual LogicalOr AsType Reshape Argmax",
    ),
    "position of integers": (lambda x: x.argmin(1), _INTS, "Argmin"),
    "maximum and position": (lambda x: x.max(1), X, _POSITION.format("Max Max")),
    "position of the minimum": (lambda x: x.min(1, keepdim=True)[1], X, _POSITION.format("Min")),
    "softmax": (lambda x: x.softmax(1), X, "Softmax"),
    "log softmax": (lambda x: x.log_softmax(-1), X, "Max Subtract LogSumExp Subtract"),
    "sorted": (lambda x: x.sort(1).values, X, "Sort"),
    "sorted, descending": (lambda x: x.sort(1, descending=True).values, X, "Sort Slice"),
    "order": (lambda x: x.argsort(1), X, "Argsort"),
    "largest": (lambda x: x.topk(2, 1).values, X, "Sort Slice Slice"),
    "smallest": (lambda x: x.topk(2, 1, largest=False).indices, X, "Argsort Slice"),
}


@pytest.mark.parametrize("name", CASES)
def test_nodes(name: str) -> None:
    function, x, expected = CASES[name]
    special = int(name == "largest" or all(each not in name for each in ("log", "order", "est", "product")))
    run_case(function, (x,), expected, special=special, atol=1e-5)


@pytest.mark.parametrize("largest", [True, False])
def test_equal_elements_keep_their_order(largest: bool) -> None:
    wanted = [2, 5, 1, 4, 0, 3, 6, 7] if largest else [6, 7, 0, 3, 1, 4, 2, 5]
    run_case(
        lambda x: x.topk(8, largest=largest).indices + 0,
        (_TIES,),
        reference=lambda x: torch.tensor([wanted]),
        unspecified=["ties"],
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_half_precision_is_summed_in_float32(precision: str) -> None:
    x = torch.full((2, 3000), 1.0)
    run_case(lambda x: (x.cumsum(1), x.sum(1), x.mean(1)), (x,), precision=precision, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_of_half_precision(dtype: torch.dtype) -> None:
    x = (floats(4, 300) * 3).to(dtype)
    run_case(lambda x: (x.sum(1), x.mean(), x.softmax(1), x.amax(1)), (x,), rtol=8e-3, atol=8e-3)


@pytest.mark.parametrize("function", [lambda x: x.log_softmax(1), lambda x: x.logsumexp(1)])
def test_logarithms_of_large_elements(function: Function) -> None:
    large = 3e4 + floats(4, 5)
    special = torch.tensor([[math.inf, 1.0], [-math.inf, 1.0], [-math.inf, -math.inf], [math.nan, 1.0]])
    run_case(function, (large,), rtol=1e-6, atol=1e-6)
    run_case(function, (special,))


@pytest.mark.parametrize("function", [torch.argmax, torch.argmin])
def test_positions_of_the_first_nan(function: Function) -> None:
    rows = [[1.0, math.nan, 9.0, math.nan], [math.nan, 2.0, 1.0, 3.0], [math.inf, math.nan, -math.inf, 0.0]]
    x = torch.tensor(rows)
    run_case(lambda x: (function(x, 1), function(x, 0), function(x)), (x,))


def test_dynamic_rows() -> None:
    rows = torch.export.Dim("rows", min=4, max=50)
    run_case(
        lambda x: (x.sort(0, descending=True)[1], x.topk(3, 0)[0], x.sum(0) * x.shape[0]),
        (floats(5, 4),),
        dynamic_shapes=(({0: rows},),),
        others=[(floats(4, 4, seed=2),), (floats(50, 4, seed=3),)],
    )


def test_rejected() -> None:
    left = rejected(lambda x: torch.sort(x > 0, 1).values, (X,))
    assert [(operator, rule) for operator, rule, _ in left][:1] == [("aten.sort.default", "dtype")]
