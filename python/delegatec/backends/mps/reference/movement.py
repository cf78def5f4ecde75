# SPDX-License-Identifier: Apache-2.0
"""Shapes, look-ups, constants, casts (the runtime's ShapeOps, IndexingOps, PadOps, ConstantOps, RangeOps)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT
from torch.nn import functional

from delegatec.backends.mps.dtypes import FROM_FORMAT
from delegatec.backends.mps.reference.run import Run, Semantics, one_dtype, refuse


def ints(values: Iterable[int] | None) -> list[int]:
    """A list of numbers in an unpacked table, absent if empty."""
    return [] if values is None else [int(value) for value in values]


def mps_shape(values: Iterable[int] | None) -> list[int]:
    """A shape as the runtime reads it: [1] if it has no dimensions."""
    return ints(values) or [1]


def format_dtype(datatype: int) -> torch.dtype:
    """What the runtime makes of a type of the format."""
    if datatype not in FROM_FORMAT:
        refuse(f"type {datatype} of the format")
    return FROM_FORMAT[datatype]


def _permute(run: Run, op: Any, _: NodeT) -> None:
    x, perm = run[op.input1Id], ints(op.perm)[: op.numDims]
    if len(perm) != x.dim():
        refuse(f"a permutation {perm} of rank {x.dim()}")
    run[op.outputId] = x.permute(perm)


def _view(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = run[op.input1Id].reshape(mps_shape(op.shape))


def _expand(run: Run, op: Any, _: NodeT) -> None:
    x, shape = run[op.input1Id], ints(op.shape)
    if len(shape) < x.dim():
        refuse(f"an expansion of rank {x.dim()} to {shape}")
    run[op.outputId] = x.expand(shape[: x.dim()])


def _cat(run: Run, op: Any, _: NodeT) -> None:
    tensors = [run[id] for id in ints(op.inputIds)]
    one_dtype(*tensors)
    run[op.outputId] = torch.cat(tensors, op.dim)


def _squeeze(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    for dim in mps_shape(op.dims):
        if not -x.dim() <= dim < x.dim() or x.shape[dim] != 1:
            refuse(f"squeezing dimension {dim} of shape {list(x.shape)}")
    run[op.outputId] = x.squeeze(tuple(mps_shape(op.dims)))


def _unsqueeze(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = run[op.input1Id].unsqueeze(op.dim)


def _select(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = run[op.input1Id].select(op.dim, op.index)


def _slice(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    at: list[slice] = [slice(None)] * x.dim()
    at[op.dim] = slice(op.start, op.end, op.step)
    run[op.outputId] = x[tuple(at)]


def _split(run: Run, op: Any, _: NodeT) -> None:
    parts = torch.split_with_sizes(run[op.input1Id], ints(op.splitSizes), op.dim)
    for id, part in zip(ints(op.outputIds), parts, strict=True):
        run[id] = part


def _pixel_shuffle(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = functional.pixel_shuffle(run[op.input1Id], op.upscaleFactor)


def _pad(run: Run, op: Any, _: NodeT) -> None:
    x, pad = run[op.input1Id], ints(op.pad)
    if len(pad) not in (2, 4, 6) or len(pad) // 2 > x.dim() or min(pad) < 0:
        refuse(f"padding {pad} of rank {x.dim()}")
    run[op.outputId] = functional.pad(x, pad, value=op.value)


def _cast(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = run[op.input1Id].to(format_dtype(op.dtype))


def _full(run: Run, op: Any, _: NodeT) -> None:
    shape = ints(op.shape)
    if math.prod(shape):
        run[op.outputId] = torch.full(shape or [1], op.fillValue).to(format_dtype(op.dtype))


def _full_like(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = torch.full(run[op.input1Id].shape, op.fillValue).to(format_dtype(op.dtype))


def _arange(run: Run, op: Any, _: NodeT) -> None:
    dtype = format_dtype(op.dtype)
    count = math.ceil((op.end - op.start) / op.step)
    step, start = (torch.tensor(value).to(dtype) for value in (op.step, op.start))
    run[op.outputId] = torch.arange(count).to(dtype) * step + start


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    picked = x.index_select(dim, index.reshape(-1).to(torch.int32))
    return picked.reshape(*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])


def _index_select(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = _gather(run[op.input1Id], op.dim, run[op.indexId])


def _embedding(run: Run, op: Any, _: NodeT) -> None:
    indices = run[op.input2Id]
    rows = _gather(run[op.input1Id], 0, indices)
    if op.paddingIdx != -1:
        rows = torch.where((indices != op.paddingIdx).unsqueeze(-1), rows, torch.zeros_like(rows))
    run[op.outputId] = rows


def _one_index(run: Run, op: Any) -> tuple[int, torch.Tensor]:
    given = [(axis, id) for axis, id in enumerate(ints(op.indicesId)) if id != -1]
    if len(given) != 1:
        refuse(f"{len(given)} indices")
    return given[0][0], run[given[0][1]]


def _index_tensor(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = _gather(run[op.input1Id], *_one_index(run, op))


def _index_put(run: Run, op: Any, _: NodeT) -> None:
    axis, index = _one_index(run, op)
    update = run[op.valuesId]
    if ints(op.valuesShape):
        update = update.expand(ints(op.valuesShape))
    run[op.outputId] = run[op.input1Id].index_copy(axis, index.long(), update)


def _scatter(run: Run, op: Any, _: NodeT) -> None:
    x, update = run[op.input1Id], run[op.srcId]
    one_dtype(x, update)
    run[op.outputId] = x.scatter(op.dim, run[op.idxId].long(), update)


SEMANTICS: Final[dict[str, Semantics]] = {
    "Permute": _permute,
    "View": _view,
    "Expand": _expand,
    "Cat": _cat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Select": _select,
    "Slice": _slice,
    "SplitWithSizes": _split,
    "PixelShuffle": _pixel_shuffle,
    "ConstantPadND": _pad,
    "Cast": _cast,
    "Full": _full,
    "FullLike": _full_like,
    "Arange": _arange,
    "IndexSelect": _index_select,
    "Embedding": _embedding,
    "IndexTensor": _index_tensor,
    "IndexPut": _index_put,
    "Scatter": _scatter,
}
