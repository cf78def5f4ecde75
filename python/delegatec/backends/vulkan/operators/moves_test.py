# SPDX-License-Identifier: Apache-2.0
"""Moves, reductions and gathers, in the reference executor, compared with eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from delegatec.backends.vulkan.testing import calls, run_case
from delegatec.backends.vulkan.testing.grid import BOOLS, IMAGE, INTEGERS, Case, X, Y, floats, over_settings

BATCH = floats(2, 5, 6, 7)


def _filled(x: torch.Tensor) -> torch.Tensor:
    copy = x.clone()
    copy.select(1, 0).fill_(2.5)
    return copy


# a product makes each of them worth a delegate
MOVES: dict[str, Case] = {
    **{
        f"permute {shape} {dims}": (
            lambda x, dims=dims: x.permute(dims) * 2,
            (floats(*shape),),
            "permute_copy mul.Tensor",
        )
        for shape, dims in (
            ((2, 3, 4), (2, 0, 1)),
            ((2, 3, 4, 5), (0, 2, 1, 3)),
            ((2, 3, 4, 5), (3, 2, 1, 0)),
            ((1, 2, 3, 4, 5), (0, 2, 1, 3, 4)),
        )
    },
    **{
        f"slice {dim} {start} {end} {step}": (
            lambda x, dim=dim, chunk=slice(start, end, step): x[(slice(None),) * dim + (chunk,)] * 2,
            (BATCH,),
            "slice_copy.Tensor mul.Tensor",
        )
        for dim, start, end, step in ((0, 1, 2, 1), (1, 1, 4, 2), (2, -3, None, 1), (3, 0, 5, 3))
    },
    **{
        f"select {dim} {index}": (
            lambda x, dim=dim, index=index: x.select(dim, index) * 2,
            (BATCH,),
            "select_copy.int mul.Tensor",
        )
        for dim, index in ((0, 1), (1, 3), (2, -1), (3, 2))
    },
    **{
        f"cat {dim}": (lambda x, dim=dim: torch.cat([x, x * 2, x, x, x], dim), (BATCH,), "mul.Tensor cat")
        for dim in range(4)
    },
    "cat of integers": (lambda x: torch.cat([x, x + 1]), (INTEGERS,), "add.Tensor cat"),
    **{f"flip {dim}": (lambda x, dim=dim: x.flip(dim) * 2, (BATCH,), "flip mul.Tensor") for dim in range(4)},
    "stack": (lambda x, y: torch.stack([x, y * 2], 1), (X, Y), ""),
    "expand to a higher rank": (lambda x: (x * 2).expand(5, 2, 3, 4), (X,), "mul.Tensor expand_copy"),
    "pad": (lambda x: functional.pad(x * 2, (1, 2, 0, 1)), (X,), "mul.Tensor constant_pad_nd"),
    "pad of channels": (lambda x: functional.pad(x * 2, (0, 0, 1, 0, 1, 2), value=2.5), (IMAGE,), ""),
    "pad of a video": (
        lambda x: functional.pad(x * 2, (1, 1, 1, 1, 2, 0)),
        (floats(1, 4, 3, 5, 6),),
        "mul.Tensor view_copy constant_pad_nd view_copy",
    ),
    "pad of its frames": (
        lambda x: functional.pad(x * 2, (0, 0, 0, 0, 2, 1), value=3),
        (floats(2, 4, 3, 5, 6),),
        "",
    ),
    "pad of all dimensions": (
        lambda x: functional.pad(x * 2, (1, 0, 0, 2, 1, 0, 1, 2, 0, 1), value=-1),
        (floats(2, 4, 3, 5, 6),),
        "mul.Tensor" + " view_copy constant_pad_nd view_copy" * 5,
    ),
    "pad of some of six": (
        lambda x: functional.pad(x * 2, (1, 0, 0, 0, 1, 1)),
        (floats(2, 1, 3, 2, 3, 4),),
        "",
    ),
    "pad of bools": (
        lambda x: functional.pad(x > 0, (1, 0, 0, 0, 1, 1), value=True),
        (floats(2, 4, 3, 5, 6),),
        "",
    ),
    "crop of a video": (lambda x: functional.pad(x * 2, (-1, 1, 0, 0, 2, 0)), (floats(1, 4, 3, 5, 6),), ""),
    "an output that is an input": (lambda x: (x, x + 1), (X,), ""),
    "an output that is a constant": (lambda x: (x + 1, torch.ones(3)), (X,), ""),
    "the same output twice": (lambda x: (x + 1,) * 2, (X,), ""),
}
REDUCTIONS: dict[str, Case] = {
    "mean of images": (lambda x: x.mean((2, 3)), (IMAGE,), "mean.dim view_copy"),
    "mean of three dimensions": (lambda x: x.mean((1, 2, 3)), (IMAGE,), ""),
    "sum of all": (lambda x: x.sum(), (X,), ""),
    **{
        f"sum of float16 in float32, {keep}": (
            lambda x, keep=keep: x.half().sum(-1, keep, dtype=torch.float32) * 2,
            (X,),
            "",
        )
        for keep in (True, False)
    },
    "mean of float16 in float32": (lambda x: x.half().mean(1, dtype=torch.float32), (X,), ""),
    "sum of a long row": (lambda x: x.sum(-1), (floats(2, 2100),), ""),
    "max of a long row": (lambda x: x.amax(-1), (floats(2, 2100),), ""),
    "variance": (lambda x: x.var(-1), (X,), ""),
    "argmax": (lambda x: x.argmax(-1), (X,), "argmax view_copy"),
    "normalize": (lambda x: functional.normalize(x, dim=-1), (X,), ""),
    "gather": (lambda x, i: x.gather(1, i) * 2, (X, torch.tensor([[[0, 2, 1, 1]]] * 2)), "gather mul.Tensor"),
    **{
        f"index_put at {at}": (
            lambda x, i, y: torch.ops.aten.index_put(x, (None, i), y) * 2,
            (X, torch.tensor(at), floats(2, len(at), 4, seed=7)),
            "",
        )
        for at in ([1], [-1], [2, 0], [0, -1, 0])
    },
    "index_copy": (
        lambda x, i, y: x.index_copy(2, i, y),
        (X, torch.tensor([3, 1]), floats(2, 3, 2, seed=7)),
        "",
    ),
    "index_put of one scalar": (
        lambda x, i: x.index_put((i,), torch.tensor(2.0)),
        (X, torch.tensor([1])),
        "",
    ),
    "an output that a rewrite makes a constant": (_filled, (floats(2, 1, 1),), ""),
    "select of bools": (lambda x: x[:, 1] | x[:, 0], (BOOLS,), ""),
}


@over_settings(MOVES)
def test_moves(case: Case, options: dict[str, str]) -> None:
    function, args, expected = case
    found = run_case(function, args, "", **options)
    if expected and options.get("precision") != "fp16":
        assert [name for name in calls(found) if name != "clone"] == expected.split()


@over_settings(REDUCTIONS)
def test_reductions_and_gathers(case: Case, options: dict[str, str]) -> None:
    function, args, _ = case
    run_case(function, args, "", **options)


@pytest.mark.parametrize("storage", ["texture", "buffer"])
@pytest.mark.parametrize("name", ["mean", "sum", "amax", "amin"])
@pytest.mark.parametrize("dim", [-1, 0, (0, 1)])
def test_reductions_beyond_float16(name: str, dim: Any, storage: str) -> None:
    """The shader for buffers clamps float32 to the range of float16."""
    reduce = getattr(torch, name)
    x = floats(3, 5) + 4
    run_case(lambda x: reduce(x * 1e6, dim) + reduce(-x * 1e6, dim, True).sum(), (x,), storage=storage)
