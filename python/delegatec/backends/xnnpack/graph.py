# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob, for texts and drawings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Quantization

from delegatec.backends.xnnpack.blob import Blob
from delegatec.backends.xnnpack.checking.values import INPUT, NAMED, OUTPUT, stored_bytes
from delegatec.backends.xnnpack.operands import OPERATION_NAMES, operand_fields, packed_ids, result_ids
from delegatec.backends.xnnpack.values import external_ids, quantization_of, tensor_of
from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobNode, BlobValue, Family

_SHORT: Final = {
    DataType.FLOAT32: "f32",
    DataType.FLOAT16: "f16",
    DataType.BFLOAT16: "bf16",
    DataType.INT32: "i32",
    DataType.INT8: "i8",
    DataType.UINT8: "u8",
    DataType.BIAS_INT32: "i32",
    DataType.CHANNEL_INT8: "i8",
    DataType.CHANNEL_INT32: "i32",
    DataType.CHANNEL_INT4: "i4",
    DataType.GROUP_INT4: "i4",
    DataType.DYNAMIC_INT8: "i8",
}
_FAMILIES: Final = (
    (Family.COMPUTE, ("FullyConnected", "BatchMatrixMultiply", "Convolution", "Depthwise", "Transposed")),
    (Family.REDUCE, ("Softmax", "AveragePooling", "GlobalAverage", "MaxPooling", "ArgMax")),
    (Family.CONVERT, ("Convert", "Copy")),
    (Family.MOVE, ("Transpose", "Reshape", "Slice", "ConstantPad", "Concatenate", "ResizeBilinear")),
    (Family.ACTIVATION, ("Sigmoid", "Clamp", "HardSwish", "LeakyRelu", "Elu", "Prelu", "Gelu", "Tanh")),
)
# Fields whose default is 0, or 1.
_ZEROS: Final = ("padding", "adjustment", "flags")
_ONES: Final = ("dilation", "groups")


def blob_graph(blob: Blob) -> BlobGraph:
    """Returns the graph of a blob. Its nodes are numbered in order, as in debug maps."""
    graph = blob.graph
    tensors = [tensor_of(value) for value in graph.values]
    totals = _totals(graph)
    kept = blob.kept_ids
    return BlobGraph(
        title="XNNPACK graph",
        nodes=tuple(_node(index, node) for index, node in enumerate(graph.nodes)),
        values={int(tensor_of(value).id): _value(value, graph) for value in graph.values},
        inputs=tuple(external_ids(graph, INPUT)),
        outputs=tuple(external_ids(graph, OUTPUT)),
        constants=tuple(int(tensor.id) for tensor in tensors if tensor.constantId),
        notes=tuple(_notes(totals, sum(stored_bytes(each) for each in tensors if each.id in kept))),
        totals=totals,
    )


def _totals(graph: schema.GraphT) -> dict[str, int]:
    constants = {int(tensor_of(value).id): value for value in graph.values if tensor_of(value).constantId}
    packed = {id for node in graph.nodes for id in packed_ids(node)} & constants.keys()
    by_type: Counter[str] = Counter()
    for value in constants.values():
        by_type[_SHORT[tensor_of(value).dataType]] += stored_bytes(tensor_of(value))
    return {
        "constants": len(constants),
        "constant_bytes": sum(by_type.values()),
        "packed_bytes": sum(stored_bytes(tensor_of(constants[id])) for id in packed),
        "conversions": sum(OPERATION_NAMES[node.operationType] == "Convert" for node in graph.nodes),
        **{f"{dtype}_bytes": size for dtype, size in sorted(by_type.items())},
    }


def _notes(totals: dict[str, int], kept_bytes: int) -> Iterable[str]:
    if not totals["constants"]:
        return
    yield f"copied into memory of the runtime when it is loaded: {totals['packed_bytes']:,} B"
    if kept_bytes:
        yield f"constants of the blob that are read at each run: {kept_bytes:,} B"


def _value(value: schema.ValueT, graph: schema.GraphT) -> BlobValue:
    tensor = tensor_of(value)
    parts = [_scales(value)]
    size = 0
    if tensor.constantId:
        size = stored_bytes(tensor)
        data = graph.constants[tensor.constantId]
        parts.append("named data" if data.offset == NAMED else f"at {data.offset}")
    return BlobValue(
        _SHORT[tensor.dataType],
        tuple(int(dim) for dim in tensor.dims),
        size,
        note=", ".join(part for part in parts if part),
    )


def _scales(value: schema.ValueT) -> str:
    """Returns how a value is quantized; nothing if it is not."""
    tensor, (kind, table) = tensor_of(value), quantization_of(value)
    if kind == Quantization.ScaleOfTensor:
        return f"scale {table.scale:g}, zero point {table.zeroPoint}"
    if kind == Quantization.ScalesOfChannels:
        return f"{int(tensor.dims[table.channelDim])} scales along dimension {table.channelDim}"
    if kind == Quantization.ScalesOfGroups:
        count = math.prod(int(dim) for dim in tensor.dims) // table.groupSize
        return f"{count} scales, of groups of {table.groupSize}"
    if kind == Quantization.ScalesOfRows:
        last = "" if table.numRowDims == 1 else f" of the last {table.numRowDims} dimensions"
        return f"dynamic scales of rows{last}"
    return ""


def _node(index: int, node: schema.NodeT) -> BlobNode:
    name = OPERATION_NAMES[node.operationType]
    fields = operand_fields(node)
    return BlobNode(
        identifier=index,
        operation=name,
        family=_family(name),
        operands=tuple(
            (field.removesuffix("Id") if len(fields) > 1 and not field.startswith("input") else "", id)
            for field, id in fields
        ),
        results=tuple(result_ids(node)),
        attributes=_attributes(node),
    )


def _family(name: str) -> Family:
    if name == "Transpose":
        return Family.MOVE
    return next((family for family, prefixes in _FAMILIES if name.startswith(prefixes)), Family.ARITHMETIC)


def _attributes(node: schema.NodeT) -> dict[str, str]:
    found = {}
    for field, content in vars(node.operation).items():
        usual = field.startswith(_ZEROS) and content == 0
        usual |= field.startswith(_ONES) and content == 1
        if field.endswith("Id") or field == "numDims" or usual:
            continue
        found[_words(field)] = _text(content)
    if node.limits is not None:
        found["least"], found["most"] = f"{node.limits.least:g}", f"{node.limits.most:g}"
    return found


def _words(field: str) -> str:
    """Returns the name of a field as in the schema."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)


def _text(content: Any) -> str:
    return f"{content:g}" if isinstance(content, float) else str(content)
