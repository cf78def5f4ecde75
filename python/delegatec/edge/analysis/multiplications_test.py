# SPDX-License-Identifier: Apache-2.0
"""Counts of multiplications, next to sums that are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim, export

from delegatec.edge.analysis.multiplications import multiplications_of
from delegatec.edge.testing import Function

f = torch.nn.functional
X = torch.ones(2, 6, 8)
IMAGE = torch.ones(2, 4, 9, 9)
ATTENTION = (torch.ones(2, 3, 5, 8), torch.ones(2, 3, 7, 8), torch.ones(2, 3, 7, 4))

# function, inputs, multiplications
COUNTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], int]] = {
    "linear": (f.linear, (X, torch.ones(5, 8)), 2 * 6 * 5 * 8),
    "matmul": (torch.matmul, (X, torch.ones(8, 3)), 2 * 6 * 3 * 8),
    "bmm": (torch.bmm, (X, torch.ones(2, 8, 3)), 2 * 6 * 3 * 8),
    "addmm": (torch.addmm, (torch.ones(3), X[0], torch.ones(8, 3)), 6 * 3 * 8),
    "baddbmm": (torch.baddbmm, (torch.ones(2, 6, 3), X, torch.ones(2, 8, 3)), 2 * 6 * 3 * 8),
    # 7 x 7 results of 5 channels, of 4 x 3 x 3 products
    "conv": (f.conv2d, (IMAGE, torch.ones(5, 4, 3, 3)), 2 * 5 * 7 * 7 * 4 * 3 * 3),
    "conv of groups": (
        lambda x, w: f.conv2d(x, w, groups=4),
        (IMAGE, torch.ones(4, 1, 3, 3)),
        2 * 4 * 7 * 7 * 3 * 3,
    ),
    # each input is multiplied by 5 x 3 x 3 weights
    "transposed conv": (
        f.conv_transpose2d,
        (IMAGE, torch.ones(4, 5, 3, 3)),
        2 * 4 * 9 * 9 * 5 * 3 * 3,
    ),
    "convolution": (
        lambda x, w: torch.convolution(x, w, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1),
        (IMAGE, torch.ones(4, 5, 3, 3)),
        2 * 4 * 9 * 9 * 5 * 3 * 3,
    ),
    # scores of 5 x 7 by 8 products, and 5 x 4 results of 7 products
    "attention": (f.scaled_dot_product_attention, ATTENTION, 2 * 3 * (5 * 7 * 8 + 5 * 4 * 7)),
    "neither layer nor product": (torch.mul, (X, X), 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_multiplications(name: str) -> None:
    function, inputs, expected = COUNTS[name]
    program = export(Function(function), inputs)
    assert sum(map(multiplications_of, program.graph.nodes)) == expected


def test_of_dynamic_sizes_the_example_counts() -> None:
    shapes = ({0: Dim("rows", min=2, max=50)}, None)
    program = export(Function(f.linear), (torch.ones(7, 8), torch.ones(5, 8)), dynamic_shapes=(shapes,))
    assert sum(map(multiplications_of, program.graph.nodes)) == 7 * 5 * 8
