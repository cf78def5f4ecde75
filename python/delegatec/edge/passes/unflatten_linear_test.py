# SPDX-License-Identifier: Apache-2.0
"""Layers keep the rows that a view restores after them; others are unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from delegatec.edge.passes.unflatten_linear import unflatten_linear
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
_SIZES = ({0: Dim("batch", min=2, max=9), 1: Dim("length", min=2, max=9)},)


class _Layer(nn.Module):
    def __init__(self, use: Callable[[nn.Linear, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.use, self.layer = use, nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Any:
        return self.use(self.layer, x)


def _program(use: Callable[[nn.Linear, Tensor], Any], sizes: Any = _SIZES) -> tuple[EdgeProgram, bool]:
    """Returns a program after the pass, which computes the same, and whether the pass changed it."""
    module = _Layer(use).eval()
    program = edge(module, torch.ones(3, 5, 4), dynamic_shapes=sizes, preserve=[aten.linear.default])
    changed = unflatten_linear(program)
    verify(program)
    for batch, length in ((3, 5), (9, 2)) if sizes else ((3, 5),):
        x = torch.randn(batch, length, 4, generator=torch.Generator().manual_seed(0))
        assert_computes(program, module(x), x)
    return program, changed


@pytest.mark.parametrize(
    "use",
    [
        lambda layer, x: layer(x.flatten(0, 1)).view(*x.shape[:2], 6),
        lambda layer, x: layer(x.view(-1, 4)).view(*x.shape[:2], 6).relu(),
    ],
)
def test_rows_stay_apart(use: Callable[[nn.Linear, Tensor], Any]) -> None:
    program, changed = _program(use)
    assert changed and aten.view.default not in called(program)


def test_rows_of_a_weight_that_is_turned() -> None:
    """GPT-2 and CLIP have such layers."""

    def use(layer: nn.Linear, x: Tensor) -> Tensor:
        rows = torch.addmm(layer.bias[:4], x.view(-1, 4), layer.weight[:4])
        return rows.view(*x.shape[:2], 4).relu()

    for function in (use, lambda layer, x: (x @ layer.weight[:4]).relu()):
        program, changed = _program(function)
        assert changed and called(program).count(aten.linear.default) == 1
        assert not {aten.view.default, aten.addmm.default, aten.mm.default} & {*called(program)}


@pytest.mark.parametrize(
    ("use", "sizes"),
    [
        # all sizes are known
        (lambda layer, x: layer(x.flatten(0, 1)).view(*x.shape[:2], 6), None),
        # the weight is computed
        (
            lambda layer, x: torch.addmm(layer.bias[:4], x.view(-1, 4), layer.weight[:4] * x.sum()).view(
                *x.shape[:2], 4
            ),
            _SIZES,
        ),
        # channels are split, too
        (lambda layer, x: layer(x.flatten(0, 1)).view(*x.shape[:2], 2, 3), _SIZES),
        # the rows are used
        (lambda layer, x: (y := layer(x.flatten(0, 1)), y.view(*x.shape[:2], 6)), _SIZES),
        (lambda layer, x: layer(x.flatten(0, 1)), _SIZES),
        # no view before
        (lambda layer, x: layer(x).exp().view(-1, 6), _SIZES),
    ],
)
def test_other_layers_stay(use: Callable[[nn.Linear, Tensor], Any], sizes: Any) -> None:
    assert not _program(use, sizes)[1]
