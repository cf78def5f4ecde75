# SPDX-License-Identifier: Apache-2.0
"""Recorded traces are those of `make_fx`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.nn import functional

from delegatec.edge.legalize import templates
from delegatec.edge.legalize.recorder import NotRecordedError, record
from delegatec.edge.testing import edge

aten = torch.ops.aten

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "passed through": lambda x, y: (y, x + y),
    "several results": lambda x, y: torch.var_mean(x @ y.mT, 1),
    "composite": lambda x, y: functional.pairwise_distance(x, y),
    "factories": lambda x, y: x + torch.arange(4) + torch.full((4,), 2.0),
    "norm": lambda x, y: functional.layer_norm(x, (4,), y[0]),
}


def _lines(graph: Graph) -> list[Any]:
    graph.eliminate_dead_code()
    names = {node: index for index, node in enumerate(graph.nodes)}
    return [
        (
            node.op,
            node.op == "call_function" and node.target,
            map_arg((node.args, dict(node.kwargs)), names.get),
        )
        for node in graph.nodes
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traces_are_those_of_torch(name: str) -> None:
    function, table = FUNCTIONS[name], templates._table_for(aten.lerp.Scalar)
    with FakeTensorMode() as mode:
        operands = torch.empty(3, 4), torch.empty(3, 4)
        expected = make_fx(function, decomposition_table=table)(*operands).graph
        recorded = record(function, operands, mode, table)
    assert _lines(recorded) == _lines(expected)


def test_writes_to_results_are_calls() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x.neg()
        before = y * 2
        return before, y.add_(1).mul_(x), y + 3

    with FakeTensorMode() as mode:
        graph = record(function, [torch.empty(3, 4)], mode, {})
    names = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    assert names == [
        f"aten.{name}" for name in ("neg.default", "mul.Tensor", "add.Tensor", "mul.Tensor", "add.Tensor")
    ]
    x = torch.rand(3, 4)
    torch.testing.assert_close(tuple(GraphModule({}, graph)(x)), function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.tensor([1.0]),
        lambda x: x.add_(1),
        lambda x: x.neg().view(12).add_(1),
        lambda x: (y := x.neg(), y[0], y.add_(1)),
        lambda x: (y := x.neg(), y.detach(), y.add_(1)),
        lambda x: x[0, 0].item() + x,
    ],
    ids=["constant", "write", "write to view", "write under view", "write under alias", "value"],
)
def test_other_traces_are_left_to_torch(function: Callable[..., Any]) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, pytest.raises(NotRecordedError):
        record(function, [torch.empty(3, 4)], mode, {})


def test_decompositions_of_static_shapes_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "make_fx", None)
    program = edge(
        lambda x: [
            functional.group_norm(x, 2),
            torch.lerp(x, x + 1, 0.5),
            x.std(1),
            x.mT,
            x.tile(2),
            x @ x.mT,
        ],
        torch.rand(2, 4, 4),
    )
    assert len(program.graph.nodes) >= 15
