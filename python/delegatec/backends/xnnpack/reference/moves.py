# SPDX-License-Identifier: Apache-2.0
"""Operations that move elements.

Source: XNNPACK's subgraph/copy.c, concatenate.c, static-slice.c, static-transpose.c, static-constant-pad.c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import NodeT

from delegatec.backends.xnnpack.operands import CONCATENATIONS, operand_ids
from delegatec.backends.xnnpack.reference.run import Run, Semantics, quantized_value
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED, reject


def _copy(run: Run, operation: Any, node: NodeT) -> None:
    run.write(int(operation.outputId), run.elements(int(operation.inputId)))


def _reshape(run: Run, operation: Any, node: NodeT) -> None:
    value = run.elements(int(operation.inputId))
    shape = [int(size) for size in operation.shape]
    known = math.prod(size for size in shape if size)
    if shape.count(0) > 1:
        reject(f"the shape {shape} has more than one unknown size")
    if value.numel() % known or (0 not in shape and value.numel() != known):
        reject(f"value {int(operation.inputId)} of shape {list(value.shape)} cannot have the shape {shape}")
    sizes = [size or value.numel() // known for size in shape]
    run.write(int(operation.outputId), value.reshape(sizes))


def _permutation(run: Run, operation: Any, node: NodeT) -> None:
    value = run.elements(int(operation.inputId))
    order = [int(dim) for dim in operation.permutation]
    if sorted(order) != list(range(value.dim())):
        reject(
            f"the permutation {order} of value {int(operation.inputId)}, which has {value.dim()} dimensions"
        )
    run.write(int(operation.outputId), value.permute(order))


def _slice(run: Run, operation: Any, node: NodeT) -> None:
    value = run.elements(int(operation.inputId))
    offsets = _per_dim(operation.offsets, value, "offsets")
    for dim, (offset, size) in enumerate(
        zip(offsets, _per_dim(operation.sizes, value, "sizes"), strict=True)
    ):
        to_end = offset == size == 0
        start = min(offset, value.shape[dim])
        length = value.shape[dim] if to_end else max(0, min(size, value.shape[dim] - start))
        value = value.narrow(dim, start, length)
    run.write(int(operation.outputId), value)


def _per_dim(amounts: Sequence[int], value: torch.Tensor, what: str) -> list[int]:
    """Returns integers, one for each dimension of a value."""
    if len(amounts) != value.dim():
        reject(f"{len(amounts)} {what} for a value of {value.dim()} dimensions")
    return [int(padding) for padding in amounts]


def _pad(run: Run, operation: Any, node: NodeT) -> None:
    value, result = run.elements(int(operation.inputId)), run.result(int(operation.outputId))
    before = _per_dim(operation.padsBefore, value, "padding amounts")
    after = _per_dim(operation.padsAfter, value, "padding amounts")
    shape = [sum(sizes) for sizes in zip(value.shape, before, after, strict=True)]
    run.check_size(shape, f"value {result.id}")
    padding = float(operation.value)
    filler = quantized_value(padding, result) if result.data_type in QUANTIZED else padding
    padded = torch.full(shape, filler, dtype=result.dtype)
    inner = padded
    for dim, (start, size) in enumerate(zip(before, value.shape, strict=True)):
        inner = inner.narrow(dim, start, size)
    inner.copy_(value)
    run.write(result.id, padded)


def _concatenate(run: Run, operation: Any, node: NodeT) -> None:
    values = [run.elements(id) for id in operand_ids(node)]
    axis = int(operation.axis)
    # the runtime reads it as a signed integer
    axis = axis - 2**32 if axis >= 2**31 else axis
    rank = values[0].dim()
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis < rank:
        reject(f"axis {int(operation.axis)} of values of {rank} dimensions")
    others = {(*each.shape[:axis], *each.shape[axis + 1 :]) for each in values}
    if len(others) > 1 or any(each.dim() != rank for each in values):
        reject(f"values of the shapes {[list(each.shape) for each in values]} along axis {axis}")
    run.write(int(operation.outputId), torch.cat(values, axis))


SEMANTICS: Final[dict[str, Semantics]] = {
    **dict.fromkeys(CONCATENATIONS, _concatenate),
    "ConstantPad": _pad,
    "Copy": _copy,
    "Reshape": _reshape,
    "Slice": _slice,
    "Transpose": _permutation,
}
