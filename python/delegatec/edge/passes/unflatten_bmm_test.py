# SPDX-License-Identifier: Apache-2.0
"""Products keep the batch dimensions that a view restores after them; others are unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.edge.passes.unflatten_bmm import unflatten_bmm
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
_SIZES = {0: Dim("batch", min=2, max=9), 2: Dim("length", min=2, max=9)}


class _Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(x, y)


def _program(function: Callable[..., Any], sizes: Any = _SIZES) -> tuple[EdgeProgram, bool]:
    """Returns a program after the pass, which computes the same, and whether the pass changed it."""

    def inputs(batch: int, length: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        return tuple(torch.randn(batch, 3, length, 4, generator=generator) for _ in range(2))

    program = edge(_Call(function), *inputs(3, 5), dynamic_shapes=(sizes, sizes) if sizes else None)
    changed = unflatten_bmm(program)
    verify(program)
    for outer in ((3, 5), (9, 2)) if sizes is _SIZES else ((3, 5),):
        assert_computes(program, function(*inputs(*outer)), *inputs(*outer))
    return program, changed


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x @ y.mT).softmax(-1),
        lambda x, y: ((x @ y.mT).softmax(-1) @ y).transpose(1, 2).flatten(2),
        lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y).softmax(-1),
        lambda x, y: torch.einsum("bhij,bhjd->bhid", (x @ y.mT).softmax(-1), y),
        # only operands have two sizes that vary
        lambda x, y: x.mT @ y,
        # one of the operands is copied
        lambda x, y: x @ torch.ones(3, 4, 5),
        lambda x, y: torch.ones(1, 3, 5, 4) @ y.mT,
    ],
)
def test_batches_stay_apart(function: Callable[..., Any]) -> None:
    program, changed = _program(function)
    assert changed and not {aten.bmm.default, aten.expand.default} & {*called(program)}
    assert aten.matmul.default in called(program)


def test_products_of_copies_are_copied() -> None:
    program, changed = _program(lambda x, y: x[:1].expand_as(y) @ torch.ones(3, 4, 5))
    assert changed
    (product,) = program.graph.find_nodes(op="call_function", target=aten.matmul.default)
    assert product.meta["val"].shape[0] == 1


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        # all sizes are known, and the batch alone varies
        (lambda x, y: x @ y.mT, None),
        (lambda x, y: x @ y.mT, {0: _SIZES[0]}),
        # the rows are used
        (lambda x, y: torch.bmm(x.flatten(0, 1), y.flatten(0, 1).mT), _SIZES),
        # integers
        (lambda x, y: x.to(torch.int64) @ y.to(torch.int64).mT, _SIZES),
        # the view splits rows, too
        (lambda x, y: (x.flatten(0, 1) @ torch.ones(3, 4, 6)[:1]).view(x.shape[0], 3, -1, 2, 3), _SIZES),
        # products of whole batches
        (lambda x, y: x[:, 0] @ y[:, 0].mT, _SIZES),
    ],
)
def test_other_products_stay(function: Callable[..., Any], sizes: Any) -> None:
    assert not _program(function, sizes)[1]
