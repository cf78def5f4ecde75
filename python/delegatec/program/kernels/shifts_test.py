# SPDX-License-Identifier: Apache-2.0
"""Distances of shifts are within the bits of the dtype."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.program.kernels.legalize import legalize

aten = torch.ops.aten
X = torch.tensor([7, -5, 100, 3, -1, 0, 77])


def _called(function: Any, *inputs: torch.Tensor) -> list[Any]:
    program = edge(function, *inputs, passes=(), preserve=KERNEL_COMPOSITES)
    legalize(program)
    assert_computes(program, function(*inputs), *inputs)
    return called(program)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_constant_distances(dtype: torch.dtype) -> None:
    x = X.to(dtype)
    assert _called(lambda x: x << 3, x) == [aten.bitwise_left_shift.Tensor_Scalar]
    assert _called(lambda x: (x << 70) + x, x).count(aten.bitwise_left_shift.Tensor_Scalar) == 0
    assert aten.bitwise_right_shift.Tensor_Scalar not in _called(lambda x: (x >> -2) + x, x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_tensors_of_distances(dtype: torch.dtype) -> None:
    x, by = X.to(dtype), torch.tensor([1, 7, 8, 31, -1, 63, 0]).to(dtype)
    assert aten.where.self in _called(lambda x, y: x << y, x, by)
    assert aten.where.self in _called(lambda x, y: torch.bitwise_right_shift(-5, y) + x, x, by)
    assert aten.where.self not in _called(lambda x, y: x >> y.clamp(0, 6), x, by)
