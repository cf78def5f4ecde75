# SPDX-License-Identifier: Apache-2.0
"""Max pools become maxima of slices."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.program.kernels.legalize import legalize

aten = torch.ops.aten
KERNEL = aten.max_pool2d_with_indices.default
NAN, INF = float("nan"), float("inf")


def _images(*sizes: int) -> torch.Tensor:
    x = torch.randn(*sizes, generator=torch.Generator().manual_seed(0))
    x.view(-1)[1::7], x.view(-1)[3::11], x.view(-1)[4::13] = NAN, INF, -INF
    return x


def _legal(function: Any, *inputs: Any, **options: Any) -> EdgeProgram:
    program = edge(function, *inputs, passes=(), preserve=KERNEL_COMPOSITES, **options)
    legalize(program)
    return program


# Sizes; kernel, stride, padding, dilation, ceil_mode.
POOLS: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "plain": ((2, 3, 6, 8), (2,)),
    "padded": ((1, 2, 7, 9), (3, 2, 1)),
    "dilated": ((1, 2, 9, 9), ((2, 3), (1, 2), (1, 0), (3, 2))),
    "beyond_the_border": ((1, 2, 6, 7), (3, 2, 0, 1, True)),
    "unread_border": ((1, 1, 7, 8), (2, 3)),
    "one_image": ((2, 6, 6), (3, 1, 1)),
    "one_window": ((1, 2, 5, 30), ((5, 30),)),
    "one_padded_window": ((1, 2, 3, 4), (4, 9, (1, 2))),
    "padding_alone": ((1, 1, 2, 3), ((3, 1), 4, (1, 0), (3, 1), True)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("name", POOLS)
def test_maxima_of_slices_are_those_of_windows(name: str, dtype: torch.dtype) -> None:
    sizes, arguments = POOLS[name]
    x = _images(*sizes)
    x = x.to(dtype) if dtype.is_floating_point else (x * 10).nan_to_num(0, 90, -90).to(dtype)
    program = _legal(lambda x: F.max_pool2d(x, *arguments), x)
    assert KERNEL not in called(program)
    assert_computes(program, F.max_pool2d(x, *arguments), x)


def test_positions_are_those_of_the_kernel() -> None:
    x = _images(1, 2, 6, 6).nan_to_num(0)
    program = _legal(lambda x: F.max_pool2d(x, 2, return_indices=True), x)
    assert called(program).count(KERNEL) == 1
    assert_computes(program, F.max_pool2d(x, 2, return_indices=True), x)


@pytest.mark.parametrize("name", POOLS)
def test_positions_of_nan(name: str) -> None:
    sizes, arguments = POOLS[name]
    x = _images(*sizes)
    program = _legal(lambda x: F.max_pool2d(x, *arguments, return_indices=True)[1], x)
    assert aten.isnan.default in called(program)
    assert_computes(program, F.max_pool2d(x, *arguments, return_indices=True)[1], x)


@pytest.mark.parametrize(
    ("sizes", "window", "dynamic"),
    [((1, 1, 40, 40), 20, {}), ((1, 2, 8, 8), 2, {2: Dim("rows", min=4, max=9)})],
    ids=("large", "dynamic"),
)
def test_other_pools_return_nan_by_a_mask(sizes: Any, window: int, dynamic: Any) -> None:
    x = _images(*sizes)
    program = _legal(lambda x: F.max_pool2d(x, window, 1), x, dynamic_shapes=(dynamic,))
    assert called(program).count(KERNEL) == 2
    assert_computes(program, F.max_pool2d(x, window, 1), x)


def test_pools_of_dynamic_batches_are_maxima_of_slices() -> None:
    x = _images(2, 1, 6, 6)
    program = _legal(lambda x: F.max_pool2d(x, 2), x, dynamic_shapes=({0: Dim("batch", max=4)},))
    assert KERNEL not in called(program)
    assert_computes(program, F.max_pool2d(x, 2), x)


def test_values_that_nothing_reads_are_not_computed() -> None:
    x = torch.arange(72).view(1, 2, 6, 6)
    program = _legal(lambda x: F.max_pool2d(x, 3, 1, return_indices=True)[1], x)
    assert [each for each in called(program) if each is not operator.getitem] == [KERNEL]
