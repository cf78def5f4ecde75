# SPDX-License-Identifier: Apache-2.0
"""Attention to caches that the delegate keeps, in the reference executor, compared with eager mode."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch

from delegatec.backends.common.testing import Compiled, floats
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.graph import blob_graph
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.caches import LENGTH, Layer, Mask, check, compiled
from delegatec.diagnostics import DelegatecError


def _names(found: Compiled) -> Counter[str]:
    return Counter(operations(found.blobs()[0]))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_causal_masks(dtype: torch.dtype, precision: str) -> None:
    """Rows are written as a slice, and filled rows are read, without a mask."""
    layer = Layer(dtype=dtype)
    found = compiled(layer, precision)
    check(layer, found, 1e-5 if precision == "fp32" and dtype != torch.float16 else 2e-2)
    names = _names(found)
    written = 4 if dtype == torch.int8 else 2
    assert names["SliceUpdate"] == written and names["Item"] == 1
    assert not names.keys() & {"IndexCopy", "LessEqual", "Where", "Arange"}


def test_mirrored_comparison() -> None:
    layer = Layer(lambda rows, positions: positions >= rows)
    found = compiled(layer)
    check(layer, found)
    assert _names(found)["GreaterEqual"] == 0


def test_windows_restrict_rows_further() -> None:
    layer = Layer(lambda rows, positions: (rows <= positions) & (rows > positions - 4))
    found = compiled(layer)
    check(layer, found)
    # keys, values, the mask, and the heads of keys and values
    assert _names(found)["LogicalAnd"] == 1 and _names(found)["Slice"] == 4


@pytest.mark.parametrize(
    "mask",
    [
        lambda rows, positions: rows < positions + 1,
        lambda rows, positions: rows <= positions // 2,
        lambda rows, positions: rows.flip(1) >= LENGTH - 1 - positions,
        lambda rows, positions: rows <= positions * 0 + 11,
    ],
)
def test_other_masks(mask: Mask) -> None:
    layer = Layer(mask)
    found = compiled(layer)
    check(layer, found)
    assert _names(found)["SliceUpdate"] == 2 and _names(found)["Slice"] == 1


def test_rows_that_are_used_again() -> None:
    """Their indices may not be consecutive."""
    layer = Layer(indices=lambda positions: positions % 7)
    found = compiled(layer)
    check(layer, found)
    assert _names(found)["IndexCopy"] == 2


@pytest.mark.parametrize(
    "mask", [torch.le, lambda rows, positions: (rows <= positions) & (rows >= positions - 20)]
)
def test_positions_beyond_the_last_row(mask: Mask) -> None:
    """All rows are filled then."""
    layer = Layer(mask, indices=lambda positions: positions % LENGTH)
    found, eager = compiled(layer), copy.deepcopy(layer)
    for start, count in ((0, 5), (5, 5), (10, 4), (14, 1), (15, 5)):
        inputs = (floats(1, count, 32, seed=start), torch.tensor([start]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=1e-5, atol=1e-5)
    assert _names(found)["Full"] == 0


def test_single_tokens() -> None:
    layer = Layer()
    found, eager = compiled(layer, tokens=1), copy.deepcopy(layer)
    for position in range(4):
        inputs = (floats(1, 1, 32, seed=position), torch.tensor([position]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=1e-5, atol=1e-5)
    assert _names(found)["SliceUpdate"] == 2


@pytest.mark.parametrize(("start", "count"), [(12, 1), (10, 3), (-1, 1), (-1, 2), (100, 1)])
def test_a_call_beyond_the_cache_fails(start: int, count: int) -> None:
    found = compiled(Layer())
    with pytest.raises(DelegatecError, match="DC408"):
        found(floats(1, count, 32), torch.tensor([start]))


def test_inspection_has_shapes() -> None:
    """Those of a text's first call, since the position is an input."""
    graph = blob_graph(read_blob(memoryview(compiled(Layer()).blobs()[0])))
    (attention,) = (node for node in graph.nodes if node.operation == "Sdpa")
    assert [graph.values[id].shape for _, id in attention.operands] == [(1, 4, 5, 8), *[(1, 2, 5, 8)] * 2]
