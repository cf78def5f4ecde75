# SPDX-License-Identifier: Apache-2.0
"""Operators that only move data, folded by the edge program or not, against eager mode."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import Build, X
from delegatec.backends.mps.operators.grid import PRECISIONS, run_case, run_node
from delegatec.backends.mps.testing import operations

MOVES: dict[str, tuple[Callable[..., Any], str]] = {
    "view": (lambda x: x.view(6, 4), "View"),
    "expand": (lambda x: x[:, :1].expand(2, 5, 4), "Slice Expand"),
    "expand to a higher rank": (lambda x: x.expand(3, 2, 3, 4), "View Expand"),
    "repeat": (lambda x: x.repeat(2, 1, 3, 1), ""),
    "repeat of rank 0": (lambda x: (x.mean().repeat(()), x.mean().repeat(2)), ""),
    "permute": (lambda x: x.permute(2, 0, 1), "Permute"),
    "transpose": (lambda x: x.transpose(0, -1), "Permute"),
    "squeeze": (lambda x: x[:1].squeeze(0), ""),
    "squeeze of nothing": (lambda x: torch.ops.aten.squeeze.dims(x, [1]), ""),
    "unsqueeze": (lambda x: x.unsqueeze(-1), ""),
    "unsqueeze of rank 0": (lambda x: x.mean().unsqueeze(0), ""),
    "select": (lambda x: x.select(-1, -2), "Select"),
    "slice": (lambda x: x[:, 1:3, 1::2], ""),
    "slice from the end": (lambda x: x[..., -3:-1], "Slice"),
    "cat": (lambda x: torch.cat([x, x.exp()], -1), ""),
    "stack": (lambda x: torch.stack([x, x.exp()], 1), ""),
    "split": (lambda x: x.split([1, 3], -1), ""),
    "chunk": (lambda x: x.chunk(2, -1), ""),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x.view(1, 4, 2, 3), 2), ""),
    "pad": (lambda x: F.pad(x, (1, 2), value=3.0), "ConstantPadND"),
    "pad two dimensions": (lambda x: F.pad(x, (1, 0, 0, 2)), "ConstantPadND"),
    "to int": (lambda x: (x * 9).to(torch.int32), ""),
    "to half": (lambda x: x.half(), ""),
    "to bool": (lambda x: x.bool(), ""),
    "clone": (lambda x: x.clone(), ""),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    function, expected = MOVES[name]

    def with_work(x: torch.Tensor) -> Any:
        # A delegate must compute something.
        result = function(x + 1.0)
        return [r.float() * 2.0 for r in (result if isinstance(result, (tuple, list)) else (result,))]

    compiled = run_case(with_work, (X,))
    for operation in expected.split():
        assert operation in operations(compiled.blobs()[0])


aten = torch.ops.aten

NODES: dict[str, tuple[Build, str]] = {
    "split_with_sizes": (
        lambda b, x: b.call(
            operator.getitem,
            b.call(aten.split_with_sizes.default, x, [1, 3], -1),
            1,
            val=x.meta["val"][..., 1:],
        ),
        "SplitWithSizes",
    ),
    "permute of rank 0": (lambda b, x: b.call(aten.permute.default, b.call(aten.mean.default, x), []), ""),
    "expand of rank 0": (
        lambda b, x: b.call(aten.expand.default, b.call(aten.mean.default, x), [2, 4]),
        "View Expand",
    ),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NODES)
def test_node(name: str, precision: str) -> None:
    run_node(*NODES[name], precision)
