# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob, for texts and drawings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.vulkan.blob import Blob
from delegatec.backends.vulkan.checks import NAMED
from delegatec.backends.vulkan.dtypes import FROM_FORMAT
from delegatec.backends.vulkan.memory.representation import Representation
from delegatec.backends.vulkan.memory.sharing import allocated_bytes
from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobNode, BlobValue, Family

_SHORT: Final = {
    schema.DataType.BOOL: "bool",
    schema.DataType.UINT8: "u8",
    schema.DataType.INT8: "i8",
    schema.DataType.INT32: "i32",
    schema.DataType.INT64: "i64",
    schema.DataType.FLOAT16: "f16",
    schema.DataType.FLOAT32: "f32",
    schema.DataType.FLOAT64: "f64",
}
_FAMILIES: Final = (
    (Family.COMPUTE, ("linear", "mm", "bmm", "addmm", "conv", "sdpa")),
    (Family.NORMALIZE, ("native_layer_norm", "native_group_norm", "rms_norm", "_native_batch_norm")),
    (Family.REDUCE, ("mean", "sum", "amax", "amin", "argmax", "argmin", "max_pool", "avg_pool", "_softmax")),
    (Family.REDUCE, ("_log_softmax",)),
    (Family.INDEX, ("embedding", "gather", "index", "grid_sampler")),
    (Family.CONVERT, ("_to_copy", "_to_dim_order_copy", "full", "arange", "prepack", "clone")),
    (Family.MOVE, ("view", "permute", "select", "slice", "cat", "split", "expand", "flip", "repeat")),
    (Family.MOVE, ("constant_pad", "squeeze", "unsqueeze", "pixel_shuffle", "upsample")),
    (Family.ACTIVATION, ("gelu", "relu", "sigmoid", "tanh", "hard", "clamp", "leaky_relu", "exp")),
)


def blob_graph(blob: Blob) -> BlobGraph:
    """Returns the graph of a blob."""
    graph = blob.graph
    tensors = {
        id: _value(value.content, graph)
        for id, value in enumerate(graph.values)
        if value.contentType == schema.Content.Tensor
    }
    constants = [id for id in tensors if graph.values[id].content.constantId >= 0]
    return BlobGraph(
        title="Vulkan graph",
        nodes=tuple(_node(index, call, graph) for index, call in enumerate(graph.chain)),
        values=tensors,
        inputs=tuple(graph.inputIds),
        outputs=tuple(graph.outputIds),
        constants=tuple(constants),
        notes=(f"{allocated_bytes(graph):,} bytes of shared memory on the device",),
    )


def _value(tensor: schema.TensorT, graph: schema.GraphT) -> BlobValue:
    dtype, shape = _SHORT[tensor.dataType], tuple(int(dim) for dim in tensor.dims)
    if tensor.constantId >= 0:
        data = graph.constants[tensor.constantId]
        note = "named data" if data.offset == NAMED else f"at {data.offset}"
        return BlobValue(dtype, shape, FROM_FORMAT[tensor.dataType].itemsize * math.prod(shape), note=note)
    storage = (tensor.storageType, tensor.memoryLayout)
    known = {each.value: str(each) for each in Representation}
    memory = f", memory {tensor.memoryId}" if tensor.memoryId >= 0 else ""
    return BlobValue(dtype, shape, note=known.get(storage, f"storage {storage}") + memory)


def _node(index: int, call: schema.OperatorCallT, graph: schema.GraphT) -> BlobNode:
    name = call.name.decode("utf-8", "backslashreplace") if isinstance(call.name, bytes) else call.name
    *operands, result = call.args
    attributes = {
        str(place): _text(graph.values[id].content)
        for place, id in enumerate(operands)
        if not list(_tensors(graph, id)) and graph.values[id].contentType != schema.Content.Null
    }
    return BlobNode(
        identifier=index,
        operation=name,
        family=_family(name),
        operands=tuple(("", each) for id in operands for each in _tensors(graph, id)),
        results=tuple(_tensors(graph, result)),
        attributes=attributes,
    )


def _family(name: str) -> Family:
    short = name.split(".")[1] if "." in name else name
    return next((family for family, prefixes in _FAMILIES if short.startswith(prefixes)), Family.ARITHMETIC)


def _tensors(graph: schema.GraphT, id: int) -> Iterator[int]:
    value = graph.values[id]
    if value.contentType == schema.Content.Tensor:
        yield id
    elif value.contentType == schema.Content.ValueList:
        for item in value.content.items:
            yield from _tensors(graph, item)


def _text(content: Any) -> str:
    value = vars(content).get("value", vars(content).get("items"))
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        return f"{value:g}"
    return str([*value] if hasattr(value, "__len__") and not isinstance(value, str) else value)
