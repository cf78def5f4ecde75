# SPDX-License-Identifier: Apache-2.0
"""Cases of shapes, gathers and scatters, constants and casts: node type -> tables, inputs, results."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import (
    ArangeT,
    CastT,
    CatT,
    ConstantPadT,
    DataType,
    DequantizePerChannelGroupT,
    EmbeddingT,
    FullT,
    IndexPutT,
    IndexSelectT,
    IndexTensorT,
    PermuteT,
    PixelShuffleT,
    ScatterT,
    SelectT,
    SliceT,
    SplitWithSizesT,
    SqueezeT,
    UnsqueezeT,
    ViewT,
)

from delegatec.backends.mps.testing.reference.synthetic import Case

Tensor = torch.Tensor

CUBE: Final = torch.arange(24.0).reshape(2, 3, 4)
ROW: Final = torch.tensor([[1.5, -2.5, 3.0, 0.0, 0.75]])
PICKS: Final = torch.tensor([[2, 0], [1, 1]], dtype=torch.int32)
INDICES: Final = torch.tensor([2, 0], dtype=torch.int32)
ALONG: Final = torch.tensor([[[2, 0, 1, 0]], [[1, 1, 0, 2]]])
UPDATES: Final = -torch.arange(8.0).reshape(2, 1, 4) - 1
NIBBLES: Final = torch.tensor([[-8, 7, 1, -1], [0, 5, -5, 2]], dtype=torch.int8)
SCALES: Final = torch.tensor([[0.5, 0.25], [2.0, 1.0]], dtype=torch.float16)


def _shuffled(x: Tensor) -> Tensor:
    """Moves element by element: channel c * 4 + 2 * i + j goes to row 2 * r + i, column 2 * k + j."""
    count, channels, height, width = x.shape
    result = torch.zeros(count, channels // 4, 2 * height, 2 * width, dtype=x.dtype)
    for position in range(4):
        result[:, :, position // 2 :: 2, position % 2 :: 2] = x[:, position::4]
    return result


def _rows(weight: Tensor, indices: Tensor) -> Tensor:
    flat = [weight[i] for i in indices.flatten().tolist()]
    return torch.stack(flat).reshape(*indices.shape, -1)


def _scattered(data: Tensor, index: Tensor, source: Tensor) -> Tensor:
    result = data.clone()
    for i, j, k in torch.cartesian_prod(*map(torch.arange, index.shape)).tolist():
        result[i, index[i, j, k], k] = source[i, j, k]
    return result


def _put(data: Tensor, index: Tensor, values: Tensor) -> Tensor:
    result = data.clone()
    for position, target in enumerate(index.tolist()):
        result[:, target] = values.expand(2, 2, 4)[:, position]
    return result


CASES: Final[dict[str, list[Case]]] = {
    "Permute": [Case(PermuteT(0, 10, 3, [2, 0, 1]), (CUBE,), lambda x: torch.einsum("abc->cab", x))],
    "View": [
        Case(ViewT(0, 10, 2, [4, 6]), (CUBE,), lambda x: x.flatten().unflatten(0, (4, 6))),
        Case(ViewT(0, 10, 3, [2, -1, 2]), (CUBE,), lambda x: x.flatten().unflatten(0, (2, 6, 2))),
        Case(ViewT(0, 10, 0, []), (ROW[:, :1].clone(),), lambda x: x[0]),
    ],
    "Expand": [
        Case(ViewT(0, 10, 3, [2, -1, 5]), (ROW[:, None],), lambda x: torch.stack([x[0], x[0]])),
        # Only as many sizes are read as the operand has dimensions.
        Case(ViewT(0, 10, 3, [3, 5, 7]), (ROW,), lambda x: torch.cat([x, x, x])),
    ],
    "Cat": [
        Case(CatT([0, 1, 0], 10, -2), (CUBE, CUBE[:, :1]), lambda x, y: torch.hstack([x, y, x])),
        Case(
            CatT([0, 1], 10, 0),
            (ROW, CUBE.flatten()[:1, None]),
            lambda x, y: torch.stack([x[0], y[0].repeat(5)]),
        ),
        # Operands without a value are omitted.
        Case(CatT([0, 14, 0], 10, 0), (ROW,), lambda x: torch.vstack([x, x])),
    ],
    "Squeeze": [
        Case(SqueezeT(0, 10, [0, -1]), (ROW[..., None],), lambda x: x[0, :, 0]),
        # An empty list is read as [1].
        Case(SqueezeT(0, 10, []), (CUBE[:, :1],), lambda x: x[:, 0]),
    ],
    "Unsqueeze": [
        Case(UnsqueezeT(0, 10, 1), (CUBE,), lambda x: x[:, None]),
        Case(UnsqueezeT(0, 10, -1), (CUBE,), lambda x: x[..., None]),
    ],
    "Select": [
        Case(SelectT(0, 10, 1, 2), (CUBE,), lambda x: x[:, 2]),
        Case(SelectT(0, 10, 2, -3), (CUBE,), lambda x: x[..., 1]),
    ],
    "Slice": [
        Case(SliceT(0, 10, 2, 1, 2**62, 2), (CUBE,), lambda x: x[..., 1::2]),
        Case(SliceT(0, 10, 1, -2, 3, 1), (CUBE,), lambda x: x[:, 1:]),
        Case(
            SliceT(0, 10, 2, 3, 0, -1), (CUBE,), lambda x: torch.stack([x[..., 3], x[..., 2], x[..., 1]], -1)
        ),
    ],
    "PixelShuffle": [
        Case(PixelShuffleT(0, 10, 2), (CUBE.reshape(1, 4, 3, 2),), _shuffled),
        Case(PixelShuffleT(0, 10, 1), (CUBE,), lambda x: x),
    ],
    "SplitWithSizes": [
        Case(SplitWithSizesT(0, [10, 11], [1, 3], -1), (CUBE,), lambda x: (x[..., :1], x[..., 1:])),
        Case(SplitWithSizesT(0, [10], [1, 2], 1), (CUBE,), lambda x: x[:, :1]),
    ],
    "ConstantPadND": [
        Case(
            ConstantPadT(0, 10, [1, 2, 0, 1], -2.5),
            (ROW,),
            lambda x: torch.tensor([[-2.5, *x[0], -2.5, -2.5], [-2.5] * 8]),
        ),
        Case(
            ConstantPadT(0, 10, [0, 0, 0, 0, 1, 0], 7.0),
            (CUBE.int(),),
            lambda x: torch.cat([x[:1] * 0 + 7, x]),
        ),
    ],
    "Cast": [
        Case(
            CastT(0, 10, DataType.INT32),
            (ROW,),
            lambda x: torch.tensor([[1, -2, 3, 0, 0]]),
            dtypes=(torch.int32,),
        ),
        Case(CastT(0, 10, DataType.BOOL), (ROW,), lambda x: torch.tensor([[True, True, True, False, True]])),
        Case(CastT(0, 10, DataType.FLOAT16), (PICKS,), lambda x: x, dtypes=(torch.float16,)),
        # The runtime treats float64 as float32.
        Case(
            CastT(0, 10, DataType.FLOAT64),
            (PICKS > 0,),
            lambda x: torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
            dtypes=(torch.float32,),
        ),
        Case(
            CastT(0, 10, DataType.INT8),
            (torch.tensor([300, -129, 5]),),
            lambda x: torch.tensor([44, 127, 5]),
            dtypes=(torch.int8,),
        ),
    ],
    "Full": [
        Case(
            FullT(-1, 10, [2, 3], 1.5, DataType.FLOAT32),
            (ROW,),
            lambda x: torch.tensor([[1.5] * 3] * 2),
            half=False,
        ),
        Case(
            FullT(-1, 10, [], -2.75, DataType.INT64),
            (ROW,),
            lambda x: torch.tensor([-2]),
            dtypes=(torch.int64,),
        ),
    ],
    "FullLike": [
        Case(
            FullT(0, 10, None, 3.0, DataType.INT32),
            (ROW,),
            lambda x: torch.tensor([[3] * 5]),
            dtypes=(torch.int32,),
        ),
    ],
    "Arange": [
        Case(
            ArangeT(10, 1.0, 8.0, 2.5, DataType.FLOAT32),
            (ROW,),
            lambda x: torch.tensor([1.0, 3.5, 6.0]),
            half=False,
        ),
        Case(
            ArangeT(10, 5.0, 0.0, -2.0, DataType.INT64),
            (ROW,),
            lambda x: torch.tensor([5, 3, 1]),
            dtypes=(torch.int64,),
        ),
        # Start and step are cast before any arithmetic.
        Case(
            ArangeT(10, 0.5, 3.0, 1.5, DataType.INT32),
            (ROW,),
            lambda x: torch.tensor([0, 1]),
            dtypes=(torch.int32,),
        ),
    ],
    "IndexSelect": [
        Case(
            IndexSelectT(0, 10, 1, 1),
            (CUBE, INDICES.long()),
            lambda x, i: torch.stack([x[:, 2], x[:, 0]], 1),
        ),
        Case(
            IndexSelectT(0, 10, 1, 1),
            (CUBE, PICKS),
            lambda x, i: torch.stack([_rows(part, i) for part in x]),
        ),
    ],
    "Embedding": [
        Case(EmbeddingT(0, 1, 10, -1), (CUBE[0], PICKS.long()), _rows),
        Case(EmbeddingT(0, 1, 10, 1), (CUBE[0], PICKS), lambda w, i: _rows(w, i) * (i != 1)[..., None]),
    ],
    "IndexTensor": [
        Case(IndexTensorT(0, [-1, 1], 10), (CUBE, INDICES), lambda x, i: torch.stack([x[:, 2], x[:, 0]], 1)),
        Case(IndexTensorT(0, [1], 10), (CUBE, INDICES.clamp(max=1)), lambda x, i: torch.stack([x[1], x[0]])),
    ],
    "IndexPut": [
        Case(IndexPutT(0, [-1, 1], [2, 2, 4], 2, 10), (CUBE, INDICES, UPDATES), _put),
        Case(IndexPutT(0, [-1, 1], [], 2, 10), (CUBE, INDICES, UPDATES.expand(2, 2, 4).clone()), _put),
    ],
    "Scatter": [
        Case(ScatterT(0, 10, 1, 1, 2), (CUBE, ALONG, UPDATES), _scattered),
        Case(ScatterT(0, 10, -2, 1, 2), (CUBE.int(), ALONG.int(), UPDATES.int()), _scattered),
    ],
    "DequantizePerChannelGroup": [
        Case(
            # Groups follow from the shapes alone.
            DequantizePerChannelGroupT(6, 10, 5, -1, groupSize=99),
            (ROW,),
            lambda x, s, q: torch.tensor([[-4.0, 3.5, 0.25, -0.25], [0.0, 10.0, -5.0, 2.0]]),
            constants={5: SCALES},
            int4={6: NIBBLES},
            dtypes=(torch.float16,),
            half=False,
        ),
        Case(
            DequantizePerChannelGroupT(6, 10, 5, -1),
            (ROW,),
            lambda x, s, q: q * 0.5,
            constants={5: torch.tensor([[0.5]], dtype=torch.float16)},
            int4={6: NIBBLES},
            dtypes=(torch.float16,),
            half=False,
        ),
    ],
}
