# SPDX-License-Identifier: Apache-2.0
"""Attention to caches that the delegate keeps, in the reference executor, compared with eager mode."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from delegatec.backends.common.testing import Compiled, compile_program, floats
from delegatec.backends.mlx.backend import MLX
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.graph import blob_graph
from delegatec.backends.mlx.testing import operations
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge

LENGTH: Final = 12
CALLS: Final = ((0, 5), (5, 1), (6, 3), (9, 1), (10, 2), (0, 2), (2, 1))
"""The first position and the number of tokens of each call: two texts."""
Mask = Callable[[Tensor, Tensor], Tensor]


class Layer(nn.Module):
    """Attention of four heads to a cache of two, which the tokens of a call extend.

    Args:
        mask: of the indices of rows, [1, rows], and of positions, [tokens, 1].
        indices: of the rows of positions.
        dtype: of the cache; int8 with a scale for each row.
    """

    def __init__(
        self,
        mask: Mask = torch.le,
        indices: Callable[[Tensor], Tensor] = lambda positions: positions,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for name in ("key", "value"):
            self.register_buffer(name, torch.zeros(1, 2, LENGTH, 8, dtype=dtype))
            if dtype == torch.int8:
                self.register_buffer(f"{name}_scale", torch.zeros(1, 2, LENGTH, 1))
        self.mask, self.indices = mask, indices

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        positions = start + torch.arange(x.shape[1])
        heads = x.view(1, -1, 4, 8).transpose(1, 2)
        key, value = (self._stored(name, heads[:, :2] * 2, positions) for name in ("key", "value"))
        mask = self.mask(torch.arange(LENGTH)[None], positions[:, None])
        return functional.scaled_dot_product_attention(heads, key, value, mask[None, None], enable_gqa=True)

    def _stored(self, name: str, rows: Tensor, positions: Tensor) -> Tensor:
        cache: Tensor = getattr(self, name)
        indices = self.indices(positions)
        if cache.dtype == torch.float32:
            return cache.index_copy_(2, indices, rows)
        if cache.dtype != torch.int8:
            return cache.index_copy_(2, indices, rows.to(cache.dtype)).to(rows.dtype)
        scales: Tensor = getattr(self, f"{name}_scale")
        scale = (rows.abs().amax(-1, keepdim=True) / 127).clamp(min=2.0**-14)
        cache.index_copy_(2, indices, (rows / scale).round().to(torch.int8))
        scales.index_copy_(2, indices, scale)
        return cache.to(rows.dtype) * scales


def _compiled(layer: nn.Module, precision: str = "fp32", tokens: int = 3) -> Compiled:
    inputs = (floats(1, tokens, 32), torch.tensor([1]))
    shapes = ({1: Dim("tokens", min=1, max=5)}, None) if tokens > 1 else None
    exported = torch.export.export(copy.deepcopy(layer), inputs, dynamic_shapes=shapes)
    program = to_edge(exported, preserve=MLX.preserved_operators())
    program.owns_state = True
    found = compile_program("mlx", program, precision=precision)
    assert (len(found.delegates), found.left) == (1, [])
    return found


def _names(found: Compiled) -> Counter[str]:
    return Counter(operations(found.blobs()[0]))


def _check(layer: nn.Module, found: Compiled, tolerance: float = 1e-5) -> None:
    eager = copy.deepcopy(layer)
    for start, count in CALLS:
        inputs = (floats(1, count, 32, seed=start + count), torch.tensor([start]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_causal_masks(dtype: torch.dtype, precision: str) -> None:
    """Rows are written as a slice, and filled rows are read, without a mask."""
    layer = Layer(dtype=dtype)
    found = _compiled(layer, precision)
    _check(layer, found, 1e-5 if precision == "fp32" and dtype != torch.float16 else 2e-2)
    names = _names(found)
    written = 4 if dtype == torch.int8 else 2
    assert names["SliceUpdate"] == written and names["Item"] == 1
    assert not names.keys() & {"IndexCopy", "LessEqual", "Where", "Arange"}


def test_mirrored_comparison() -> None:
    layer = Layer(lambda rows, positions: positions >= rows)
    found = _compiled(layer)
    _check(layer, found)
    assert _names(found)["GreaterEqual"] == 0


def test_windows_restrict_rows_further() -> None:
    layer = Layer(lambda rows, positions: (rows <= positions) & (rows > positions - 4))
    found = _compiled(layer)
    _check(layer, found)
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
    found = _compiled(layer)
    _check(layer, found)
    assert _names(found)["SliceUpdate"] == 2 and _names(found)["Slice"] == 1


def test_rows_that_are_used_again() -> None:
    """Their indices may not be consecutive."""
    layer = Layer(indices=lambda positions: positions % 7)
    found = _compiled(layer)
    _check(layer, found)
    assert _names(found)["IndexCopy"] == 2


@pytest.mark.parametrize(
    "mask", [torch.le, lambda rows, positions: (rows <= positions) & (rows >= positions - 20)]
)
def test_positions_beyond_the_last_row(mask: Mask) -> None:
    """All rows are filled then."""
    layer = Layer(mask, indices=lambda positions: positions % LENGTH)
    found, eager = _compiled(layer), copy.deepcopy(layer)
    for start, count in ((0, 5), (5, 5), (10, 4), (14, 1), (15, 5)):
        inputs = (floats(1, count, 32, seed=start), torch.tensor([start]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=1e-5, atol=1e-5)
    assert _names(found)["Full"] == 0


def test_single_tokens() -> None:
    layer = Layer()
    found, eager = _compiled(layer, tokens=1), copy.deepcopy(layer)
    for position in range(4):
        inputs = (floats(1, 1, 32, seed=position), torch.tensor([position]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=1e-5, atol=1e-5)
    assert _names(found)["SliceUpdate"] == 2


@pytest.mark.parametrize(("start", "count"), [(12, 1), (10, 3), (-1, 1), (-1, 2), (100, 1)])
def test_a_call_beyond_the_cache_fails(start: int, count: int) -> None:
    found = _compiled(Layer())
    with pytest.raises(DelegatecError, match="DC408"):
        found(floats(1, count, 32), torch.tensor([start]))


def test_inspection_has_shapes() -> None:
    """Those of a text's first call, since the position is an input."""
    graph = blob_graph(read_blob(memoryview(_compiled(Layer()).blobs()[0])))
    (attention,) = (node for node in graph.nodes if node.operation == "Sdpa")
    assert [graph.values[id].shape for _, id in attention.operands] == [(1, 4, 5, 8), *[(1, 2, 5, 8)] * 2]
