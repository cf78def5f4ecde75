# SPDX-License-Identifier: Apache-2.0
"""Gathers and updates by index (the runtime's IndexingOps)."""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.dtypes import INTEGERS
from delegatec.backends.mps.reference.run import (
    Run,
    Semantics,
    axis,
    ints,
    one_dtype,
    present,
    reject,
    unsigned_axis,
)
from delegatec.edge.arguments import short_name

Tensor = torch.Tensor


def _gather(run: Run, x: Tensor, dim: int, index: Tensor, what: str) -> Tensor:
    """Calls `gatherWithUpdatesTensor`: the dimensions of the index replace the dimension."""
    size = x.shape[dim]
    shape = [*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]]
    run.check_size(shape, what)
    outside = (index < 0) | (index >= size)
    choice = run.unspecified.choose("reads", lambda: outside, f"{what} out of range")
    inside = index % size if choice == "wrap" else index.clamp(0, size - 1)
    result = x.index_select(dim, inside.reshape(-1)).reshape(shape)
    if choice == "zero":
        mask = outside.reshape(*index.shape, *(1,) * (x.dim() - dim - 1))
        result = torch.where(mask, torch.zeros((), dtype=x.dtype), result)
    return result


def _int32(run: Run, index: Tensor, what: str) -> Tensor:
    return run.cast(index, torch.int32, f"an index of {what}")


def _index_select(run: Run, op: Any, _: NodeT) -> None:
    x, index = run[op.input1Id], _int32(run, run[op.indexId], "IndexSelect")
    dim = unsigned_axis(run, op.dim, x.dim(), "IndexSelect")
    run[op.outputId] = _gather(run, x, dim, index, "IndexSelect")


def _embedding(run: Run, op: Any, _: NodeT) -> None:
    """Gathers rows, zeros for the index `padding_idx` unless that is -1."""
    weight, indices = run[op.input1Id], run[op.input2Id]
    if weight.dim() < 1:
        reject("Embedding of a weight of no dimensions")
    rows = _gather(run, weight, 0, _int32(run, indices, "Embedding"), "Embedding")
    if op.paddingIdx != -1:
        padding = run.scalar_tensor(op.paddingIdx, indices.dtype)
        # The condition has one dimension more than the indices, which broadcasts over the row.
        if weight.dim() != 2:
            reject(f"Embedding with a padding index and a weight of shape {list(weight.shape)}")
        rows = torch.where((indices != padding).unsqueeze(-1), rows, torch.zeros_like(rows))
    run[op.outputId] = rows


def _one_index(run: Run, op: Any, rank: int, what: str) -> tuple[int, Tensor]:
    """Returns the axis and the only index, which MPSGraph receives without a cast."""
    given = [(position, id) for position, id in enumerate(present(op.indicesId, "indices")) if id != -1]
    if len(given) != 1:
        reject(f"{what} with {len(given)} indices")
    position, id = given[0]
    index = run[id]
    if index.dtype not in INTEGERS:
        reject(f"{what} with an index of {short_name(index.dtype)}")
    other = index.dtype != torch.int32
    run.unspecified.choose("indices", lambda: other, f"{what} with an index of {short_name(index.dtype)}")
    return axis(position, rank, what), index.long()


def _index_tensor(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    run[op.outputId] = _gather(run, x, *_one_index(run, op, x.dim(), "IndexTensor"), "IndexTensor")


def _targets(run: Run, index: Tensor, size: int, what: str) -> Tensor:
    """Returns the indices to write to; `size` means none."""
    outside = (index < 0) | (index >= size)
    choice = run.unspecified.choose("writes", lambda: outside, f"{what} out of range")
    if choice == "wrap":
        return index % size
    return index.clamp(0, size - 1) if choice == "nearest" else torch.where(outside, size, index)


def _update(run: Run, data: Tensor, dim: int, index: Tensor, source: Tensor, what: str) -> Tensor:
    """Writes along a dimension, one element for each of the index, whose shape is that of the source."""
    targets = _targets(run, index, data.shape[dim], what)
    ordered = targets.sort(dim).values
    repeated = (ordered.diff(dim=dim) == 0) & (ordered.narrow(dim, 1, index.shape[dim] - 1) < data.shape[dim])
    choice = run.unspecified.choose("duplicates", lambda: repeated, f"{what} twice to one element")
    if choice == "first":
        targets, source = targets.flip(dim), source.flip(dim)
    padded = torch.cat([data, data.narrow(dim, 0, 1)], dim)
    return padded.scatter(dim, targets, source).narrow(dim, 0, data.shape[dim])


def _index_put(run: Run, op: Any, _: NodeT) -> None:
    """Writes slices. It cannot add: `accumulate` is not in the format."""
    data, update = run[op.input1Id], run[op.valuesId]
    dim, index = _one_index(run, op, data.dim(), "IndexPut")
    one_dtype(data, update)
    wanted = [*data.shape[:dim], *index.shape, *data.shape[dim + 1 :]]
    shape = ints(op.valuesShape)
    run.check_size(wanted, "IndexPut")
    if shape:
        sizes = [1] * (len(shape) - update.dim()) + list(update.shape)
        if len(sizes) != len(shape) or any(a not in (1, b) for a, b in zip(sizes, shape, strict=True)):
            reject(f"values of shape {list(update.shape)} for {shape}")
    if (shape or list(update.shape)) != wanted:
        reject(f"IndexPut of values of shape {shape or list(update.shape)}, where {wanted} is written")
    flat = [*data.shape[:dim], index.numel(), *data.shape[dim + 1 :]]
    source = update.expand(wanted).reshape(flat)
    at = index.reshape(-1, *(1,) * (data.dim() - dim - 1)).expand(flat)
    run[op.outputId] = _update(run, data, dim, at, source, "IndexPut")


def _scatter(run: Run, op: Any, _: NodeT) -> None:
    """Calls `scatterAlongAxis`: index and updates have one shape, that of the data except along the axis."""
    data, source, index = run[op.input1Id], run[op.srcId], run[op.idxId]
    one_dtype(data, source)
    if index.dtype not in (torch.int32, torch.int64):
        reject(f"Scatter with an index of {short_name(index.dtype)}")
    dim = axis(op.dim, data.dim(), "Scatter")
    wanted = [*data.shape[:dim], *index.shape[dim : dim + 1], *data.shape[dim + 1 :]]
    if list(index.shape) != wanted or source.shape != index.shape:
        shapes = f"{list(source.shape)} at {list(index.shape)}"
        reject(f"Scatter into shape {list(data.shape)} along {dim} of shapes {shapes}")
    run[op.outputId] = _update(run, data, dim, index.long(), source, "Scatter")


SEMANTICS: Final[dict[str, Semantics]] = {
    "IndexSelect": _index_select,
    "Embedding": _embedding,
    "IndexTensor": _index_tensor,
    "IndexPut": _index_put,
    "Scatter": _scatter,
}
