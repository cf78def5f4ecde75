# SPDX-License-Identifier: Apache-2.0
"""Identities are removed; similar calls are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.edge.passes.remove_identities import remove_identities
from delegatec.edge.printer import print_program
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
X = torch.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: aten.dropout.default(x, 0.5, False), id="dropout at inference"),
        pytest.param(lambda x: x.to(torch.float32), id="to the same dtype"),
        pytest.param(lambda x: aten._to_copy.default(x, dtype=torch.float32), id="copy to the same dtype"),
        pytest.param(lambda x: x.clone(), id="clone"),
        pytest.param(lambda x: x.detach(), id="detach"),
        pytest.param(lambda x: x.contiguous(), id="contiguous"),
        pytest.param(lambda x: x.clone(memory_format=torch.contiguous_format), id="clone to a format"),
        pytest.param(lambda x: x.view(2, 3, 4), id="view of the same shape"),
        pytest.param(lambda x: x.expand(2, -1, 4), id="expand to the same shape"),
        pytest.param(lambda x: x.permute(0, -2, 2), id="permute to the same order"),
        pytest.param(lambda x: x[:, 0:3], id="slice of everything"),
        pytest.param(lambda x: x[-7:99], id="slice beyond the ends"),
        pytest.param(lambda x: aten.constant_pad_nd.default(x, [0, 0]), id="pad by nothing"),
        pytest.param(lambda x: x.flip(()), id="flip of no dimension"),
    ],
)
def test_identities_are_removed(function: Callable[..., Any]) -> None:
    program = edge(lambda x: function(x) + 1, X, passes=(remove_identities,))
    assert called(program) == [aten.add.Scalar]
    assert_computes(program, function(X) + 1, X)


@pytest.mark.parametrize(("shape", "dim"), [((), -1), ((), 0), ((3, 1), 1)], ids=str)
def test_flips_of_single_elements_are_removed(shape: tuple[int, ...], dim: int) -> None:
    x = torch.randn(shape)
    program = edge(lambda x: x.flip(dim) + 1, x, passes=(remove_identities,))
    assert called(program) == [aten.add.Scalar]
    assert_computes(program, x + 1, x)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.flip(1), aten.flip.default),
        (lambda x: x.to(torch.float64), aten._to_copy.default),
        (lambda x: x.view(3, 2, 4), aten.view.default),
        (lambda x: x.expand(2, 2, 3, 4), aten.expand.default),
        (lambda x: x.permute(0, 2, 1), aten.permute.default),
        (lambda x: x[:, 1:], aten.slice.Tensor),
        (lambda x: x[:, ::2], aten.slice.Tensor),
        (lambda x: aten.constant_pad_nd.default(x, [0, 1]), aten.constant_pad_nd.default),
        (lambda x: aten.constant_pad_nd.default(x, [-1, 1]), aten.constant_pad_nd.default),
    ],
)
def test_others_stay(function: Callable[..., Any], operator: Any) -> None:
    program = edge(function, X, passes=(remove_identities,))
    assert called(program) == [operator]
    assert_computes(program, function(X), X)


def test_a_dynamic_size_is_not_specialized() -> None:
    program = edge(
        lambda x: (x[:, 0:3], x[: x.shape[0] - 1], x.expand(x.shape[0], 3, 4)),
        X.repeat(2, 1, 1),
        dynamic_shapes=({0: Dim("rows", min=3, max=8)},),
        passes=(remove_identities,),
    )
    assert called(program).count(aten.slice.Tensor) == 1
    assert "s" in print_program(program).splitlines()[0]  # still dynamic
    for size in (3, 8):
        x = torch.ones(size, 3, 4)
        assert_computes(program, (x, x[:-1], x), x)
