# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and resizing in the reference executor, against eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as f

from delegatec.backends.arm.testing import compile_module, operators, run_case
from delegatec.backends.common.testing import Call, floats

IMAGE, LINE, VOLUME = floats(2, 6, 9, 11), floats(2, 6, 13), floats(1, 4, 5, 6, 7)

CONVOLUTIONS = {
    "plain": (nn.Conv2d(6, 8, 3, padding=1), IMAGE, "CONV2D"),
    "without bias": (nn.Conv2d(6, 8, (3, 2), (2, 3), (1, 0), (1, 2), bias=False), IMAGE, "CONV2D"),
    "last rows unused": (nn.Conv2d(6, 8, 2, 4), IMAGE, "SLICE SLICE CONV2D"),
    "depthwise": (nn.Conv2d(6, 12, 3, (1, 2), 1, groups=6), IMAGE, "DEPTHWISE_CONV2D"),
    "one per channel": (nn.Conv2d(6, 6, 3, groups=6, dilation=2), IMAGE, "DEPTHWISE_CONV2D"),
    "groups": (nn.Conv2d(6, 8, 3, groups=2), IMAGE, "SLICE CONV2D SLICE CONV2D CONCAT"),
    "1d": (nn.Conv1d(6, 8, 4, 3, 2), LINE, "CONV2D"),
    "1d depthwise": (nn.Conv1d(6, 6, 3, groups=6), LINE, "DEPTHWISE_CONV2D"),
    "3d": (nn.Conv3d(4, 8, (2, 3, 3), (1, 2, 1), (1, 0, 1)), VOLUME, "CONV3D"),
    "transposed": (nn.ConvTranspose2d(6, 4, (3, 2), (2, 3), (1, 0)), IMAGE, "TRANSPOSE_CONV2D"),
    "output padding": (nn.ConvTranspose2d(6, 4, 3, 2, 1, 1), IMAGE, "TRANSPOSE_CONV2D"),
    "removes more than a kernel": (
        nn.ConvTranspose2d(6, 4, 2, (1, 2), (3, 2)),
        IMAGE,
        "TRANSPOSE_CONV2D SLICE SLICE",
    ),
}


def _without_moves(names: list[str]) -> list[str]:
    """Without the layout, which passes over the private program choose."""
    return [name for name in names if name not in ("TRANSPOSE", "RESHAPE")]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    module, x, expected = CONVOLUTIONS[name]
    made = _without_moves(operators(run_case(module, (x,))))
    assert [name for name in made if name != "SLICE" or "SLICE" in expected] == expected.split()


def test_weights_that_are_inputs() -> None:
    weight, bias = floats(8, 6, 3, 3), floats(8)
    run_case(lambda x, w, b: f.conv2d(x, w, b), (IMAGE, weight, bias))
    run_case(lambda x, w: f.conv2d(x, w, groups=6), (IMAGE, floats(12, 1, 3, 3)))


POOLS: dict[str, Any] = {
    "max": (nn.MaxPool2d(3, 2, 1), "MAX_POOL2D"),
    "max to the top": (nn.MaxPool2d(2, 2, ceil_mode=True), "MAX_POOL2D"),
    "average": (nn.AvgPool2d(3, 2, count_include_pad=False, padding=1), "AVG_POOL2D"),
    "average with padding": (nn.AvgPool2d(3, 2, padding=1), "PAD AVG_POOL2D"),
    "average with a divisor": (nn.AvgPool2d(3, 1, divisor_override=7), "AVG_POOL2D MUL"),
    "adaptive max": (nn.AdaptiveMaxPool2d((3, 11)), "MAX_POOL2D"),
    "adaptive average": (nn.AdaptiveAvgPool2d((3, 11)), "AVG_POOL2D"),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    module, expected = POOLS[name]
    made = _without_moves(operators(run_case(module, (IMAGE,))))
    assert made == expected.split() or not expected


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "corners"])
@pytest.mark.parametrize("size", [(18, 33), (7, 8), (9, 22)])
def test_resizing(mode: str, size: tuple[int, int]) -> None:
    options: dict[str, Any] = (
        {"mode": "bilinear", "align_corners": True} if mode == "corners" else {"mode": mode}
    )
    compiled = run_case(lambda x: f.interpolate(x, size, **options), (IMAGE,))
    assert _without_moves(operators(compiled)) == ["RESIZE"]


@pytest.mark.parametrize(
    ("dtype", "specification"), [(torch.float16, "TOSA-1.0+FP"), (torch.bfloat16, "TOSA-1.0+FP+bf16")]
)
def test_short_floats(dtype: torch.dtype, specification: str) -> None:
    """Sums are float32: as exact as eager mode's."""
    x = torch.ones(1, 512, 3, 3, dtype=dtype)
    conv = nn.Conv2d(512, 2, 3, bias=False).to(dtype)
    nn.init.ones_(conv.weight)
    run_case(conv, (x,), specification=specification)
    run_case(nn.AvgPool2d(3), (x,), specification=specification)


def test_pools_of_a_dtype_that_the_target_does_not_have() -> None:
    """Each rule for pools is tried in turn, also on one image."""
    pool = Call(lambda x: f.avg_pool2d(x, 2, divisor_override=3))
    compiled = compile_module(pool, (IMAGE[0].bfloat16(),), specification="TOSA-1.0+FP")
    assert [name for name, _, _ in compiled.left] == ["aten.avg_pool2d.default"]
