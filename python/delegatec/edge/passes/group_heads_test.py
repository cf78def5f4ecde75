# SPDX-License-Identifier: Apache-2.0
"""Repeated heads become groups; heads in another order, or of several tensors, are unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge import print_program
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.group_heads import group_heads
from delegatec.edge.passes.movement.merge import merge_movements
from delegatec.edge.passes.remove_identities import remove_identities
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
attention = aten.scaled_dot_product_attention.default
attend: Any = torch.nn.functional.scaled_dot_product_attention


def _noise(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


Q, K, V = _noise(2, 6, 4, 8), _noise(2, 3, 5, 8, seed=1), _noise(2, 3, 5, 8, seed=2)


def _repeat(x: torch.Tensor, count: int = 2) -> torch.Tensor:
    *outer, rows, columns = x.shape
    repeated = x.unsqueeze(-3).expand(*outer, count, rows, columns)
    return repeated.reshape(*outer[:-1], outer[-1] * count, rows, columns)


def _alternate(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(1).expand(2, 2, 3, 5, 8).reshape(2, 6, 5, 8)


def _is_grouped(function: Callable[..., Any], *inputs: torch.Tensor) -> bool:
    passes = (remove_identities, group_heads, merge_movements, eliminate_dead_code)
    program = edge(function, *inputs, passes=passes, preserve=[attention])
    assert_computes(program, function(*inputs), *inputs)
    (node,) = (each for each in program.graph.nodes if each.target is attention)
    grouped = bool(node.kwargs.get("enable_gqa"))
    assert grouped == (aten.expand.default not in called(program)), print_program(program)
    return grouped


@pytest.mark.parametrize("outer", [(), (0,), (slice(None), None)], ids=["rank 4", "rank 3", "rank 5"])
def test_repeated_heads_are_groups(outer: Any) -> None:
    inputs = [each[outer] for each in (Q, K, V)]
    assert _is_grouped(lambda q, k, v: attend(q, _repeat(k), _repeat(v), scale=0.3), *inputs)
    assert _is_grouped(lambda q, k, v: attend(q, _repeat(k), _repeat(v), is_causal=True), *inputs)


def test_repeat_interleave() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
        return result

    assert _is_grouped(function, Q, K, V)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda q, k, v: attend(q, _alternate(k), _alternate(v)), id="another order"),
        pytest.param(lambda q, k, v: attend(q, _repeat(k), torch.cat([v, v], 1)), id="other values"),
        pytest.param(lambda q, k, v: attend(q, _repeat(k), _repeat(v[:, :1], 6)), id="groups of two sizes"),
    ],
)
def test_other_heads_stay(function: Callable[..., Any]) -> None:
    assert not _is_grouped(function, Q, K, V)
