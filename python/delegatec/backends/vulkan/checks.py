# SPDX-License-Identifier: Apache-2.0
"""Checks of an unpacked blob, so that its users can trust it.

The runtime verifies the FlatBuffer, and the bounds of inline constants; a wrong id aborts it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.common.graph_format import fill_absent, unknown_ids
from delegatec.backends.vulkan.dtypes import FROM_FORMAT

NAMED: Final = 2**64 - 1
"""The offset of constants that are named data."""
_LISTS: Final = ("chain", "values", "inputIds", "outputIds", "constants", "shaders")
_ITEMS: Final = {
    schema.Content.IntList: "items",
    schema.Content.DoubleList: "items",
    schema.Content.BoolList: "items",
    schema.Content.ValueList: "items",
    schema.Content.Tensor: "dims",
}
_EXCHANGED: Final = {
    "inputIds": {schema.Content.Tensor: "a tensor", schema.Content.SymInt: "a SymInt"},
    "outputIds": {schema.Content.Tensor: "a tensor"},
}
"""List of values that the caller exchanges -> types that the runtime copies, and their names."""
_STORAGE_TYPES: Final = frozenset(
    {schema.StorageType.BUFFER, schema.StorageType.TEXTURE_3D, schema.StorageType.TEXTURE_2D}
)
_LAYOUTS: Final = frozenset(
    value for name, value in vars(schema.MemoryLayout).items() if not name.startswith("_")
)


def fill_lists(graph: schema.GraphT) -> None:
    """Replaces absent lists of the graph, its values and calls by empty ones."""
    fill_absent(graph, *_LISTS)
    for value in graph.values:
        if value.contentType in _ITEMS and value.content is not None:
            fill_absent(value.content, _ITEMS[value.contentType])
    for call in graph.chain:
        fill_absent(call, "args")


def problems_of(graph: schema.GraphT, segment: int) -> Iterator[str]:
    """Yields all problems of a graph.

    Args:
        graph: after `fill_lists`.
        segment: number of bytes after the FlatBuffer.
    """
    count = len(graph.values)
    for name, kinds in _EXCHANGED.items():
        ids = getattr(graph, name)
        yield from unknown_ids(f"{name} contains", ids, count)
        for id in ids:
            if 0 <= id < count and graph.values[id].contentType not in kinds:
                yield f"{name} contains value {id}, which is not {' or '.join(kinds.values())}"
    for id, value in enumerate(graph.values):
        yield from _of_value(id, value, graph, segment)
    for index, call in enumerate(graph.chain):
        if not call.name:
            yield f"call {index} has no operator"
        if not len(call.args):
            # the last argument is the result
            yield f"call {index} has no arguments"
        yield from unknown_ids(f"call {index} uses", call.args, count)


def _of_value(id: int, value: schema.ValueT, graph: schema.GraphT, segment: int) -> Iterator[str]:
    content: Any = value.content
    if content is None:
        yield f"unknown type of value {id}: {value.contentType}"
    elif value.contentType == schema.Content.ValueList:
        # the runtime creates values in order
        for item in content.items:
            if not 0 <= item < id:
                yield f"value {id} lists value {item}, which does not precede it"
            elif graph.values[item].contentType == schema.Content.ValueList:
                yield f"value {id} lists value {item}, which is a list"
    elif value.contentType == schema.Content.Tensor:
        yield from _of_tensor(id, content, graph, segment)


def _of_tensor(id: int, tensor: schema.TensorT, graph: schema.GraphT, segment: int) -> Iterator[str]:
    if tensor.dataType not in FROM_FORMAT:
        yield f"unknown type of tensor {id}: {tensor.dataType}"
        return
    if tensor.storageType not in {*_STORAGE_TYPES, schema.StorageType.DEFAULT}:
        yield f"unknown storage type of tensor {id}: {tensor.storageType}"
    if tensor.memoryLayout not in _LAYOUTS:
        yield f"unknown memory layout of tensor {id}: {tensor.memoryLayout}"
    if tensor.constantId < 0:
        return
    if tensor.constantId >= len(graph.constants):
        yield f"tensor {id} is constant {tensor.constantId}, but there are {len(graph.constants)}"
        return
    data = graph.constants[tensor.constantId]
    size = math.prod(int(dim) for dim in tensor.dims) * FROM_FORMAT[tensor.dataType].itemsize
    if data.length < size:
        yield f"constant {tensor.constantId} has {data.length} bytes, and tensor {id} has {size}"
    if data.offset == NAMED:
        if not data.key:
            yield f"constant {tensor.constantId} has no key"
    elif data.offset + size > segment:
        end = data.offset + size
        yield f"constant {tensor.constantId} is [{data.offset}, {end}) of a segment of {segment} bytes"
