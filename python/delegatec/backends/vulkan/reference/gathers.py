# SPDX-License-Identifier: Apache-2.0
"""Gathers by indices. An index out of range reads other memory, so it is rejected."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.vulkan_graph import MemoryLayout

from delegatec.backends.vulkan.reference.call import Call, must_pack, same_packed
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import (
    BUFFER,
    CHANNELS,
    HEIGHT,
    TEXTURE_2D,
    WIDTH,
    Tensor,
    reject,
)

_IMAGE: Final = 4


def _indices(run: Run, call: Call, indices: Tensor, size: int) -> torch.Tensor:
    value = run.read(indices)
    outside = (value < 0) | (value >= size)
    if bool(outside.any()):
        reject(f"{call.name} at index {int(value[outside][0])} of a dimension of {size}")
    return value.long()


def _embedding(run: Run, call: Call) -> None:
    weight, indices, out = call.constant(0), call.tensor(1), call.tensor(5)
    if len(weight.sizes) != 2:
        reject(f"{call.name} with a weight of the shape {weight.sizes}")
    old = not indices.is_buffer and indices.packed == CHANNELS
    if old:
        # The weight is an image of the whole vocabulary, which has a limit.
        packed = run.pack(weight, TEXTURE_2D, MemoryLayout.HEIGHT_PACKED)
        must_pack(call.name, HEIGHT, packed)
        must_pack(call.name, CHANNELS, out)
        run.kernel(f"embedding_legacy_{out.shader_dtype}", out, indices, packed)
    else:
        packed = run.pack(weight, BUFFER)
        run.kernel(kernel_name("embedding", out), out, indices, packed)
        if not out.is_buffer:
            must_pack(call.name, WIDTH, out)
            if indices.dim > _IMAGE - 1:
                reject(f"{call.name} at {indices}, which has more than {_IMAGE - 1} dimensions")
    value = run.read(packed)[_indices(run, call, indices, weight.sizes[0])]
    run.write(out, value, resizes=not old)


def _gather(run: Run, call: Call) -> None:
    x, indices, out = call.tensor(0), call.tensor(2), call.tensor(4)
    axis = call.integer(1)
    if not 0 <= axis < x.dim:
        reject(f"{call.name} along dimension {axis} of {x}; it must not be negative")
    run.kernel(kernel_name("gather", out), out, x, indices)
    if not out.is_buffer:
        # The shader reads the index texels at the positions of the result.
        same_packed(call.name, indices, out)
    if x.dim != indices.dim:
        reject(f"{call.name} of {x} at {indices}")
    value = _indices(run, call, indices, x.sizes[axis])
    run.write(out, run.read(x).gather(axis, value))


def _index(run: Run, call: Call) -> None:
    x, lists, out = call.tensor(0), call.list_ids(1), call.tensor(2)
    if len(lists) != 1:
        reject(f"{call.name} with {len(lists)} indices; the runtime supports one")
    indices = run.tensor(lists[0], f"the index of {call.name}")
    if x.dim != 1:
        reject(f"{call.name} of {x}, which must have one dimension")
    run.kernel(kernel_name("index_tensor", out), out, x, indices)
    if not out.is_buffer:
        same_packed(call.name, indices, out)
    run.write(out, run.read(x)[_indices(run, call, indices, x.sizes[0])])


def _index_select(run: Run, call: Call) -> None:
    x, indices, out = call.tensor(0), call.tensor(2), call.tensor(3)
    axis = call.axis(1, x.dim)
    whcn = x.dim - 1 - axis
    must_pack(call.name, CHANNELS, x, indices, out)
    channel = whcn == CHANNELS
    if whcn >= _IMAGE:
        reject(f"{call.name} along dimension {axis} of {x}")
    run.kernel(f"index_select_{'channel_' if channel else ''}{out.shader_dtype}", out, x, indices)
    if indices.dim != 1:
        reject(f"{call.name} at {indices}, which must have one dimension")
    value = _indices(run, call, indices, x.sizes[axis])
    run.write(out, run.read(x).index_select(axis, value), resizes=False)


SEMANTICS: Final[dict[str, Semantics]] = {
    "aten.embedding.default": _embedding,
    "aten.gather.default": _gather,
    "aten.index.Tensor": _index,
    "aten.index_select.default": _index_select,
}
