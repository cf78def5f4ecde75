# SPDX-License-Identifier: Apache-2.0
"""Shapes and casts (the runtime's ShapeOps and PadOps)."""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT
from torch.nn import functional

from delegatec.backends.mps.reference.run import (
    Run,
    Semantics,
    axis,
    format_dtype,
    ints,
    mps_shape,
    one_dtype,
    present,
    reject,
    unsigned_axis,
)


def _permute(run: Run, op: Any, _: NodeT) -> None:
    x, perm = run[op.input1Id], ints(op.perm)
    if sorted(perm) != list(range(x.dim())):
        reject(f"a permutation {perm} of rank {x.dim()}")
    run[op.outputId] = x.permute(perm)


def _view(run: Run, op: Any, _: NodeT) -> None:
    """One dimension may be -1."""
    x, shape = run[op.input1Id], mps_shape(present(op.shape, "shape"))
    known = torch.Size(size for size in shape if size != -1).numel()
    open_sizes = shape.count(-1)
    fits = x.numel() == known if not open_sizes else known > 0 and x.numel() % known == 0
    if min(shape) < -1 or open_sizes > 1 or not fits:
        reject(f"a view of shape {list(x.shape)} as {shape}")
    run[op.outputId] = x.reshape(shape)


def _expand(run: Run, op: Any, _: NodeT) -> None:
    """Reads one size per dimension of the operand; -1 keeps a size."""
    x, shape = run[op.input1Id], present(op.shape, "shape")
    pairs = list(zip(x.shape, shape, strict=False))
    if len(pairs) < x.dim() or any(size not in (1, wanted) and wanted != -1 for size, wanted in pairs):
        reject(f"an expansion of shape {list(x.shape)} to {shape}")
    sizes = [size if wanted == -1 else wanted for size, wanted in pairs]
    run.check_size(sizes, "an expansion")
    run[op.outputId] = x.expand(sizes)


def _cat(run: Run, op: Any, _: NodeT) -> None:
    """Omits operands without a value; the other dimensions are broadcast."""
    ids = present(op.inputIds, "operands")
    tensors = [run[id] for id in ids if id in run or not run.is_id(id)]
    if not tensors:
        reject("a concatenation of nothing")
    one_dtype(*tensors)
    rank = tensors[0].dim()
    if any(tensor.dim() != rank for tensor in tensors):
        reject(f"a concatenation of ranks {[tensor.dim() for tensor in tensors]}")
    dim = axis(op.dim, rank, "a concatenation")
    shape = list(run.broadcast("a concatenation", *(tensor.narrow(dim, 0, 1) for tensor in tensors)))
    expanded = [tensor.expand(*shape[:dim], tensor.shape[dim], *shape[dim + 1 :]) for tensor in tensors]
    shape[dim] = sum(tensor.shape[dim] for tensor in expanded)
    run.check_size(shape, "a concatenation")
    run[op.outputId] = torch.cat(expanded, dim)


def _squeeze(run: Run, op: Any, _: NodeT) -> None:
    """Without dimensions it squeezes the second, as the runtime reads an empty list as [1]."""
    x, dims = run[op.input1Id], mps_shape(present(op.dims, "dimensions"))
    squeezed = {axis(dim, x.dim(), "Squeeze") for dim in dims}
    if any(x.shape[dim] != 1 for dim in squeezed):
        reject(f"squeezing dimensions {dims} of shape {list(x.shape)}")
    run[op.outputId] = x.squeeze(tuple(squeezed))


def _unsqueeze(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    run[op.outputId] = x.unsqueeze(axis(op.dim, x.dim() + 1, "Unsqueeze"))


def _select(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    dim = unsigned_axis(run, op.dim, x.dim(), "Select")
    run[op.outputId] = x.select(dim, axis(op.index, x.shape[dim], "Select's index"))


def _slice(run: Run, op: Any, _: NodeT) -> None:
    """Counts negative indices from the end; indices beyond the end are clamped."""
    x = run[op.input1Id]
    if not 0 <= op.dim < x.dim():
        reject(f"Slice along dimension {op.dim} of {x.dim()}")
    if op.step == 0:
        reject("Slice with a step of 0")
    indices = range(*slice(op.start, op.end, op.step).indices(x.shape[op.dim]))
    if not indices:
        reject(f"Slice of shape {list(x.shape)} along {op.dim} from {op.start} to {op.end}: it is empty")
    if indices.step > 0:
        at: list[slice] = [slice(None)] * x.dim()
        at[op.dim] = slice(indices.start, indices.stop, indices.step)
        run[op.outputId] = x[tuple(at)]
    else:
        run[op.outputId] = x.index_select(op.dim, torch.tensor(list(indices)))


def _split(run: Run, op: Any, _: NodeT) -> None:
    """Omits results without an id."""
    x, sizes, ids = run[op.input1Id], mps_shape(present(op.splitSizes, "sizes")), ints(op.outputIds)
    dim = axis(op.dim, x.dim(), "Split")
    if min(sizes) < 1 or sum(sizes) != x.shape[dim] or len(ids) > len(sizes):
        reject(f"a split of shape {list(x.shape)} along {op.dim} into {sizes}, for {len(ids)} results")
    for id, part in zip(ids, x.split_with_sizes(sizes, dim), strict=False):
        run[id] = part


def _pixel_shuffle(run: Run, op: Any, _: NodeT) -> None:
    x, factor = run[op.input1Id], op.upscaleFactor
    if x.dim() < 3 or factor < 1 or x.shape[-3] % (factor * factor):
        reject(f"PixelShuffle of shape {list(x.shape)} by {factor}")
    run[op.outputId] = functional.pixel_shuffle(x, factor)


def _pad(run: Run, op: Any, _: NodeT) -> None:
    x, pad = run[op.input1Id], present(op.pad, "padding")
    if len(pad) not in (2, 4, 6) or len(pad) // 2 > x.dim() or min(pad) < 0:
        reject(f"padding {pad} of rank {x.dim()}")
    if x.dtype == torch.bool:
        reject("padding of bool")
    shape = list(x.shape)
    for pair in range(len(pad) // 2):
        shape[-1 - pair] += pad[2 * pair] + pad[2 * pair + 1]
    run.check_size(shape, "a padded operand")
    run[op.outputId] = functional.pad(x, pad, value=run.scalar(op.value, x.dtype))


def _cast(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = run.cast(run[op.input1Id], format_dtype(op.dtype), "Cast")


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
}
