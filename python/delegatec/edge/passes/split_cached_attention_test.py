# SPDX-License-Identifier: Apache-2.0
"""Attention to a cache does not depend on the writes to it, and computes the same."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from delegatec.edge.passes.split_cached_attention import split_cached_attention
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
attention = aten.scaled_dot_product_attention.default
attend: Any = torch.nn.functional.scaled_dot_product_attention


def _noise(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


_CACHES = _noise(2, 3, 7, 8), _noise(2, 3, 7, 8, seed=1)


def _operands(rows: int, heads: int = 3) -> tuple[torch.Tensor, ...]:
    new = (_noise(2, 3, rows, 8, seed=seed) for seed in (2, 3))
    return _noise(2, heads, rows, 8, seed=4), *_CACHES, *new


def _step(
    query: Any, keys: Any, values: Any, key: Any, value: Any, at: Any, *mask: Any, **options: Any
) -> Any:
    keys, values = keys.clone(), values.clone()
    keys[:, :, at] = key
    values[:, :, at] = value
    return attend(query, keys, values, *mask, **options), keys, values


def _check(*inputs: Any, is_split: bool = True, **options: Any) -> None:
    def function(*args: Any) -> Any:
        return _step(*args, **options)

    program = edge(function, *inputs, passes=[split_cached_attention], preserve=[attention])
    assert (attention not in called(program)) == is_split
    assert_computes(program, function(*inputs), *inputs)


@pytest.mark.parametrize("at", [[2], [-1], [3, 0, 6]])
def test_new_rows(at: list[int]) -> None:
    _check(*_operands(len(at)), torch.tensor(at))


def test_heads_that_share_keys() -> None:
    _check(*_operands(2, heads=6), torch.tensor([1, 4]), enable_gqa=True)


def test_masks() -> None:
    at = torch.tensor([1, 4])
    kept = torch.arange(7) <= at[:, None]
    _check(*_operands(2), at, kept)
    _check(*_operands(2), at, kept[None, None] & False)
    _check(*_operands(2), at, torch.where(kept, 0.5, -math.inf))


def test_rows_without_sizes_of_one() -> None:
    query, keys, values, key, value = (each[:1] for each in _operands(2))
    _check(query, keys, values, key[0], value[0], torch.tensor([1, 4]))


def test_other_attention_stays() -> None:
    _check(*_operands(7), torch.arange(7), is_split=False, is_causal=True)
