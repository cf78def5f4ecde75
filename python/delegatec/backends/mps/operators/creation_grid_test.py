# SPDX-License-Identifier: Apache-2.0
"""Tensors out of nothing, which the edge program folds where it can, against eager."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.mps.operators.grid import PRECISIONS, Build, run_node

aten = torch.ops.aten

NODES: dict[str, tuple[Build, str]] = {
    "full": (lambda b, x: b.call(aten.full.default, [2, 3, 4], 2.5), "Full"),
    "full of NaN": (lambda b, x: b.call(aten.full.default, [2, 3, 4], float("nan")), "Full"),
    "full of infinity": (lambda b, x: b.call(aten.full.default, [4], float("-inf")), "Full"),
    "full of int64": (lambda b, x: b.call(aten.full.default, [4], 3, dtype=torch.int64), "Full Cast"),
    "full of bool": (lambda b, x: b.call(aten.full.default, [4], True, dtype=torch.bool), "Full Cast"),
    "full_like": (lambda b, x: b.call(aten.full_like.default, x, -1.5), "Full"),
    "scalar_tensor": (lambda b, x: b.call(aten.scalar_tensor.default, 7.0), "Full"),
    "arange": (lambda b, x: b.call(aten.arange.start_step, 1, 9, 2, dtype=torch.float32), "Arange"),
    "arange of int64": (lambda b, x: b.call(aten.arange.start_step, 8, 0, -2), "Arange Cast"),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NODES)
def test_node(name: str, precision: str) -> None:
    run_node(*NODES[name], precision)
