# SPDX-License-Identifier: Apache-2.0
"""Normalisation, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.mps.operators.grid import IMAGE, X, floats, run_case

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
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    run_case(*CASES[name])
