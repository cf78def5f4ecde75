# SPDX-License-Identifier: Apache-2.0
"""Scopes without an effect are inlined, others are traced or rejected."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from delegatec.diagnostics import DelegatecError
from delegatec.edge.scopes import inline_scopes
from delegatec.edge.testing import Function, assert_computes, called, edge, export

aten = torch.ops.aten
X = torch.arange(12.0).view(3, 4) - 5


class Scoped(nn.Module):
    """A layer in a scope, and a branch after it."""

    def __init__(self, scope: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self.scope, self.layer = scope, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with self.scope():
            y = self.layer(x) * 2
        return y + 1, torch.cond(y.sum() > 0, lambda y: y * 2, lambda y: y - 1, (y,))


OFF = {
    "no_grad": torch.no_grad,
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
}


@pytest.mark.parametrize("name", OFF)
def test_scopes_that_change_nothing_are_inlined(name: str) -> None:
    torch.manual_seed(0)
    model = Scoped(OFF[name])
    exported = export(model, X)
    assert any("wrap_with" in str(node.target) for node in exported.graph.nodes)
    assert inline_scopes(exported.graph_module)
    assert not any("wrap_with" in str(node.target) for node in exported.graph.nodes)
    program = edge(model, X)
    assert len(program.bodies) == 2
    with torch.no_grad():
        for x in (X, -X):
            assert_computes(program, model(x), x)


def test_a_scope_that_changes_dtypes_is_traced() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.transpose(0, 1)
        return y.float()

    program = edge(function, X)
    assert program.graph.output_node().args[0][0].meta["val"].dtype is torch.float32  # type: ignore[index, union-attr]
    assert called(program).count(aten._to_copy.default) >= 2
    assert_computes(program, function(X), X)


def test_vmap_is_traced() -> None:
    def function(x: Tensor) -> Any:
        return torch.vmap(lambda row: row.softmax(0) * row.sum())(x)

    program = edge(function, X)
    assert_computes(program, function(X), X)


def test_a_body_that_writes_to_outside_values_is_rejected() -> None:
    def model(self: Any, x: Tensor) -> Any:
        def true(x: Tensor) -> Tensor:
            self.count.add_(1)
            return x + self.count

        return torch.cond(x.sum() > 0, true, lambda x: x + 2, (x,))

    # torch supports writes in bodies only without gradients
    with pytest.raises(DelegatecError) as caught, torch.no_grad():
        edge(Function(model, count=torch.zeros(4)), X)
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC208" and "b_count" in problem.message and problem.location is not None
