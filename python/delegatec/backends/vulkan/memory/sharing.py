# SPDX-License-Identifier: Apache-2.0
"""Sharing of memory by tensors whose lives do not overlap.

Tensors of one memory id share an allocation as large as the largest of them. A tensor lives from the call
that computes it to the last call that reads it; inputs from the start, outputs to the end. Packed constants
have separate memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.vulkan.dtypes import FROM_FORMAT
from delegatec.backends.vulkan.memory.allocations import Life, allocate
from delegatec.backends.vulkan.memory.representation import Representation, stored_elements

PREPACK = "et_vk.prepack.default"
"""The operator that copies a constant to a tensor, before the first run."""


def share_memory(graph: schema.GraphT) -> None:
    """Sets the memory ids of all tensors that calls compute, and of inputs."""
    for index, allocation in enumerate(allocate(_lives(graph))):
        for life in allocation.lives:
            graph.values[life.id].content.memoryId = index


def allocated_bytes(graph: schema.GraphT) -> int:
    """Returns the bytes of all shared allocations of a graph."""
    sizes: dict[int, int] = {}
    for value in graph.values:
        if value.contentType == schema.Content.Tensor and value.content.memoryId >= 0:
            tensor = value.content
            sizes[tensor.memoryId] = max(sizes.get(tensor.memoryId, 0), stored_bytes(tensor))
    return sum(sizes.values())


def stored_bytes(tensor: schema.TensorT) -> int:
    """Returns the size of a tensor on the device, with the padding of texels.

    Blobs of other writers have representations that ours never have; their tensors count without padding.
    """
    storage = (tensor.storageType, tensor.memoryLayout)
    if any(each.value == storage for each in Representation):
        elements = stored_elements(tensor.dims, Representation(storage))
    else:
        elements = math.prod(map(int, tensor.dims))
    return elements * FROM_FORMAT[tensor.dataType].itemsize


def _lives(graph: schema.GraphT) -> Iterator[Life]:
    end = len(graph.chain)
    first: dict[int, int] = dict.fromkeys(graph.inputIds, -1)
    last: dict[int, int] = {}
    packed = set()
    for index, call in enumerate(graph.chain):
        ids = [each for id in call.args for each in tensor_ids(graph, id)]
        if call.name == PREPACK:
            packed.update(ids)
        for id in ids:
            first.setdefault(id, index)
            last[id] = index
    for id in graph.outputIds:
        last[id] = end
    for id, start in first.items():
        tensor = graph.values[id].content
        if tensor.constantId < 0 and id not in packed:
            yield Life(id, stored_bytes(tensor), start, last.get(id, start))


def tensor_ids(graph: schema.GraphT, id: int) -> list[int]:
    """Returns the tensors in an argument of a call: one, those of a list, or none."""
    value = graph.values[id]
    if value.contentType == schema.Content.ValueList:
        return [each for item in value.content.items for each in tensor_ids(graph, item)]
    return [id] if value.contentType == schema.Content.Tensor else []
