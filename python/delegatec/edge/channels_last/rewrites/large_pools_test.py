# SPDX-License-Identifier: Apache-2.0
"""Pools become smaller ones with the same results, for a target with small windows only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites import large_pools
from delegatec.edge.legalize.engine import legalize
from delegatec.edge.legalize.rule import Refusal, Rule
from delegatec.edge.testing import assert_computes, assert_rewrites, call_program
from delegatec.edge.verifier import verify

_POOL: Final = NHWC.max_pool2d.default
_MOST: Final = 3

# Size, kernel, stride and padding along a dimension: the windows divide the padded size.
_LINES: Final = [
    pytest.param((16, 4, 4, 0, 0), id="blocks"),
    pytest.param((18, 2, 4, 0, 0), id="gaps"),
    pytest.param((18, 7, 4, 1, 0), id="a part of a block"),
    pytest.param((19, 9, 4, 2, 4), id="two blocks and a part"),
    pytest.param((24, 12, 4, 0, 0), id="three blocks"),
    pytest.param((23, 11, 1, 5, 3), id="a large kernel"),
    pytest.param((23, 11, 2, 5, 3), id="a large kernel with a stride"),
    pytest.param((7, 7, 5, 0, 0), id="one window"),
]


class _SmallPools:
    """A target with maxima of small windows along one dimension."""

    full = True

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        if node.target is not _POOL:
            return None
        bound = bind(node)
        is_small = max(bound["kernel"]) <= _MOST >= max(bound["stride"]) and 1 in bound["kernel"]
        return None if is_small else Refusal("pool", "it is large")

    def rules(self, node: Node) -> Sequence[Rule]:
        return [each for each in large_pools.REWRITES if node.target is _POOL]


def _call(line: tuple[int, ...], dim: int, dtype: torch.dtype) -> tuple[object, ...]:
    size, kernel, stride, before, after = line
    sizes, kernels, strides, padding = [2, 5, 6, 3], [1, 2], [1, 2], [0, 0, 1, 1]
    if dim == 2:
        sizes, kernels, strides, padding = [2, 6, 5, 3], [2, 1], [2, 1], [1, 1, 0, 0]
    sizes[dim], kernels[dim - 1], strides[dim - 1] = size, kernel, stride
    padding[2 * dim - 2 : 2 * dim] = before, after
    # all are negative: a zero of the padding would be a maximum
    x = -1 - torch.rand(sizes, generator=torch.Generator().manual_seed(size)) * 120
    return (x.to(dtype), kernels, strides, padding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8], ids=str)
@pytest.mark.parametrize("dim", [1, 2], ids=["rows", "columns"])
@pytest.mark.parametrize("line", _LINES)
def test_small_pools(line: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    program, wanted, tensors = call_program(_POOL, _call(line, dim, dtype), preserve=[_POOL])
    assert legalize(program, _SmallPools()) == []
    verify(program)
    assert_computes(program, wanted, *tensors, atol=0, rtol=0)


def test_each_rule_alone() -> None:
    calls = [(*call[:1], [4, 1], [4, 1], [0, 0, 0, 0]) for call in [_call((16, 4, 4, 0, 0), 1, torch.int8)]]
    calls.append(_call((16, 4, 4, 0, 0), 1, torch.int8))
    assert_rewrites(large_pools.REWRITES, calls, torch.float32, 0)
