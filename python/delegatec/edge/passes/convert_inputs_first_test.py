# SPDX-License-Identifier: Apache-2.0
"""Conversions of bytes move to the inputs; others stay where they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.edge.passes.convert_inputs_first import convert_inputs_first
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
PIXELS = (torch.arange(2 * 3 * 4 * 5) % 256).view(2, 3, 4, 5).to(torch.uint8)
COPY, PERMUTE, VIEW = aten._to_copy.default, aten.permute.default, aten.view.default


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x.permute(0, 3, 1, 2).float(), [COPY, PERMUTE]),
        (lambda x: x.permute(0, 3, 1, 2).half().flatten(1), [COPY, PERMUTE, VIEW]),
        (lambda x: x.view(-1, 20).t().to(torch.float64), [COPY, VIEW, PERMUTE]),
    ],
)
@pytest.mark.parametrize("sizes", [None, ({0: Dim("batch", max=9)},)])
def test_moves_follow(function: Callable[[Tensor], Tensor], wanted: list[object], sizes: object) -> None:
    program = edge(function, PIXELS, dynamic_shapes=sizes)
    assert convert_inputs_first(program)
    verify(program)
    assert [each for each in called(program) if each in (COPY, PERMUTE, VIEW)] == wanted
    assert_computes(program, function(PIXELS), PIXELS)
    assert not convert_inputs_first(program)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.float().permute(0, 3, 1, 2),
        lambda x: x.permute(0, 3, 1, 2).int(),
        lambda x: (x.permute(0, 3, 1, 2).float(), x.permute(0, 3, 1, 2)),
        lambda x: (x + 1).permute(0, 3, 1, 2).float(),
        lambda x: x.int().permute(0, 3, 1, 2).float(),
    ],
)
def test_others_stay(function: Callable[[Tensor], Tensor]) -> None:
    program = edge(function, PIXELS)
    before = called(program)
    assert not convert_inputs_first(program)
    assert called(program) == before
