# SPDX-License-Identifier: Apache-2.0
"""Attention: right for every mask, without torch's guard, with a factor per row only where one is needed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from delegatec.edge import EdgeProgram, print_program
from delegatec.edge.testing import Function, assert_computes, called, edge

aten = torch.ops.aten
attend: Any = torch.nn.functional.scaled_dot_product_attention

GUARD = {aten.any.dim, aten.logical_not.default, aten.full_like.default, aten.eq.Scalar}


def _noise(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


Q, K, V = _noise(2, 3, 4, 8), _noise(2, 3, 5, 8, seed=1), _noise(2, 3, 5, 6, seed=2)
KEEP = torch.tensor([[True, False, True, True, False]] * 3 + [[False] * 5])  # the last row keeps nothing
HARD = torch.zeros(4, 5).masked_fill(~KEEP, -torch.inf)


def _rank(x: torch.Tensor) -> str:
    return "x".join(map(str, x.shape))


def _attend(*inputs: torch.Tensor, **options: Any) -> EdgeProgram:
    """Returns the program of one attention of inputs; the fourth one is a mask."""
    program = edge(lambda *x: attend(*x, **options), *inputs)
    assert_computes(program, attend(*inputs, **options), *inputs)
    assert aten.scaled_dot_product_attention.default not in called(program)
    assert not GUARD & set(called(program)), print_program(program)
    return program


def _has_row_factor(program: EdgeProgram) -> bool:
    return aten.mean.dim in called(program)


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param((Q, K, V), id="different lengths and widths"),
        pytest.param((Q[0], K[0], V[0]), id="rank 3"),
        pytest.param((Q[0, 0], K[0, 0], V[0, 0]), id="rank 2"),
        pytest.param((Q[None], K[None], V[None]), id="rank 5"),
        pytest.param((Q, K[:1], V[:, :1]), id="broadcast"),
        pytest.param((Q.double(), K.double(), V.double()), id="float64"),
    ],
)
def test_without_mask(inputs: tuple[torch.Tensor, ...]) -> None:
    assert not _has_row_factor(_attend(*inputs))


@pytest.mark.parametrize("options", [{"scale": 0.3}, {"is_causal": True}, {"is_causal": True, "scale": 2.0}])
def test_scale_and_causal_mask(options: dict[str, Any]) -> None:
    assert not _has_row_factor(_attend(Q, K, V, **options))
    assert not _has_row_factor(_attend(K, Q, Q, **options))


def test_causal_masks_are_computed_at_build_time() -> None:
    program = _attend(Q, K, V, is_causal=True)
    assert aten.arange.start_step not in called(program) and aten.ge.Tensor not in called(program)


@pytest.mark.parametrize("is_causal", [False, True])
def test_grouped_queries(is_causal: bool) -> None:
    _attend(_noise(2, 6, 4, 8), K[:, :2], V[:, :2], enable_gqa=True, is_causal=is_causal)
    _attend(_noise(6, 4, 8), K[0], V[0], enable_gqa=True, is_causal=is_causal)


@pytest.mark.parametrize(
    "mask", [KEEP, KEEP[None, None], KEEP[:1], KEEP.expand(2, 3, 4, 5)], ids=lambda m: str(m.shape)
)
def test_bool_mask_as_input_needs_a_row_factor(mask: torch.Tensor) -> None:
    program = _attend(Q, K, V, mask)
    assert _has_row_factor(program)
    nothing = torch.zeros_like(mask)
    assert_computes(program, attend(Q, K, V, nothing), Q, K, V, nothing)


@pytest.mark.parametrize("mask", [HARD, _noise(4, 5), HARD.clamp(min=-1e4), HARD[None, 3:]], ids=_rank)
def test_float_mask_as_input_needs_a_row_factor(mask: torch.Tensor) -> None:
    assert _has_row_factor(_attend(Q, K, V, mask))


@pytest.mark.parametrize(
    ("mask", "factor"),
    [
        pytest.param(_noise(4, 5), False, id="finite"),
        pytest.param(HARD.clamp(min=torch.finfo(torch.float32).min), False, id="lowest finite number"),
        pytest.param(HARD, True, id="a row of minus infinity"),
        pytest.param(KEEP, True, id="bool"),
    ],
)
def test_constant_mask(mask: torch.Tensor, factor: bool) -> None:
    def model(self: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return attend(q, k, v, attn_mask=self.mask)

    program = edge(Function(model, mask=mask), Q, K, V)
    assert_computes(program, attend(Q, K, V, mask), Q, K, V)
    # the factor of a constant mask is folded: one product remains
    assert not _has_row_factor(program)
    products = [node for node in program.graph.nodes if node.target is aten.mul.Tensor]
    assert bool(products) == factor
    assert not GUARD & set(called(program))


def test_mask_that_the_program_writes_to_is_not_constant() -> None:
    def model(self: Any, q: torch.Tensor) -> Any:
        result = attend(q, q, q, attn_mask=self.mask)
        self.mask.fill_(-torch.inf)
        return result

    assert _has_row_factor(edge(Function(model, mask=torch.zeros(4, 4)), Q))


def _additive(keep: torch.Tensor) -> torch.Tensor:
    return (1.0 - keep[:, None, None].to(torch.float32)) * torch.finfo(torch.float32).min


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_additive, id="(1 - mask) * lowest"),
        pytest.param(lambda keep: torch.where(keep, 0.0, -1e9)[:, None, None], id="where"),
        pytest.param(
            lambda keep: torch.zeros(2, 1, 1, 5).masked_fill(~keep[:, None, None], -1e9), id="masked_fill"
        ),
    ],
)
def test_masks_that_are_finite_by_construction_need_no_row_factor(make: Any) -> None:
    keep = torch.tensor([[True] * 3 + [False] * 2, [False] * 5])

    def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> Any:
        return attend(q, k, v, attn_mask=make(keep))

    program = edge(model, Q, K, V, keep)
    assert_computes(program, model(Q, K, V, keep), Q, K, V, keep)
    assert not _has_row_factor(program)
    assert not GUARD & set(called(program))


class _Layers(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + attend(layer(x), x, x, attn_mask=keep)
        return x


def test_layers_share_one_row_factor() -> None:
    torch.manual_seed(0)
    model, x = _Layers(4), _noise(2, 4, 8)
    keep = torch.tensor([[True] * 4, [True, False, False, True], [False] * 4, [False, True] * 2])
    program = edge(model, x, keep)
    assert_computes(program, model(x, keep), x, keep, atol=1e-5)
    operators = called(program)
    assert operators.count(aten._softmax.default) == 4
    assert operators.count(aten.mean.dim) == 1 and operators.count(aten.gt.Scalar) == 1


def test_operators_of_the_decomposition() -> None:
    program = edge(lambda q, keep: attend(q, q, q, attn_mask=keep), Q[0], KEEP[:, :4])
    assert [str(operator) for operator in called(program)] == [
        *("aten.mul.Scalar", "aten.permute.default", "aten.bmm.default", "aten.where.self"),
        *("aten._to_copy.default", "aten.mean.dim", "aten.gt.Scalar", "aten._to_copy.default"),
        *("aten._softmax.default", "aten.bmm.default", "aten.mul.Tensor"),
    ]
