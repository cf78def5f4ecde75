# SPDX-License-Identifier: Apache-2.0
"""Normalization, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import IMAGE, X, floats
from delegatec.backends.mps.operators.grid import run_case

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "batch_norm": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, eps=1e-3),
        (IMAGE, floats(6), floats(6).abs() + 0.1, floats(6, seed=3), floats(6, seed=4)),
        "BatchNorm",
    ),
    "batch_norm without weight": (
        lambda x, m, v: F.batch_norm(x, m, v),
        (floats(3, 6), floats(6), floats(6).abs() + 0.1),
        "BatchNorm",
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (3, 4), w, b),
        (X, floats(3, 4), floats(3, 4, seed=5)),
        "LayerNorm",
    ),
    "layer_norm without weight": (lambda x: F.layer_norm(x, (4,)), (X,), "LayerNorm"),
    "layer_norm of rank 6": (
        lambda x, w, b: torch.native_layer_norm(x, (2, 2, 3, 2), w, b, 1e-5),
        (floats(2, 3, 2, 2, 3, 2), floats(2, 2, 3, 2), floats(2, 2, 3, 2, seed=1)),
        "",
    ),
    "layer_norm's statistics": (
        lambda x, w, b: torch.native_layer_norm(x, (3, 4), w, b, 1e-3),
        (X, floats(3, 4), floats(3, 4, seed=5)),
        "LayerNorm Add Rsqrt",
    ),
    "batch_norm in three dimensions": (
        lambda x, m, v: F.batch_norm(x, m, v),
        (floats(2, 3, 2, 3, 4), floats(3), floats(3).abs() + 0.1),
        "View BatchNorm View",
    ),
    "batch_norm by the batch": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (IMAGE, floats(6), floats(6, seed=1)),
        "",
    ),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 3, w, b),
        (IMAGE, floats(6), floats(6, seed=1)),
        "",
    ),
    "group_norm without weight": (lambda x: F.group_norm(x, 2), (IMAGE,), "View LayerNorm View"),
    "group_norm's statistics": (
        lambda x, w, b: torch.native_group_norm(x, w, b, 2, 6, 56, 3, 1e-5),
        (IMAGE, floats(6), floats(6, seed=1)),
        "",
    ),
    "instance_norm": (
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        (IMAGE, floats(6), floats(6, seed=1)),
        "",
    ),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), (IMAGE,), ""),
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w), (IMAGE, floats(8)), ""),
    "normalize": (lambda x: (F.normalize(x), F.normalize(x, p=1.0)), (IMAGE,), ""),
    "weight_norm": (
        lambda x, v, g: F.linear(x, torch._weight_norm(v, g, 0)),
        (floats(2, 8), floats(5, 8), floats(5, 1)),
        "",
    ),
    "standard deviation": (lambda x: x.std((2, 3), keepdim=True), (IMAGE,), ""),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    run_case(*CASES[name])


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"local_response_norm"}))
def test_operator_in_fp16(name: str) -> None:
    function, args, _ = CASES[name]
    run_case(function, args, precision="fp16", rtol=6e-3, atol=3e-3)


def test_variances_beyond_float16() -> None:
    x = floats(2, 3, 64)
    x[..., 7] = 9000.0
    run_case(lambda x, w: F.layer_norm(x, (64,), w), (x, floats(64)), precision="fp16")


def test_an_epsilon_that_float16_does_not_have() -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (8,), eps=1e-12)

    run_case(norm, (torch.full((2, 8), 0.1),), precision="fp16")


def test_a_half_with_weights_in_float32() -> None:
    x, w = floats(2, 8).half(), floats(8)
    run_case(lambda x, w: F.layer_norm(x, (8,), w, w), (x, w), rtol=1e-3, atol=1e-3)
