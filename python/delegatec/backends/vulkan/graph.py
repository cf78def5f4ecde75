# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob, for texts and drawings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import torch
from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.vulkan.blob import Blob
from delegatec.backends.vulkan.checks import NAMED
from delegatec.backends.vulkan.dtypes import FROM_FORMAT
from delegatec.backends.vulkan.memory.representation import Representation
from delegatec.backends.vulkan.memory.sharing import PREPACK, allocated_bytes, stored_bytes, tensor_ids
from delegatec.backends.vulkan.memory.transitions import operator_name, transitions
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
# Arguments of the runtime's own operators that add some to those of an operator of ATen.
_EXTENDED: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "et_vk.conv_with_clamp.default": ("aten.convolution.default", ("minimum", "maximum")),
}
_REPRESENTATIONS: Final = {each.value: each for each in Representation}
# The value of a SymInt, which only a caller's integer has.
_SCALAR: Final = BlobValue("i32", (), note="scalar")
# Named in a note, at most.
_MOST_TRANSITIONS: Final = 8


def blob_graph(blob: Blob) -> BlobGraph:
    """Returns the graph of a blob."""
    graph = blob.graph
    tensors = {
        id: _value(value.content, graph)
        for id, value in enumerate(graph.values)
        if value.contentType == schema.Content.Tensor
    }
    scalars = {id: _SCALAR for id in graph.inputIds if id not in tensors}
    moves = {
        each.call: f"{_memory_of(graph, each.source)} to {_memory_of(graph, each.result)}"
        for each in transitions(graph)
    }
    totals = _totals(graph)
    return BlobGraph(
        title="Vulkan graph",
        nodes=tuple(
            _node(index, call, graph, moves.get(index, "")) for index, call in enumerate(graph.chain)
        ),
        values={**tensors, **scalars},
        inputs=tuple(graph.inputIds),
        outputs=tuple(graph.outputIds),
        constants=tuple(id for id in tensors if graph.values[id].content.constantId >= 0),
        notes=tuple(_notes(graph, totals)),
        totals=totals,
    )


def _totals(graph: schema.GraphT) -> dict[str, int]:
    contents = [value.content for value in graph.values if value.contentType == schema.Content.Tensor]
    shared = [tensor for tensor in contents if tensor.memoryId >= 0]
    packed = [
        id
        for call in graph.chain
        if operator_name(call) == PREPACK
        for id in tensor_ids(graph, call.args[-1])
    ]
    found = list(transitions(graph))
    return {
        "device_bytes": allocated_bytes(graph),
        "allocations": len({tensor.memoryId for tensor in shared}),
        "tensors": len(shared),
        "tensor_bytes": sum(map(stored_bytes, shared)),
        "packed_bytes": sum(stored_bytes(graph.values[id].content) for id in packed),
        "transitions": len(found),
        "moved_bytes": sum(each.moved for each in found),
    }


def _notes(graph: schema.GraphT, totals: Mapping[str, int]) -> Iterable[str]:
    yield (
        f"memory on the device: {totals['device_bytes']:,} B in {totals['allocations']} allocations, shared "
        f"by {totals['tensors']} tensors of {totals['tensor_bytes']:,} B"
    )
    if totals["packed_bytes"]:
        yield f"constants copied before the first run: {totals['packed_bytes']:,} B, and those of operators"
    between = "transitions between storages or layouts"
    if not totals["transitions"]:
        yield f"{between}: none"
        return
    first = itertools.islice(transitions(graph), _MOST_TRANSITIONS)
    named = [f"%{each.source} to %{each.result}" for each in first]
    more = totals["transitions"] - len(named)
    listed = ", ".join([*named, *([f"and {more} more"] if more else [])])
    yield f"{between}: {totals['transitions']}, moving {totals['moved_bytes']:,} B: {listed}"


def _value(tensor: schema.TensorT, graph: schema.GraphT) -> BlobValue:
    dtype, shape = _SHORT[tensor.dataType], tuple(int(dim) for dim in tensor.dims)
    if tensor.constantId >= 0:
        data = graph.constants[tensor.constantId]
        note = "named data" if data.offset == NAMED else f"at {data.offset}"
        return BlobValue(dtype, shape, FROM_FORMAT[tensor.dataType].itemsize * math.prod(shape), note=note)
    facts: dict[str, int | str] = {"storage": _stored_in(tensor), "bytes": stored_bytes(tensor)}
    memory = ""
    if tensor.memoryId >= 0:
        facts["memory"] = tensor.memoryId
        memory = f"memory {tensor.memoryId}, "
    return BlobValue(dtype, shape, note=f"{facts['storage']}, {memory}{facts['bytes']} B", placement=facts)


def _memory_of(graph: schema.GraphT, id: int) -> str:
    return _stored_in(graph.values[id].content)


def _stored_in(tensor: schema.TensorT) -> str:
    key = (tensor.storageType, tensor.memoryLayout)
    return str(_REPRESENTATIONS.get(key, f"storage {key[0]}, layout {key[1]}"))


def _node(index: int, call: schema.OperatorCallT, graph: schema.GraphT, move: str) -> BlobNode:
    name = operator_name(call)
    *operands, result = call.args
    attributes = {
        argument: _text(graph.values[id].content)
        for argument, id in zip(_argument_names(name, len(operands)), operands, strict=True)
        if not tensor_ids(graph, id) and graph.values[id].contentType != schema.Content.Null
    }
    if move:
        attributes["transition"] = move
    return BlobNode(
        identifier=index,
        operation=name,
        family=_family(name),
        operands=tuple(("", each) for id in operands for each in tensor_ids(graph, id)),
        results=tuple(tensor_ids(graph, result)),
        attributes=attributes,
    )


def _argument_names(name: str, count: int) -> list[str]:
    """Returns the names of an operator's arguments: those of torch's schema; their positions if unknown."""
    known, more = _EXTENDED.get(name, (name, ()))
    found: Any = torch.ops
    for part in known.split("."):
        found = getattr(found, part, None)
    names = (
        [each.name for each in found._schema.arguments] if isinstance(found, torch._ops.OpOverload) else []
    )
    names = [*names, *more]
    return names if len(names) == count else [*names[:count], *map(str, range(len(names), count))]


def _family(name: str) -> Family:
    short = name.split(".")[1] if "." in name else name
    return next((family for family, prefixes in _FAMILIES if short.startswith(prefixes)), Family.ARITHMETIC)


def _text(content: Any) -> str:
    value = vars(content).get("value", vars(content).get("items"))
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        return f"{value:g}"
    return str([*value] if hasattr(value, "__len__") and not isinstance(value, str) else value)
