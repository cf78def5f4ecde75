# SPDX-License-Identifier: Apache-2.0
"""Ranges hold for the values that eager computes, and are as narrow as look-ups need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.backends.mps.building.ranges import Ranges
from delegatec.edge import to_edge

X = torch.tensor([[3, -4, 0], [7, 2, -9]])
TABLE = torch.tensor([4, 1, 6])
WHOLE = (torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max)


class Reads(torch.nn.Module):
    """A function of an input and of a constant, [4, 1, 6]."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("table", TABLE)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.table)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(lambda x, t: x + t, WHOLE, id="an input"),
        pytest.param(lambda x, t: x[:, :2].clamp(-1, 5).reshape(-1), (-1, 5), id="clamp"),
        pytest.param(lambda x, t: x.clamp(min=0), (0, WHOLE[1]), id="clamp at one end"),
        pytest.param(lambda x, t: x.clamp(0, 2) + t, (1, 8), id="constant"),
        pytest.param(lambda x, t: 3 - x.clamp(0, 2) * t, (-9, 3), id="product"),
        pytest.param(lambda x, t: x.clamp(-1, 2) - t, (-7, 1), id="difference"),
        pytest.param(lambda x, t: x.float().remainder(5).long(), (0, 5), id="remainder"),
        pytest.param(lambda x, t: torch.cat([x.clamp(0, 1)[0], t]), (0, 6), id="cat"),
        pytest.param(lambda x, t: torch.where(x > 0, t, -1), (-1, 6), id="where"),
        pytest.param(lambda x, t: (x > 0).long(), (0, 1), id="bool"),
        pytest.param(lambda x, t: (x > 0).long().sum(-1), (0, 6), id="sum"),
        pytest.param(lambda x, t: (x > 0).long().cumsum(-1) - 1, (-1, 5), id="cumsum"),
        pytest.param(lambda x, t: x.float().argmax(-1), (0, 2), id="argmax"),
        pytest.param(lambda x, t: x.topk(2).indices, (0, 2), id="indices of topk"),
        pytest.param(lambda x, t: x.clamp(0, 4).topk(2).values, (0, 4), id="values of topk"),
        pytest.param(lambda x, t: (x.float().clamp(-1.5, 2.5)).long(), (-1, 2), id="conversion"),
        pytest.param(lambda x, t: x.clamp(0, 2**62) * t, WHOLE, id="overflow"),
        pytest.param(lambda x, t: x.char() * 2, (-128, 127), id="int8"),
    ],
)
def test_range(function: Callable[..., Any], expected: tuple[float, float]) -> None:
    module = Reads(function)
    program = to_edge(torch.export.export(module, (X,)))
    (result,) = program.output_node().all_input_nodes
    constants = {
        node: program.constants[node.name]
        for node in program.placeholders()
        if node.name in program.constants
    }
    low, high = Ranges(constants).of(result)
    assert (low, high) == expected
    values = module(X)
    assert low <= values.min().item() and values.max().item() <= high


def test_dynamic_sizes_are_not_counted() -> None:
    class Counts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x > 0).long().sum(0)

    dynamic = ({0: torch.export.Dim("rows", min=2, max=9)},)
    program = to_edge(torch.export.export(Counts(), (X,), dynamic_shapes=dynamic))
    (result,) = program.output_node().all_input_nodes
    assert Ranges({}).of(result) == WHOLE
