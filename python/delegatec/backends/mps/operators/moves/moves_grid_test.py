# SPDX-License-Identifier: Apache-2.0
"""Operators that move data: the operations that they become; samples at positions, and masked elements."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import IMAGE, Build, X, floats, ints
from delegatec.backends.mps.testing import operations
from delegatec.backends.mps.testing.grid import PRECISIONS, run_case, run_node

aten = torch.ops.aten

MOVES: dict[str, tuple[Callable[..., Any], str]] = {
    "expand": (lambda x: x[:, :1].expand(2, 5, 4), "Slice Expand"),
    "expand to a higher rank": (lambda x: x.expand(3, 2, 3, 4), "View Expand"),
    "repeat of rank 0": (lambda x: (x.mean().repeat(()), x.mean().repeat(2)), ""),
    "transpose": (lambda x: x.transpose(0, -1), "Permute"),
    "select": (lambda x: x.select(-1, -2), "Select"),
    "slice": (lambda x: x[:, 1:3, 1::2], ""),
    "stack": (lambda x: torch.stack([x, x.exp()], 1), ""),
    "chunk": (lambda x: x.chunk(2, -1), ""),
    "tensor_split": (lambda x: x.tensor_split(3, -1), ""),
    "diagonal above": (lambda x: x.diagonal(1, 1, 2), "View Slice"),
    "diagonal below": (lambda x: x.diagonal(-1, -1, 0), "Permute View Slice"),
    "diagonal of the last element": (lambda x: x.diagonal(3, 1, 2), ""),
    "diag_embed": (lambda x: torch.diag_embed(x, 1, 0, 2), ""),
    "trace": (lambda x: torch.trace(x[0]), ""),
    "tril": (lambda x: x.tril(), "Ge Where"),
    "triu": (lambda x: x.triu(1), ""),
    "roll": (lambda x: x.roll((1, -1), (0, 2)), "Slice Cat"),
    "roll without dimensions": (lambda x: x.roll(5), "View Slice Cat"),
    "roll by a whole turn": (lambda x: x.roll(24) * 2, ""),
    "pixel_shuffle of rank 5": (lambda x: F.pixel_shuffle(x.view(1, 2, 4, 1, 3), 2), "PixelShuffle"),
    "channel_shuffle": (lambda x: F.channel_shuffle(x.view(1, 6, 2, 2), 3), ""),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), ""),
    "meshgrid": (lambda x: torch.meshgrid(x[0, 0], x[1, 1], indexing="xy"), ""),
    "cat of dtypes": (lambda x: torch.cat([x, (x > 1), x.int()], 1), ""),
    "cat of nothing": (lambda x: torch.cat([torch.empty(0), x, x[:, 3:]], 1), ""),
    "block_diag": (lambda x: torch.block_diag(x[0], x[1]), ""),  # type: ignore[no-untyped-call]
    "cartesian_prod": (lambda x: torch.cartesian_prod(x[0, 0], x[1, 0]), ""),
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


GRID = floats(2, 4, 5, 2, seed=7) * 1.9
CORNERS = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.125, -0.125], [-9.0, 0.5]]).view(1, 2, 2, 2)
SQUARE = floats(1, 3, 8, 8, seed=2)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, align: bool) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, align)

    def two(x: torch.Tensor, grid: torch.Tensor, y: torch.Tensor, corners: torch.Tensor) -> Any:
        return sample(x, grid), sample(y, corners)

    run_case(two, (IMAGE, GRID, SQUARE, CORNERS), atol=1e-5, special=1)


def test_grid_sample_of_one_column_that_is_mirrored() -> None:
    run_case(lambda x, grid: F.grid_sample(x, grid, "bilinear", "reflection", True), (IMAGE[..., :1], GRID))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_in_half(mode: str) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, align_corners=False)

    def in_float(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return sample(x.float(), grid.float())  # Eager mode has none in float16.

    # A grid that float16 represents: rounding others would change the nearest elements.
    run_case(sample, (IMAGE, GRID.half().float()), "", "fp16", reference=in_float)


def test_positions_outside_do_not_read_the_border() -> None:
    x = torch.full((1, 1, 2, 2), torch.inf)
    grid = torch.full((1, 1, 1, 2), -9.0)
    (result,) = run_case(lambda x, grid: F.grid_sample(x, grid, align_corners=False), (x, grid))(x, grid)
    assert result.item() == 0


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rows", [True, False])
def test_masked_scatter(rows: bool, precision: str) -> None:
    mask = torch.tensor([[False, True, False], [True, False, True]])

    def function(x: torch.Tensor, source: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        elements = mask.repeat_interleave(2, 1)[:, :4].unsqueeze(1)
        return x.masked_scatter(mask.unsqueeze(-1).expand_as(x) if rows else elements, source)

    run_case(function, (X, floats(3, 4, seed=9), mask), "", precision)
    x, source = ((ints(2, 3, 4, high=1 << 40) * n - 5) for n in (1, 3))
    run_case(function, (x, source, mask), "", precision)
