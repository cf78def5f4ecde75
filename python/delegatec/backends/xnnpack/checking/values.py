# SPDX-License-Identifier: Apache-2.0
"""Checks of a blob's values: types, scales, constants, external ids.

Source: `defineTensor` in the runtime's XNNCompiler, and XNNPACK's tensor.c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Quantization

from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.values import quantization_of, tensor_of

INPUT: Final = 1
OUTPUT: Final = 2
NAMED: Final = 2**64 - 1
"""The offset of constants that are named data."""
MOST_DIMS: Final = 6
TYPE_NAMES: Final[dict[int, str]] = {
    value: name for name, value in vars(DataType).items() if not name.startswith("_")
}
BITS: Final[dict[int, int]] = {
    DataType.FLOAT32: 32,
    DataType.FLOAT16: 16,
    DataType.BFLOAT16: 16,
    DataType.INT32: 32,
    DataType.INT8: 8,
    DataType.UINT8: 8,
    DataType.BIAS_INT32: 32,
    DataType.CHANNEL_INT8: 8,
    DataType.CHANNEL_INT32: 32,
    DataType.CHANNEL_INT4: 4,
    DataType.GROUP_INT4: 4,
    DataType.DYNAMIC_INT8: 8,
}
"""Bits of an element, for all types that values of a blob can have."""
_TYPES: Final[dict[int, frozenset[int]]] = {
    0: frozenset({DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32}),
    Quantization.ScaleOfTensor: frozenset({DataType.INT8, DataType.UINT8, DataType.BIAS_INT32}),
    Quantization.ScalesOfChannels: frozenset(
        {DataType.CHANNEL_INT8, DataType.CHANNEL_INT4, DataType.CHANNEL_INT32}
    ),
    Quantization.ScalesOfRows: frozenset({DataType.DYNAMIC_INT8}),
    Quantization.ScalesOfGroups: frozenset({DataType.GROUP_INT4}),
}
_ZERO_POINTS: Final = {DataType.INT8: (-128, 127), DataType.UINT8: (0, 255), DataType.BIAS_INT32: (0, 0)}
_LEAST_NORMAL: Final = 2.0**-126


def problems_of_value(value: schema.ValueT, graph: schema.GraphT, segment: int) -> Iterator[str]:
    """Yields the problems of a value that has a tensor.

    Args:
        value: the value.
        graph: its graph.
        segment: number of bytes after the FlatBuffer.
    """
    tensor, (kind, table) = tensor_of(value), quantization_of(value)
    what = f"value {tensor.id}"
    if kind not in _TYPES or (kind and table is None):
        yield f"unknown quantization of {what}: type {kind}"
        return
    if tensor.dataType not in _TYPES[kind]:
        name = TYPE_NAMES.get(tensor.dataType, tensor.dataType)
        yield (
            f"{what} is {name}, which its quantization cannot be"
            if kind
            else f"unknown type of {what}: {name}"
        )
        return
    if tensor.dynamicDataType:
        yield f"{what} is dynamically quantized in an old form"
    if len(tensor.dims) > MOST_DIMS:
        yield f"{what} has {len(tensor.dims)} dimensions, more than {MOST_DIMS}"
        return
    yield from _of_storage(tensor, graph, what)
    yield from _of_constant(tensor.constantId, stored_bytes(tensor), what, graph, segment)
    if kind:
        yield from _SCALES[kind](tensor, table, what, graph, segment)


def stored_bytes(tensor: Any) -> int:
    """Returns the bytes of a tensor's elements. Rows of four-bit values are padded to a byte."""
    row = (tensor.dims[-1] if tensor.dims else 1) * BITS[tensor.dataType]
    return int(math.prod(tensor.dims[:-1]) * -(-row // 8))


def _of_storage(tensor: Any, graph: schema.GraphT, what: str) -> Iterator[str]:
    if tensor.flags not in (0, INPUT, OUTPUT):
        yield f"{what} has the flags {tensor.flags}"
    if tensor.flags and tensor.constantId:
        yield f"{what} is a constant, and an input or output"
    if bool(tensor.flags) != (tensor.externalId != NO_VALUE):
        yield f"{what} has the flags {tensor.flags} and the external id {tensor.externalId}"
    elif tensor.flags and tensor.externalId >= graph.numExternals:
        yield f"{what} has the external id {tensor.externalId}, but there are {graph.numExternals}"


def _of_constant(index: int, size: int, what: str, graph: schema.GraphT, segment: int) -> Iterator[str]:
    """Yields the problems of a value's constant, if it has one, given its size."""
    if not index:
        return
    if index >= len(graph.constants):
        yield f"{what} is constant {index}, but there are {len(graph.constants)}"
        return
    data = graph.constants[index]
    if data.size < size:
        yield f"constant {index} has {data.size} bytes, and {what} has {size}"
    if (data.offset == NAMED) != bool(data.key):
        yield f"constant {index} has the offset {data.offset}, and {'a' if data.key else 'no'} key"
    elif data.offset != NAMED and data.offset + data.size > segment:
        yield f"constant {index} is [{data.offset}, {data.offset + data.size}) of {segment} bytes"


def _of_scale(tensor: Any, table: Any, what: str, graph: schema.GraphT, segment: int) -> Iterator[str]:
    least, most = _ZERO_POINTS[tensor.dataType]
    if not least <= table.zeroPoint <= most:
        yield f"{what} has the zero point {table.zeroPoint}, not one of [{least}, {most}]"
    yield from _wrong_scales([table.scale], what)


def _of_rows(tensor: Any, table: Any, what: str, graph: schema.GraphT, segment: int) -> Iterator[str]:
    if tensor.constantId or tensor.flags:
        yield f"{what} is dynamically quantized, and is a constant, an input or an output"
    if not 0 <= table.numRowDims <= len(tensor.dims):
        yield f"rows of {what} have {table.numRowDims} of its {len(tensor.dims)} dimensions"


def _of_channels(tensor: Any, table: Any, what: str, graph: schema.GraphT, segment: int) -> Iterator[str]:
    if not 0 <= table.channelDim < len(tensor.dims):
        yield f"{what} has the channel dimension {table.channelDim} of {len(tensor.dims)}"
        return
    yield from _of_scales(table, tensor.dims[table.channelDim], 4, what, graph, segment)


def _of_groups(tensor: Any, table: Any, what: str, graph: schema.GraphT, segment: int) -> Iterator[str]:
    if len(tensor.dims) != 2 or table.channelDim != 0:
        yield f"{what} has {len(tensor.dims)} dimensions and the channel dimension {table.channelDim}"
        return
    channels, inputs = tensor.dims
    if table.groupSize < 1 or inputs % table.groupSize:
        yield f"{what} has {inputs} inputs in groups of {table.groupSize}"
        return
    count = channels * (inputs // table.groupSize)
    found = table.numScales if table.scalesConstantId else 0 if table.scales is None else len(table.scales)
    if found != count:
        yield f"{what} has {found} scales instead of {count}"
    yield from _of_scales(table, count, 2, what, graph, segment)


def _of_scales(
    table: Any, count: int, itemsize: int, what: str, graph: schema.GraphT, segment: int
) -> Iterator[str]:
    """Yields the problems of a list or constant of scales.

    Args:
        table: of the quantization.
        count: how many scales there must be.
        itemsize: bytes of one in a constant.
        what: the value, for messages.
        graph: its graph.
        segment: number of bytes after the FlatBuffer.
    """
    if table.scalesConstantId:
        yield from _of_constant(
            table.scalesConstantId, count * itemsize, f"the scales of {what}", graph, segment
        )
        if table.scales is None and itemsize == 4:
            # the runtime reads the address of the list nevertheless
            yield f"{what} has no list of scales, not even an empty one"
    elif table.scales is None or len(table.scales) < count:
        yield f"{what} has {0 if table.scales is None else len(table.scales)} scales instead of {count}"
    else:
        yield from _wrong_scales(table.scales[:count], what)


def _wrong_scales(scales: list[float], what: str) -> Iterator[str]:
    wrong = [scale for scale in scales if not _LEAST_NORMAL <= scale < math.inf]
    if wrong:
        yield f"{what} has the scale {wrong[0]:g}"


_SCALES: Final[dict[int, Any]] = {
    Quantization.ScaleOfTensor: _of_scale,
    Quantization.ScalesOfChannels: _of_channels,
    Quantization.ScalesOfRows: _of_rows,
    Quantization.ScalesOfGroups: _of_groups,
}
