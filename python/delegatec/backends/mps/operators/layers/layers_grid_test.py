# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions and pooling, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import IMAGE, X, eager, floats
from delegatec.backends.mps.operators.grid import run_case
from delegatec.backends.mps.testing import compile_module

aten = torch.ops.aten

MAXIMA = "MaxPool2DWithIndices Isnan Where MaxPool2DWithIndices Gt Where"
MAXIMA_AND_INDICES = f"{MAXIMA} Sub Cast Where Cast"

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "mm": (torch.mm, (floats(3, 4), floats(4, 5)), "MatMul"),
    "bmm": (torch.bmm, (X, floats(2, 4, 5)), "MatMul"),
    "addmm": (torch.addmm, (floats(5), floats(3, 4), floats(4, 5)), "Addmm"),
    "addmm scaled": (
        lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=3),
        (floats(5), floats(3, 4), floats(4, 5)),
        "Addmm",
    ),
    "addmm without bias": (
        lambda a, b, c: torch.addmm(a, b, c, beta=0, alpha=2),
        (torch.full((5,), float("nan")), floats(3, 4), floats(4, 5)),
        "MatMul Mul Slice Abs Lt Full Where",  # from Slice on, an artificial use of the bias
    ),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (IMAGE, floats(4, 6, 3, 2), floats(4)),
        "Conv2D",
    ),
    "conv2d without bias": (F.conv2d, (IMAGE, floats(4, 6, 3, 2)), "Conv2D"),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=2), (IMAGE, floats(4, 3, 3, 2)), "Conv2D"),
    "conv2d depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, groups=6),
        (IMAGE, floats(6, 1, 3, 3), floats(6)),
        "DepthwiseConv2D",
    ),
    "conv2d two filters a channel": (
        lambda x, w: F.conv2d(x, w, groups=6),
        (IMAGE, floats(12, 1, 3, 3)),
        "Conv2D",
    ),
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1, dilation=2),
        (floats(2, 6, 9), floats(4, 6, 3), floats(4)),
        "Conv2D",
    ),
    "conv1d depthwise": (
        lambda x, w: F.conv1d(x, w, padding=1, groups=6),
        (floats(2, 6, 9), floats(6, 1, 3)),
        "View View DepthwiseConv2D View",
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 3, stride=2, padding=1, dilation=2),
        (IMAGE,),
        MAXIMA,
    ),
    "max_pool2d without stride": (lambda x: F.max_pool2d(x, (2, 3)), (IMAGE,), MAXIMA),
    "max_pool2d ceil": (
        lambda x: F.max_pool2d(x, 3, 2, padding=1, ceil_mode=True),
        (IMAGE,),
        MAXIMA,
    ),
    "max_pool2d indices": (
        lambda x: F.max_pool2d(x, 3, 2, padding=1, return_indices=True),
        (IMAGE,),
        MAXIMA_AND_INDICES,
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, padding=1), (IMAGE,), "AvgPool2D"),
    "avg_pool2d excludes padding": (
        lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False),
        (IMAGE,),
        "AvgPool2D",
    ),
    "avg_pool2d ceil": (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (IMAGE,), "AvgPool2D"),
    "avg_pool2d divisor": (
        lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False, divisor_override=5),
        (IMAGE,),
        "AvgPool2D",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    run_case(*CASES[name])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4,)])
def test_linear_is_one_operation(shape: tuple[int, ...], bias: bool) -> None:
    module, x = torch.nn.Linear(4, 5, bias), floats(*shape)
    compiled = compile_module(module, (x,), preserve=[aten.linear.default])
    assert list(compiled.report.delegates[0].operators) == ["aten.linear.default"]
    for result, reference in zip(compiled(x), eager(module, (x,)), strict=True):
        torch.testing.assert_close(result, reference)
