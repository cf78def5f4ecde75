# SPDX-License-Identifier: Apache-2.0
"""Data movement by several operations, and grid samples, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import IMAGE, X, Y, floats, ints
from delegatec.backends.mps.operators.grid import PRECISIONS, check_specified, run_case
from delegatec.backends.mps.testing import operations

MOVES: dict[str, tuple[Callable[..., Any], str]] = {
    "diagonal": (lambda x: x[0].diagonal(), ""),
    "diagonal above": (lambda x: x.diagonal(1, 1, 2), "View Slice"),
    "diagonal below": (lambda x: x.diagonal(-1, -1, 0), "Permute View Slice"),
    "diagonal of the last element": (lambda x: x.diagonal(3, 1, 2), ""),
    "diag_embed": (lambda x: torch.diag_embed(x, 1, 0, 2), ""),
    "trace": (lambda x: torch.trace(x[0]), ""),
    "tril": (lambda x: x.tril(), "Ge Where"),
    "tril above": (lambda x: x.tril(2), ""),
    "tril below": (lambda x: x.tril(-1), ""),
    "triu": (lambda x: x.triu(1), ""),
    "roll": (lambda x: x.roll((1, -1), (0, 2)), "Slice Cat"),
    "roll without dimensions": (lambda x: x.roll(5), "View Slice Cat"),
    "roll by a whole turn": (lambda x: x.roll(24) * 2, ""),
    "pixel_shuffle of rank 3": (lambda x: F.pixel_shuffle(x.view(4, 2, 3), 2), "PixelShuffle"),
    "pixel_shuffle of rank 5": (lambda x: F.pixel_shuffle(x.view(1, 2, 4, 1, 3), 2), "PixelShuffle"),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x.view(1, 6, 4), 2), ""),
    "channel_shuffle": (lambda x: F.channel_shuffle(x.view(1, 6, 2, 2), 3), ""),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), ""),
    "meshgrid": (lambda x: torch.meshgrid(x[0, 0], x[1, 1], indexing="xy"), ""),
    "movedim": (lambda x: x.movedim(0, -1), ""),
    "unflatten": (lambda x: x.unflatten(-1, (2, 2)), ""),
    "tensor_split": (lambda x: x.tensor_split(3, -1), ""),
    "select to rank 0": (lambda x: x[1, 2, 3].expand(2), ""),
    "cat of rank 1 elements": (lambda x: torch.cat([x[0, 0, :1], x[1, 1, 1:2]]), ""),
    "cat of dtypes": (lambda x: torch.cat([x, (x > 1), x.int()], 1), ""),
    "cat of nothing": (lambda x: torch.cat([torch.empty(0), x, x[:, 3:]], 1), ""),
    "block_diag": (lambda x: torch.block_diag(x[0], x[1]), ""),  # type: ignore[no-untyped-call]
    "cartesian_prod": (lambda x: torch.cartesian_prod(x[0, 0], x[1, 0]), ""),
    "kron": (lambda x: torch.kron(x[0], x[1]), ""),
    "slice of ints": (lambda x: (x * 9).long()[:, ::2, 1:-1], ""),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    function, expected = MOVES[name]

    def with_work(x: torch.Tensor) -> Any:
        # A delegate must compute something.
        result = function(x + 1.0)
        return [r.float() * 2.0 for r in (result if isinstance(result, (tuple, list)) else (result,))]

    compiled = run_case(with_work, (X,))
    check_specified(compiled, (X,))
    for operation in expected.split():
        assert operation in operations(compiled.blobs()[0])


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

    args = (IMAGE, GRID, SQUARE, CORNERS)
    check_specified(run_case(two, args, atol=1e-5, special=1), args)


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("rows", [True, False])
def test_masked_scatter(rows: bool, dtype: torch.dtype, precision: str) -> None:
    mask = torch.tensor([[False, True, False], [True, False, True]])
    x, source = ((ints(2, 3, 4, high=1 << 40) * n - 5) for n in (1, 3))
    if dtype == torch.float32:
        x, source = X, floats(3, 4, seed=9)
    if dtype == torch.bool:
        x, source = x % 2 == 1, source % 3 == 1

    def function(x: torch.Tensor, source: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        selected = (
            mask.unsqueeze(-1).expand_as(x) if rows else mask.repeat_interleave(2, 1)[:, :4].unsqueeze(1)
        )
        return x.masked_scatter(selected, source)

    check_specified(run_case(function, (x, source, mask), "", precision), (x, source, mask))


def test_masked_scatter_broadcasts_to_its_mask() -> None:
    args = (floats(3), floats(2, 3) > 0, Y)
    check_specified(run_case(torch.masked_scatter, args), args)
