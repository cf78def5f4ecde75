# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob as a `BlobGraph`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from delegatec_schemas.mps_graph import DataType, GraphType, NodeT, ValueT

from delegatec.backends.mps.blob import Blob
from delegatec.backends.mps.checks import BITS, inline_bytes
from delegatec.backends.mps.operands import NO_OPERANDS, OPERATION_NAMES, RESULTS, ids_of, result_ids
from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobNode, BlobValue, Family

_DTYPES: Final[dict[int, str]] = {
    value: name.lower().replace("float", "f").replace("uint", "u").replace("int", "i")
    for name, value in vars(DataType).items()
    if not name.startswith("_")
}
_LITERALS: Final = {
    DataType.FLOAT16: "<f2",
    DataType.FLOAT32: "<f4",
    DataType.INT8: "i1",
    DataType.INT16: "<i2",
    DataType.INT32: "<i4",
    DataType.INT64: "<i8",
    DataType.BOOL: "?",
}

FAMILIES: Final[dict[Family, tuple[str, ...]]] = {
    Family.COMPUTE: ("MatMul", "Addmm", "Conv2D", "DepthwiseConv2D"),
    Family.ACTIVATION: ("HardTanh", "Relu", "Gelu", "LeakyRelu", "Sigmoid", "Tanh", "Clamp"),
    Family.NORMALIZE: ("Softmax", "LogSoftmax", "BatchNorm", "LayerNorm"),
    Family.REDUCE: ("Mean", "MaxPool2DWithIndices", "AvgPool2D"),
    Family.INDEX: ("IndexSelect", "Embedding", "IndexTensor", "IndexPut", "Scatter"),
    Family.MOVE: (
        *("Permute", "View", "Expand", "Cat", "Squeeze", "Unsqueeze", "Select", "Slice", "PixelShuffle"),
        *("SplitWithSizes", "ConstantPadND"),
    ),
    Family.CONVERT: ("Cast", "Full", "FullLike", "Arange", "DequantizePerChannelGroup"),
}
_FAMILY: Final = {name: family for family, names in FAMILIES.items() for name in names}

_ROLES: Final[dict[str, dict[str, str]]] = {
    "Conv2D": {"input2Id": "weight", "input3Id": "bias"},
    "DepthwiseConv2D": {"input2Id": "weight", "input3Id": "bias"},
    "Embedding": {"input1Id": "weight", "input2Id": "indices"},
}
# Fields of one axis each, in the order in which they are written, under one name.
_JOINED: Final[dict[str, tuple[str, ...]]] = {
    "kernel": ("kernelHeight", "kernelWidth"),
    "stride": ("strideY", "strideX", "strideHeight", "strideWidth"),
    "dilation": ("dilationY", "dilationX", "dilationHeight", "dilationWidth"),
    "padding": ("paddingTop", "paddingBottom", "paddingLeft", "paddingRight"),
}
# Omitted: defaults, sizes in the result's shape, element counts of other fields.
_NEUTRAL: Final[dict[str, str]] = {
    "alpha": "1",
    "beta": "1",
    "groups": "1",
    "dilation": "1x1",
    "padding": "0",
    "step": "1",
    "divisor_override": "0",
    "padding_idx": "-1",
    "ceil_mode": "False",
    "rounding_mode": "none",
    "approximate": "none",
    "half_to_float": "False",
    "scale_grad_by_freq": "False",
    "sparse": "False",
    "keep_dims": "False",
}
_IMPLIED: Final = frozenset({"numDims", "shape", "normalizedShape", "valuesShape", "momentum"})
_NOT_READ: Final = frozenset(
    {("MaxPool2DWithIndices", "countIncludePad"), ("MaxPool2DWithIndices", "divisorOverride")}
)
_PADDED: Final = "padding"


_BITWISE: Final = frozenset({"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"})
_NOT_EVERYWHERE: Final = (
    ("macOS 12.3 and iOS 15.4", frozenset({"Scatter"})),
    ("macOS 13 and iOS 16.1", _BITWISE),
    ("macOS 15 and iOS 18", frozenset({"DequantizePerChannelGroup"})),
)
"""Minimum system versions for operations: on older ones the runtime does not load the delegate."""


def blob_graph(blob: Blob) -> BlobGraph:
    """Returns the graph of a blob."""
    graph = blob.graph
    constants = set(graph.constantIds)
    is_kernel = graph.graphType == GraphType.METAL_KERNEL
    return BlobGraph(
        title="Metal kernel" if is_kernel else "MPSGraph",
        nodes=tuple(_node(index, node) for index, node in enumerate(graph.mpsNodes)),
        values={id: _value(blob, value, id in constants) for id, value in enumerate(graph.mpsValues)},
        inputs=tuple(graph.inputIds),
        outputs=tuple(graph.outputIds),
        constants=tuple(graph.constantIds),
        notes=tuple(_notes(blob, is_kernel)),
    )


def _notes(blob: Blob, is_kernel: bool) -> Iterable[str]:
    if is_kernel:
        yield "no released runtime can run a graph of this type"
    if any(inline_bytes(blob.graph.mpsValues[id]) is not None for id in blob.graph.constantIds):
        yield "constants are stored in the FlatBuffer, which runtimes of ExecuTorch 1.4 do not support"

    needed = [node for node in blob.graph.mpsNodes if not _is_logical(blob, node)]
    used = {OPERATION_NAMES[node.mpsnodeUnionType] for node in needed}
    for systems, names in _NOT_EVERYWHERE:
        if names & used:
            yield f"{', '.join(sorted(names & used))}: from {systems} on"


def _is_logical(blob: Blob, node: NodeT) -> bool:
    """Whether a node is a BitwiseNot of bools, which every system has."""
    if OPERATION_NAMES[node.mpsnodeUnionType] != "BitwiseNot" or node.mpsnodeUnion.input1Id < 0:
        return False
    return bool(blob.graph.mpsValues[node.mpsnodeUnion.input1Id].datatype == DataType.BOOL)


def _value(blob: Blob, value: ValueT, is_constant: bool) -> BlobValue:
    dtype, shape = _DTYPES[value.datatype], tuple(value.dims)
    if not is_constant:
        return BlobValue(dtype, shape)
    note = "inline" if inline_bytes(value) is not None else f"at {value.segmentOffset}"
    if value.segmentOffset * 8 % BITS[value.datatype]:
        note += ", not aligned"
    return BlobValue(dtype, shape, int(value.constantBufferSize), _literal(blob, value), note)


def _literal(blob: Blob, value: ValueT) -> str:
    layout = _LITERALS.get(value.datatype)
    data = blob.constant(value)
    if layout is None or len(data) != np.dtype(layout).itemsize:
        return ""
    scalar = np.frombuffer(data, layout)[0]
    return f"{float(scalar):g}" if layout[1:2] == "f" else str(scalar)


def _node(index: int, node: NodeT) -> BlobNode:
    name, fields = OPERATION_NAMES[node.mpsnodeUnionType], vars(node.mpsnodeUnion)
    roles = _ROLES.get(name, {})
    operands: list[tuple[str, int]] = []
    for field, content in fields.items():
        if field in RESULTS or field in NO_OPERANDS.get(name, ()):
            continue
        role = roles.get(field, "" if field.startswith("input") else field.removesuffix("Id"))
        # Optional operands have a role.
        operands += [(_snake(role), id) for id in ids_of(field, content) if id >= 0 or not role]
    return BlobNode(
        identifier=index,
        operation=name,
        family=_FAMILY.get(name, Family.ARITHMETIC),
        operands=tuple(operands),
        results=tuple(result_ids(node)),
        attributes=_attributes(name, fields, node),
    )


def _attributes(operation: str, fields: Mapping[str, Any], node: NodeT) -> dict[str, str]:
    texts: dict[str, str] = {}
    joined = {field: name for name, several in _JOINED.items() for field in several}
    for field, content in fields.items():
        if field.endswith(("Id", "Ids")) or field in _IMPLIED or (operation, field) in _NOT_READ:
            continue
        if field in joined:
            name = joined[field]
            if name not in texts:
                several = [str(fields[part]) for part in _JOINED[name] if part in fields]
                is_uniform = name == _PADDED and len(set(several)) == 1
                texts[name] = several[0] if is_uniform else ("," if name == _PADDED else "x").join(several)
        else:
            texts[_snake(field)] = _text(field, content)
    if node.minMax is not None:
        texts |= {"min": f"{node.minMax.minValue:g}", "max": f"{node.minMax.maxValue:g}"}
    infinite = {"min": "-inf", "max": "inf"}
    return {
        name: text for name, text in texts.items() if text not in (_NEUTRAL.get(name), infinite.get(name), "")
    }


def _text(field: str, content: Any) -> str:
    if field.lower().endswith("dtype"):
        return _DTYPES.get(content, str(content))
    if isinstance(content, bytes):
        return content.decode("utf-8", "backslashreplace")
    if isinstance(content, float):
        return f"{content:g}"
    if content is None:
        return ""
    return str(content.tolist()) if hasattr(content, "tolist") else str(content)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
