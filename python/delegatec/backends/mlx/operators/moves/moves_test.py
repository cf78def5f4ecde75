# SPDX-License-Identifier: Apache-2.0
"""Moves of elements, with static and dynamic sizes."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import Function, X, floats
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.grid import run_case

CASES: Final[dict[str, tuple[Function, str]]] = {
    "view": (lambda x: x.view(6, 4) * 2, "Reshape Multiply"),
    "permuted": (lambda x: x.permute(2, 0, 1).contiguous() * 2, "Transpose Multiply"),
    "expanded": (lambda x: x[:, :1].expand(2, 5, 4) * 2, "Slice BroadcastTo Multiply"),
    "slice": (lambda x: x[:, 1:3:2] * 2, "Slice Multiply"),
    "last": (lambda x: x[:, -1] * 2, "Take Multiply"),
    "parts": (lambda x: [each * 2 for each in x.split([1, 3], 2)], "Split Multiply Multiply"),
    "joined": (lambda x: torch.cat([x, x * 2], 1), "Multiply Concatenate"),
    "reversed": (lambda x: x.flip(0, 2) * 2, "Slice Slice Multiply"),
    "repeated": (lambda x: x.repeat(2, 1, 3) * 2, "Tile Multiply"),
    "rolled": (lambda x: x.roll((1, -2), (1, 2)) * 2, "Roll Multiply"),
    "padded": (lambda x: F.pad(x, (1, 0, 2, 3), value=0.5) * 2, "Pad Multiply"),
    "unsqueezed": (lambda x: x[:, None] * 2, "ExpandDims Multiply"),
}


@pytest.mark.parametrize("name", CASES)
def test_nodes(name: str) -> None:
    function, expected = CASES[name]
    compiled = run_case(function, (X,), special=1)
    # the order of independent nodes is that of the program
    assert sorted(operations(compiled.blobs()[0])) == sorted(expected.split())


def test_dynamic_sizes() -> None:
    rows = torch.export.Dim("rows", min=4, max=50)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        moved = (
            x.reshape(n * 2, 2),
            x[1 : n - 1] * 2,
            torch.cat([x, x + 1]),
            x[:, None].expand(n, 3, 4) + 1,
            torch.zeros(n, 2) + x[:, :2],
            F.pad(x, (1, 2)) + x.sum(),
            x.flip(0) * n,
            x + torch.arange(n)[:, None],
        )
        return tuple(each * 1.5 for each in moved)

    others = [(floats(4, 4, seed=2),), (floats(50, 4, seed=3),)]
    run_case(function, (floats(6, 4),), dynamic_shapes=(({0: rows},),), others=others)


def test_one_unknown_size_is_inferred() -> None:
    """A view of one dynamic size needs no arithmetic."""
    rows = torch.export.Dim("rows", min=4, max=50)
    run_case(
        lambda x: x.reshape(-1, 2) * 2,
        (floats(6, 4),),
        "Reshape Multiply",
        dynamic_shapes=(({0: rows},),),
        others=[(floats(9, 4),)],
    )


def test_padding_of_dynamic_amounts() -> None:
    rows = torch.export.Dim("rows", min=4, max=50)
    run_case(
        lambda x: F.pad(x, (0, 1, x.shape[0] - 4, x.shape[0])) * 2,
        (floats(6, 4),),
        "SymSize AddInt Pad Multiply",
        dynamic_shapes=(({0: rows},),),
        others=[(floats(4, 4),), (floats(50, 4),)],
    )
