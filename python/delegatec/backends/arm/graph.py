# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob, for texts and drawings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import NanMode, ResizeMode, RoundingMode

from delegatec.backends.arm.blob import Graph
from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.dtypes import NAMES, STORED, names_of
from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobNode, BlobValue, Family

_FAMILIES: Final = {
    **dict.fromkeys(("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "MATMUL"), Family.COMPUTE),
    **dict.fromkeys(("CLAMP", "ERF", "SIGMOID", "TANH", "TABLE"), Family.ACTIVATION),
    **dict.fromkeys(("AVG_POOL2D", "MAX_POOL2D", "ARGMAX"), Family.REDUCE),
    **dict.fromkeys(("CONCAT", "PAD", "RESHAPE", "REVERSE", "SLICE", "TILE", "TRANSPOSE"), Family.MOVE),
    **dict.fromkeys(("GATHER", "SCATTER"), Family.INDEX),
    **dict.fromkeys(("CAST", "RESCALE", "IDENTITY"), Family.CONVERT),
}

_LIMITS: Final = ("min_val", "max_val")
_ENUMERATIONS: Final = {
    "acc_type": NAMES,
    "mode": names_of(ResizeMode),
    "nan_mode": names_of(NanMode),
    "rounding_mode": names_of(RoundingMode),
}
"""Attribute -> integer value -> name."""


def blob_graph(graph: Graph) -> BlobGraph:
    """Returns the graph of a blob."""
    ids: dict[Value, int] = {}
    counter = itertools.count()
    main, *bodies = (_graph(part, ids, counter) for part in graph.walk())
    return replace(main, bodies=dict(zip(graph.bodies, bodies, strict=True)))


def _graph(graph: Graph, ids: dict[Value, int], counter: Iterator[int]) -> BlobGraph:
    """Returns the graph of one region; `ids` and `numbers` are those of the whole."""
    values = dict.fromkeys(
        [
            *graph.inputs,
            *graph.constants,
            *(value for each in graph.operations for value in (*each.inputs, *each.outputs)),
            # which may be a constant that no operation reads
            *graph.outputs,
        ]
    )
    for value in values:
        ids.setdefault(value, len(ids))
    return BlobGraph(
        "TOSA",
        tuple(_node(next(counter), each, ids) for each in graph.operations),
        {ids[value]: _value(value) for value in values},
        tuple(ids[value] for value in graph.inputs),
        tuple(ids[value] for value in graph.outputs),
        tuple(ids[value] for value in graph.constants),
    )


def _value(value: Value) -> BlobValue:
    literal = "" if value.elements is None else str(list(value.elements))
    size = 0 if value.part is None else len(value.part)
    return BlobValue(NAMES[value.dtype].lower(), value.shape, size, literal)


def _node(index: int, operation: Operation, ids: Mapping[Value, int]) -> BlobNode:
    name = operation.name
    family = Family.REDUCE if name.startswith("REDUCE") else _FAMILIES.get(name, Family.ARITHMETIC)
    given = {key: _attribute(key, each, operation) for key, each in operation.attributes.items()}
    defaults = ("None", "0", "False")
    attributes = {key: text for key, text in given.items() if key in _LIMITS or text not in defaults}
    operands = tuple(("", ids[each]) for each in operation.inputs)
    return BlobNode(index, name, family, operands, tuple(ids[each] for each in operation.outputs), attributes)


def _attribute(key: str, value: Any, operation: Operation) -> str:
    """Returns the text of an attribute; limits are stored as the bytes of one element."""
    if key in _ENUMERATIONS and value:
        return _ENUMERATIONS[key].get(value, str(value)).lower()
    dtype = STORED.get(operation.inputs[0].dtype) if operation.inputs else None
    if key not in _LIMITS or value is None or dtype is None or len(value) != dtype.itemsize:
        return str(value)
    return str(torch.frombuffer(bytearray(value), dtype=dtype).item())
