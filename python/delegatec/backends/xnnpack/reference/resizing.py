# SPDX-License-Identifier: Apache-2.0
"""Bilinear resizing of images [batch, height, width, channels].

Source: XNNPACK's indirection.c for sample positions, and its kernels ibilinear, which use 11-bit weights for
int8.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import NodeT

from delegatec.backends.xnnpack.flags import ALIGNS_CORNERS, OLD_POSITIONS
from delegatec.backends.xnnpack.reference.run import Run, Semantics, check_rank
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED

_WEIGHT_BITS: Final = 11


def _positions(size: int, new: int, flags: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the two pixels of each result in a dimension, and the weight of the second one."""
    if flags & ALIGNS_CORNERS and new > 1:
        scale = torch.tensor(size - 1, dtype=torch.float32) / (new - 1)
    else:
        scale = torch.tensor(size, dtype=torch.float32) / new
    position = torch.arange(new, dtype=torch.float32) * scale
    if not flags & (ALIGNS_CORNERS | OLD_POSITIONS):
        position = (position + (0.5 * scale - 0.5)).clamp(0, size - 1)
    first = position.to(torch.int64).clamp(max=size - 1)
    return first, (first + 1).clamp(max=size - 1), position - first


def _resize(run: Run, operation: Any, node: NodeT) -> None:
    source, result = run.operand(int(operation.inputId)), run.result(int(operation.outputId))
    check_rank(source, 4, "the input of a resizing")
    image, flags = run.elements(source.id), int(operation.flags)
    new = (int(operation.newHeight), int(operation.newWidth))
    run.check_size([image.shape[0], *new, image.shape[3]], f"value {result.id}")
    top, bottom, down = _positions(image.shape[1], new[0], flags)
    left, right, along = _positions(image.shape[2], new[1], flags)
    down, along = down[:, None, None], along[:, None]
    if result.data_type in QUANTIZED:
        unit = 1 << _WEIGHT_BITS
        down, along = (down * unit).round().to(torch.int64), (along * unit).round().to(torch.int64)
        quantized_values = image.to(torch.int64)
        lines = quantized_values * unit
        rows = lines[:, :, left] + (quantized_values[:, :, right] - quantized_values[:, :, left]) * along
        total = rows[:, top] * unit + (rows[:, bottom] - rows[:, top]) * down
        run.write(result.id, (total + (1 << (2 * _WEIGHT_BITS - 1))) >> (2 * _WEIGHT_BITS))
    else:
        x = image.float()
        rows = x[:, :, left] + (x[:, :, right] - x[:, :, left]) * along
        run.write(result.id, rows[:, top] + (rows[:, bottom] - rows[:, top]) * down)


SEMANTICS: Final[dict[str, Semantics]] = {"ResizeBilinear": _resize}
