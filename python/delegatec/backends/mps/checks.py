# SPDX-License-Identifier: Apache-2.0
"""Checks of an unpacked blob, so that its users can trust it.

The runtime does not check anything: an id or an offset that is out of bounds is undefined behavior there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from delegatec_schemas import mps_graph as schema

from delegatec.backends.common.graph_format import fill_absent, unknown_ids
from delegatec.backends.mps.operands import value_ids

# Bits per element, for all types of the format.
BITS: Final[dict[int, int]] = {
    **dict.fromkeys((schema.DataType.INT4, schema.DataType.UINT4), 4),
    **dict.fromkeys((schema.DataType.INT8, schema.DataType.UINT8, schema.DataType.BOOL), 8),
    **dict.fromkeys((schema.DataType.FLOAT16, schema.DataType.BFLOAT16), 16),
    **dict.fromkeys((schema.DataType.INT16, schema.DataType.UINT16), 16),
    **dict.fromkeys((schema.DataType.FLOAT32, schema.DataType.COMPLEX_FLOAT16), 32),
    **dict.fromkeys((schema.DataType.INT32, schema.DataType.UINT32), 32),
    **dict.fromkeys((schema.DataType.FLOAT64, schema.DataType.COMPLEX_FLOAT32), 64),
    **dict.fromkeys((schema.DataType.INT64, schema.DataType.UINT64), 64),
}
# The runtime reads as many elements of a vector as the count next to it specifies.
_COUNTED: Final = ("dims", "shape", "perm")
_LISTS: Final = ("inputIds", "outputIds", "constantIds")


def storage_size(datatype: int, dims: list[int]) -> int:
    """Returns the bytes of a tensor of a type of the format; two values of four bits share a byte."""
    return (math.prod(dims) * BITS[datatype] + 7) // 8


def fill_lists(graph: schema.GraphT) -> None:
    """Replaces absent lists of the graph and its values by empty ones."""
    fill_absent(graph, "mpsNodes", "mpsValues", *_LISTS)
    for value in graph.mpsValues:
        fill_absent(value, "dims")


def problems_of(graph: schema.GraphT, segment: int) -> Iterator[str]:
    """Yields all problems of a graph.

    Args:
        graph: after `fill_lists`.
        segment: bytes of the constant segment.
    """
    if graph.graphType not in (schema.GraphType.MPS_GRAPH, schema.GraphType.METAL_KERNEL):
        yield f"unknown type of the graph: {graph.graphType}"
    count = len(graph.mpsValues)
    for name in _LISTS:
        yield from unknown_ids(f"{name} contains", getattr(graph, name), count)
    for id in sorted(set(graph.inputIds) & set(graph.constantIds)):
        yield f"value {id} is both an input and a constant"
    for id, value in enumerate(graph.mpsValues):
        yield from _of_value(id, value)
    for index, node in enumerate(graph.mpsNodes):
        yield from _of_node(index, node, count)
    yield from _of_constants(graph, segment)


def _of_value(id: int, value: schema.ValueT) -> Iterator[str]:
    if value.datatype not in BITS:
        yield f"unknown type of value {id}: {value.datatype}"
    if value.numDims != len(value.dims):
        yield f"value {id} has {len(value.dims)} dimensions, but specifies {value.numDims}"
    if any(size < 0 for size in value.dims):
        yield f"invalid shape of value {id}: {value.dims}"


def _of_node(index: int, node: schema.NodeT, count: int) -> Iterator[str]:
    operation: Any = node.mpsnodeUnion
    if operation is None:
        yield f"unknown operation of node {index}: type {node.mpsnodeUnionType}"
        return
    yield from unknown_ids(f"node {index} uses", value_ids(operation), count, least=-1)
    fields = vars(operation)
    if "numDims" in fields:
        name = next(name for name in _COUNTED if name in fields)
        length = 0 if fields[name] is None else len(fields[name])
        if fields["numDims"] != length:
            yield f"node {index} has {length} elements in {name}, but specifies {fields['numDims']}"


def _of_constants(graph: schema.GraphT, segment: int) -> Iterator[str]:
    runs: set[tuple[int, int, int]] = set()
    for id in dict.fromkeys(graph.constantIds):
        if not 0 <= id < len(graph.mpsValues):
            continue
        value = graph.mpsValues[id]
        size = int(value.constantBufferSize)
        if value.datatype in BITS and size != storage_size(value.datatype, value.dims):
            yield (
                f"constant {id} of shape {value.dims} has {size} bytes, "
                f"not {storage_size(value.datatype, value.dims)}"
            )
        inline = inline_bytes(value)
        if inline is not None:
            if len(inline) != size:
                yield f"constant {id} has {len(inline)} inline bytes, but specifies {size}"
            continue
        begin, end = int(value.segmentOffset), int(value.segmentOffset) + size
        if size == 0 or end > segment:
            yield f"constant {id} is [{begin}, {end}) of a segment of {segment} bytes"
        else:
            runs.add((begin, end, id))
    reached, last = 0, -1
    previous = (0, 0)
    for begin, end, id in sorted(runs):
        # Two constants may share bytes.
        if begin < reached and (begin, end) != previous:
            yield f"constants {last} and {id} overlap at {begin}"
        if end >= reached:
            reached, last = end, id
        previous = (begin, end)


def inline_bytes(value: schema.ValueT) -> memoryview | None:
    """Returns the bytes of a constant stored in the FlatBuffer, next to its type; None for others."""
    storage = None if value.constantBuffer is None else value.constantBuffer.storage
    return None if storage is None or len(storage) == 0 else memoryview(storage).cast("B")
