# SPDX-License-Identifier: Apache-2.0
"""Extrema of int64 need no bounds of int64: targets that compute in int32 take no constants beyond it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from delegatec.edge.testing import assert_computes, edge


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, index: torch.cummax(x, 1),
        lambda x, index: torch.cummin(x, 1),
        lambda x, index: x.scatter_reduce(1, index, x, "amax", include_self=False),
        lambda x, index: x.scatter_reduce(1, index, x, "amin", include_self=False),
    ],
)
def test_running_and_scattered_extrema(function: Callable[[Tensor, Tensor], Any], dtype: torch.dtype) -> None:
    x = torch.tensor([[5, 3, 9, 9], [-(2**30), 2**30, 0, 1]]).to(dtype)
    index = torch.tensor([[0, 0, 2, 2], [1, 1, 3, 3]])
    program = edge(function, x, index)
    assert_computes(program, function(x, index), x, index)
    scalars = [each for node in program.graph.nodes for each in pytree.tree_leaves(node.args)]
    scalars += [each for value in program.constants.values() for each in value.flatten().tolist()]
    assert all(abs(each) < 2**31 for each in scalars if isinstance(each, int))
