# SPDX-License-Identifier: Apache-2.0
"""Operations that create constants (the runtime's ConstantOps, RangeOps and QuantDequant)."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.reference.run import (
    MAX_ELEMENTS,
    Run,
    Semantics,
    floats,
    format_dtype,
    present,
    reject,
)


def _fill(run: Run, op: Any, shape: list[int]) -> None:
    run.check_size(shape, "a constant")
    # One broadcast element: the result is not allocated in full.
    run[op.outputId] = run.scalar_tensor(op.fillValue, format_dtype(op.dtype)).expand(shape)


def _full(run: Run, op: Any, _: NodeT) -> None:
    """Leaves its id without a value if empty."""
    shape = present(op.shape, "shape")
    if math.prod(shape) == 0:
        run.clear(op.outputId)
    else:
        _fill(run, op, shape or [1])


def _full_like(run: Run, op: Any, _: NodeT) -> None:
    """Has the dtype of the node, not that of the operand. Ignores `shape`."""
    _fill(run, op, list(run[op.input1Id].shape))


def _arange(run: Run, op: Any, _: NodeT) -> None:
    """Casts indices to the dtype, then multiplies and adds. The count is computed in float32 and float64."""
    dtype = format_dtype(op.dtype)
    with np.errstate(all="ignore"):
        count = np.ceil(np.float64(np.float32(op.end) - np.float32(op.start)) / np.float64(op.step))
    if not 1 <= count <= MAX_ELEMENTS:
        reject(f"Arange of {count} elements")
    run.check_size([int(count)], "Arange")
    values = run.cast(torch.arange(int(count), dtype=torch.int32), dtype, "Arange")
    if dtype == torch.bool:
        reject("Arange of bool")
    run[op.outputId] = values * run.scalar_tensor(op.step, dtype) + run.scalar_tensor(op.start, dtype)


def _dequantize(run: Run, op: Any, _: NodeT) -> None:
    """Computes int4 * scale in float16; symmetric. Groups follow from the shapes: other fields are ignored.

    The scales have the rank of the operand, and each size divides that of the operand ("scale tensor with
    groups support"). MPSGraph supports this since macOS 15 and iOS 18; earlier, the runtime aborts.
    """
    x, scales = run.int4(op.input1Id), run[op.scalesId]
    floats("scales", scales)
    if x.dim() != scales.dim() or any(a % b for a, b in zip(x.shape, scales.shape, strict=True)):
        reject(f"scales of shape {list(scales.shape)} for a weight of shape {list(x.shape)}")
    other = scales.dtype != torch.float16
    run.unspecified.choose("scales", lambda: other, "scales that are not float16")
    for dim, (size, count) in enumerate(zip(x.shape, scales.shape, strict=True)):
        if 1 < count < size:
            scales = scales.repeat_interleave(size // count, dim)
    run[op.outputId] = (x.float() * scales.float()).to(torch.float16)


SEMANTICS: Final[dict[str, Semantics]] = {
    "Full": _full,
    "FullLike": _full_like,
    "Arange": _arange,
    "DequantizePerChannelGroup": _dequantize,
}
