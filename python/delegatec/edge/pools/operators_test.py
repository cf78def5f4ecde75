# SPDX-License-Identifier: Apache-2.0
"""Operators on windows have the results of torch, along any dimensions."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as f

from delegatec.edge.pools.operators import POOLS

X: Final = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(0))


def _checked(operator: Any, x: torch.Tensor, *args: Any) -> torch.Tensor:
    """Calls an operator, also on a fake tensor, which has to infer its dtype and shape."""
    result: torch.Tensor = operator(x, *args)
    mode = FakeTensorMode()
    with mode:
        fake = operator(mode.from_tensor(x), *args)
    assert (fake.dtype, fake.shape) == (result.dtype, result.shape)
    return result


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 0, 2, 1)])
def test_windows_along_two_dimensions(order: tuple[int, ...]) -> None:
    x, dims = X.permute(order).contiguous(), [order.index(2), order.index(3)]
    settings = [3, 2], [2, 1], [1, 1, 1, 0]
    back = [order.index(dim) for dim in range(4)]
    padded = f.pad(X, (1, 0, 1, 1), value=-math.inf)
    found = _checked(POOLS.maxima.default, x, dims, *settings, [1, 2]).permute(back)
    torch.testing.assert_close(found, f.max_pool2d(padded, (3, 2), (2, 1), 0, (1, 2)))

    found = _checked(POOLS.averages.default, x, dims, *settings).permute(back)
    sums, counts = (
        f.avg_pool2d(f.pad(each, (1, 0, 1, 1)), (3, 2), (2, 1), divisor_override=1)
        for each in (X, torch.ones_like(X))
    )
    torch.testing.assert_close(found, sums / counts)


def test_elements_of_windows() -> None:
    """They are those that a convolution with one weight of each element has."""
    found = _checked(POOLS.windows.default, X, [2, 3], [3, 2], [2, 2], [1, 1, 0, 1], [2, 1], 0.0)
    columns = f.unfold(f.pad(X, (0, 1, 1, 1)), (3, 2), (2, 1), 0, (2, 2))
    assert torch.equal(found, columns.view(2, 3, 3, 2, *found.shape[2:4]).permute(0, 1, 4, 5, 2, 3))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
def test_maxima_of_integers(dtype: torch.dtype) -> None:
    x = (X * 40).to(dtype)
    found = _checked(POOLS.maxima.default, x, [3], [3], [2], [1, 1], [1])
    wanted = f.max_pool1d(x.float().view(2, 21, 8), 3, 2, 1).view(2, 3, 7, -1)
    assert torch.equal(found, wanted.to(dtype))
