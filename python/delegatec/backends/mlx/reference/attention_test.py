# SPDX-License-Identifier: Apache-2.0
"""Attention to the cache that the runtime owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from delegatec.backends.common.testing import floats
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.reference.executor import MlxReferenceExecutor
from delegatec.backends.mlx.testing.nodes import blob_of, node_of_inputs, run_node
from delegatec.diagnostics import DelegatecError

_OPERANDS: Final = ["q", "k", "v", "position"]


def _call(first: int, count: int, seed: int = 0) -> list[Tensor]:
    """Returns queries of four heads, keys and values of two, and positions."""
    heads = floats(8, count, 6, seed=seed)[None]
    return [heads[:, :4], heads[:, 4:6], heads[:, 6:], torch.arange(first, first + count)[:, None]]


def _executor(inputs: Sequence[Tensor], **fields: Any) -> MlxReferenceExecutor:
    node = node_of_inputs("UpdateAndAttend", _OPERANDS, 4, **{"layer": 0, "scale": 0.5, **fields})
    return MlxReferenceExecutor(read_blob(memoryview(blob_of([[node]], inputs))))


def test_rows_are_kept() -> None:
    """Rows that were never stored are zeros; later rows stay, and are not read."""
    calls = [_call(first, count, first + count) for first, count in ((2, 3), (5, 1), (3, 2), (0, 1), (5, 2))]
    executor = _executor(calls[0])
    keys, values = torch.zeros(1, 2, 8, 6), torch.zeros(1, 2, 8, 6)
    for q, k, v, positions in calls:
        rows = positions[:, 0]
        keys[:, :, rows], values[:, :, rows] = k, v
        mask = torch.arange(8) <= positions
        wanted = functional.scaled_dot_product_attention(q, keys, values, mask, scale=0.5, enable_gqa=True)
        torch.testing.assert_close(executor([q, k, v, positions])[0], wanted)


def test_a_loaded_program_has_an_empty_cache() -> None:
    inputs = _call(0, 2), _call(1, 1, 5)
    executor = _executor(inputs[0])
    (before,), (after,) = executor(inputs[0]), executor(inputs[1])
    executor.load_named_data({})
    assert not torch.equal(executor(inputs[1])[0], after)
    assert torch.equal(executor(inputs[0])[0], before)
    assert torch.equal(executor(inputs[1])[0], after)


def test_the_dtype_of_the_result() -> None:
    q, k, v, positions = _call(0, 2)
    (result,) = run_node(
        "UpdateAndAttend", _OPERANDS, [q, k, v, positions.int()], layer=3, scale=1.0, dtype=5
    )
    assert result.dtype == torch.float16
    (wide,) = run_node("UpdateAndAttend", _OPERANDS, [q, k.half(), v.half(), positions], layer=0, scale=1.0)
    torch.testing.assert_close(wide, result.float(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("change", "fields", "message"),
    [
        ({}, {"layer": None}, "without a layer or a scale"),
        ({}, {"scale": None}, "without a layer or a scale"),
        ({}, {"layer": -1}, "layer -1"),
        ({3: torch.tensor([0.0])}, {}, "positions of torch.float32"),
        ({3: torch.tensor([-4])}, {}, "the position -4"),
        ({3: torch.tensor([2**40])}, {}, "has more than"),
        ({1: floats(1, 2, 3, 6)}, {}, "rows of a cache"),
        ({1: floats(2, 2, 2, 6), 2: floats(2, 2, 2, 6)}, {}, "rows of a cache"),
        ({1: floats(1, 3, 2, 6), 2: floats(1, 3, 2, 6)}, {}, "attention of shapes"),
        ({1: floats(1, 2, 2, 5), 2: floats(1, 2, 2, 5)}, {}, "UpdateAndAttend: "),
    ],
)
def test_refused_nodes(change: dict[int, Tensor], fields: dict[str, Any], message: str) -> None:
    inputs = [change.get(index, each) for index, each in enumerate(_call(0, 2))]
    with pytest.raises(DelegatecError, match=message) as error:
        _executor(inputs, **fields)(inputs)
    assert [each.code for each in error.value.diagnostics] == ["DC408"]


def test_rows_of_other_sizes_are_refused() -> None:
    executor = _executor(_call(0, 2))
    executor(_call(0, 2))
    q, k, v, positions = _call(2, 1)
    with pytest.raises(DelegatecError, match=r"rows of shape \[1, 1, 1, 6\] for a cache of shape"):
        executor([q, k[:, :1], v[:, :1], positions])
