# SPDX-License-Identifier: Apache-2.0
"""Look-ups, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.mps.operators.grid import X, floats, ints, run_case

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "embedding": (lambda i, w: F.embedding(i, w), (ints(2, 3), floats(5, 4)), "Embedding"),
    "embedding with padding": (
        lambda i, w: F.embedding(i, w, padding_idx=0),
        (torch.tensor([[0, 1], [2, 0]]), floats(5, 4)),
        "Embedding",
    ),
    "index_select": (lambda x, i: x.index_select(-1, i), (X, torch.tensor([3, 0, 3])), "IndexSelect"),
    "index": (lambda x, i: x[:, i] + 0, (X, torch.tensor([[2, 0], [1, 1]])), ""),
    "slice_scatter": (
        lambda x, y: torch.slice_scatter(x, y, 2, 0, 4, 2) + 0.5,
        (X, floats(2, 3, 2)),
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    run_case(*CASES[name])
