# SPDX-License-Identifier: Apache-2.0
"""Gathers, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import BOOL, X, floats, ints
from delegatec.backends.mps.operators.grid import PRECISIONS, check_specified, rejected, run_case
from delegatec.backends.mps.testing import operations

ROWS = torch.tensor([1, 0, 1])
COLUMNS = torch.tensor([[2], [0]])
NEGATIVE = torch.tensor([-1, 0, -2])
INDICES = ints(2, 3, 4, high=4)
LARGE = torch.tensor([[16777217, -2147483647, 33554433, 5], [-7, 2147483647, 0, 16777219]])
HUGE = LARGE * 4294967297 + 3
FLAGS = torch.tensor([[True, False, True, True], [False, False, True, False]])

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "embedding": (lambda i, w: F.embedding(i, w), (ints(2, 3), floats(5, 4)), "Embedding"),
    "embedding with padding": (
        lambda i, w: F.embedding(i, w, padding_idx=0),
        (torch.tensor([[0, 1], [2, 0]]), floats(5, 4)),
        "Embedding",
    ),
    "embedding of one": (
        lambda i, w: F.embedding(i, w),
        (torch.tensor(3), floats(5, 4)),
        "View Embedding View",
    ),
    "embedding of int64": (lambda i, w: F.embedding(i, w) * 1, (ints(2, 3, high=2), HUGE), ""),
    "index_select": (lambda x, i: x.index_select(-1, i), (X, torch.tensor([3, 0, 3])), "IndexSelect"),
    "index_select of one": (lambda x, i: x.index_select(1, i), (X, torch.tensor(2)), "View IndexSelect"),
    "index_select int32": (lambda x, i: x.index_select(1, i), (X, ROWS.int()), "IndexSelect"),
    "index": (
        lambda x, i: x[:, i.clamp(min=0)] + 0,
        (X, torch.tensor([[2, 0], [1, 1]])),
        "Clamp Cast IndexTensor Add",
    ),
    "index negative": (lambda x, i: x[..., i], (X, NEGATIVE), "Cast Lt Add Where IndexTensor"),
    "index by one": (lambda x, i: x[torch.stack([i, i])], (X, torch.tensor(-1)), ""),
    "indices side by side": (lambda x, i, j: x[:, i, j], (X, ROWS, NEGATIVE), ""),
    "indices that broadcast": (lambda x, i, j: x[:, i, j], (X, ROWS, COLUMNS), ""),
    "indices apart": (lambda x, i, j: x[i, :, j], (X, ROWS, COLUMNS), ""),
    "indices apart, at the end": (
        lambda x, i, j: x.unsqueeze(1)[:, i.clamp(0, 0), :, j],
        (X, ROWS, COLUMNS),
        "",
    ),
    "three indices": (lambda x, i, j: x[i, j.abs(), j], (X, ROWS, NEGATIVE), ""),
    "an index by arange": (lambda x, i: x[torch.arange(2), i.abs()[:2]] * 2, (X, NEGATIVE), ""),
    "index of bool": (lambda x, i: x[:, i], (FLAGS, NEGATIVE), ""),
    "index of int32": (lambda x, i: x[:, i], (LARGE.int(), NEGATIVE), ""),
    "index of int64": (lambda x, i, j: x[i, j], (HUGE, ROWS, COLUMNS), ""),
    "gather": (lambda x, i: x.gather(2, i), (X, INDICES), ""),
    "gather in the middle": (lambda x, i: x.gather(1, i[:, :2, :3].clamp(max=2)), (X, INDICES), ""),
    "gather of rows": (
        lambda x, i: x.gather(1, i.clamp(max=2).unsqueeze(-1).expand(2, 4, 4)),
        (X, INDICES[:, 0]),
        "Clamp Unsqueeze Cast View Add View IndexSelect",
    ),
    "gather of columns": (lambda x, i: x.gather(2, i.expand(2, 3, 5)), (X, INDICES[0, 0, :1]), ""),
    "gather on all sides": (
        lambda x, i: x.gather(1, i.view(1, -1, 1).expand(2, -1, 4)),
        (X, torch.tensor([2, 0])),
        "",
    ),
    "gather of rank 0": (lambda x, i: x.mean().gather(0, i * 1), (X, torch.tensor(0)), ""),
    "gather of int64": (lambda x, i: x.gather(1, i), (HUGE, INDICES[0, :2]), ""),
    "gather of bool": (lambda x, i: x.gather(1, i), (FLAGS, INDICES[0, :2]), ""),
    "gather of half": (lambda x, i: x.gather(1, i), (X[0].half(), INDICES[0]), ""),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i[:1], 2), (X, INDICES), ""),
    "take": (lambda x, i: torch.take(x, i - 3), (X, INDICES), ""),
    "flip": (lambda x: (x * 2).flip(0, -1), (X,), "Mul IndexSelect IndexSelect"),
    "flip of int64": (lambda x: x.flip(1).clamp(min=-9), (HUGE,), ""),
    "rot90": (lambda x: torch.rot90(x, 1, (1, 2)) * 2, (X,), ""),
    "unfold": (lambda x: (x * 2).unfold(2, 2, 1), (X,), "Mul Add IndexSelect"),
    "unfold in the middle": (lambda x: (x * 2).unfold(1, 2, 1), (X,), ""),
    "unfold side by side": (lambda x: (x * 2).unfold(1, 1, 1), (X,), ""),
    "unfold with gaps": (lambda x: (x * 2).unfold(-1, 1, 3), (X,), ""),
    "as_strided": (lambda x: (x * 2).as_strided((2, 3, 2), (5, 1, 2), 1), (X,), ""),
    "as_strided of one": (lambda x: (x * 2).as_strided((), (), 7), (X,), ""),
    "one_hot": (lambda i: F.one_hot(i, 5).float() * 2, (ints(3),), ""),
    "embedding_bag": (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="mean"),
        (torch.tensor([0, 3, 1, 2]), floats(4, 3), torch.tensor([0, 3])),
        "",
    ),
    "im2col": (lambda x: F.unfold(x, 2, padding=1, stride=2) * 2, (floats(1, 2, 4, 4),), ""),
}


# The precision is one of float32: without it, both are one.
RUNS = [
    (name, precision)
    for name, (_, args, _) in CASES.items()
    for precision in PRECISIONS
    if precision == "fp32" or any(arg.dtype == torch.float32 for arg in args)
]


@pytest.mark.parametrize(("name", "precision"), RUNS)
def test_operator(name: str, precision: str) -> None:
    function, args, expected = CASES[name]
    compiled = run_case(function, args, expected if precision == "fp32" else "", precision)
    check_specified(compiled, args)


def test_integers_that_are_small_are_moved_at_once() -> None:
    compiled = run_case(lambda x, i: x.clamp(-9, 9)[:, i], (LARGE, NEGATIVE))
    assert operations(compiled.blobs()[0]).count("IndexTensor") == 1
    compiled = run_case(lambda x, i: x[:, i], (LARGE, NEGATIVE))
    assert operations(compiled.blobs()[0]).count("IndexTensor") == 3


def test_an_index_is_wrapped_once_for_all() -> None:
    compiled = run_case(lambda x, i: (x[..., i], (x * 2)[..., i]), (X, NEGATIVE))
    assert operations(compiled.blobs()[0]).count("Where") == 1


def test_positions_are_computed_once() -> None:
    compiled = run_case(lambda x, i: (x.gather(2, i), (x * 2).gather(2, i)), (X, INDICES))
    assert operations(compiled.blobs()[0]).count("Add") == 2
    compiled = run_case(lambda x, i, j: (x[i, j], (x * 2)[i, j]), (X, ROWS, COLUMNS))
    assert operations(compiled.blobs()[0]).count("Mul") == 2


def test_no_constant_has_the_size_of_a_result() -> None:
    x = floats(64, 64)
    compiled = run_case(lambda x, i: x.gather(1, i) * 2, (x, ints(64, 64)))
    assert len(compiled.blobs()[0]) < 64 * 64 * 4


def test_a_mask_is_rejected() -> None:
    left = rejected(lambda x, m: x[m] * 2, (floats(3), BOOL))
    assert left[0][:2] == ("aten.index.Tensor", "dynamic-shape")
