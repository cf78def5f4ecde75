# SPDX-License-Identifier: Apache-2.0
"""A blob's constants as tensors (the runtime's getConstantData). They are views of the blob.

Two elements of int4 are in one byte, the first in the low nibble, as PyTorch packs weights for the same
kernels (`weight_to_int4pack` in its Quantized.metal).
"""

from __future__ import annotations

import math
import warnings

import torch

from delegatec.backends.mps.blob import Blob
from delegatec.backends.mps.checks import inline_bytes
from delegatec.backends.mps.reference.run import format_dtype, mps_shape, reject


def constant_tensor(blob: Blob, id: int) -> torch.Tensor:
    """Returns a constant as a read-only view of the blob."""
    dtype = format_dtype(blob.graph.mpsValues[id].datatype)
    shape, data = _bytes(blob, id, 8 * dtype.itemsize)
    data_view = _view(data, torch.uint8)
    if data_view.data_ptr() % dtype.itemsize:  # The peer does not align its constants.
        data_view = data_view.clone()
    return data_view.view(dtype).reshape(shape)


def unpack_int4(blob: Blob, id: int) -> torch.Tensor:
    """Returns an int4 constant as int8, in [-8, 8)."""
    shape, data = _bytes(blob, id, 4)
    pairs = _view(data, torch.int8)
    # A left shift and a right shift sign-extend the low nibble.
    return torch.stack([(pairs << 4) >> 4, pairs >> 4], -1).reshape(shape)


def _bytes(blob: Blob, id: int, bits: int) -> tuple[list[int], memoryview]:
    value = blob.graph.mpsValues[id]
    shape = mps_shape(value.dims)
    if inline_bytes(value) is not None:
        reject(f"constant {id} is stored in the FlatBuffer instead of the constant segment")
    data = blob.constant(value)
    if min(shape) < 1 or 8 * len(data) != math.prod(shape) * bits:
        reject(f"constant {id} of shape {shape} and {bits} bits per element has {len(data)} bytes")
    return shape, data


def _view(data: memoryview, dtype: torch.dtype) -> torch.Tensor:
    with warnings.catch_warnings():
        # torch warns that a tensor on read-only memory must not be written; nothing here writes one.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(data, dtype=dtype)
