# SPDX-License-Identifier: Apache-2.0
"""Empty operands of concatenations are removed; a result keeps its dtype and shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.passes.empty_operands import remove_empty_operands
from delegatec.edge.testing import assert_computes, edge

aten = torch.ops.aten
X = torch.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        pytest.param(lambda x: torch.cat([x[..., :0], x, x * 2], -1), 2, id="of the same rank"),
        pytest.param(lambda x: torch.cat([torch.empty(0), x, x], 1), 2, id="of rank 1"),
        pytest.param(lambda x: torch.cat([x * 2, x[:, 3:]], 1), 0, id="one is left"),
        pytest.param(lambda x: torch.cat([x[..., :0].double(), x], -1), 0, id="one of another dtype is left"),
        pytest.param(lambda x: torch.cat([x[:0].double(), x, x]), 3, id="the dtype is that of the empty one"),
    ],
)
def test_empty_operands_are_removed(function: Callable[..., Any], operands: int) -> None:
    program = edge(function, X, passes=(remove_empty_operands,))
    calls = [node for node in program.graph.nodes if node.target is aten.cat.default]
    assert [len(node.args[0]) for node in calls] == ([operands] if operands else [])
    assert_computes(program, function(X), X)
