# SPDX-License-Identifier: Apache-2.0
"""Checks of a blob's nodes: types, parameters, scales.

Source: the definitions of nodes in XNNPACK's subgraph folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from delegatec_schemas.xnnpack_graph import DataType, NodeT

from delegatec.backends.xnnpack import ratios
from delegatec.backends.xnnpack.checking import layers
from delegatec.backends.xnnpack.checking.fields import (
    Check,
    flag_problems,
    is_quantized,
    pad_problems,
    positive,
    ratio_problems,
    scale_of,
)
from delegatec.backends.xnnpack.checking.signatures import SIGNATURES
from delegatec.backends.xnnpack.checking.values import MOST_DIMS, TYPE_NAMES
from delegatec.backends.xnnpack.flags import ALIGNS_CORNERS, OLD_POSITIONS, TRANSIENT_INDIRECTION, TRANSPOSED
from delegatec.backends.xnnpack.operands import CONCATENATIONS, OPERATION_NAMES, operand_ids, result_ids
from delegatec.backends.xnnpack.values import tensor_of

_RESIZING_FLAGS: Final = OLD_POSITIONS | ALIGNS_CORNERS | TRANSIENT_INDIRECTION
_MOST_PIXELS: Final = 2**24


def problems_of_node(node: NodeT, values: Mapping[int, Any]) -> Iterator[str]:
    """Yields the problems of a node whose ids all have values, as ends of a sentence.

    Args:
        node: the node.
        values: id -> value.
    """
    name = OPERATION_NAMES[node.operationType]
    if name not in SIGNATURES:
        yield "is of a type that no runtime implements"
        return
    if node.limits is not None:
        least, most = node.limits.least, node.limits.most
        if math.isnan(least) or math.isnan(most) or least > most:
            yield f"has the limits {least:g} and {most:g}"
    operands = [values[id] for id in operand_ids(node)]
    results = [values[id] for id in result_ids(node)]
    types = [tensor_of(value).dataType for value in (*operands, *results)]
    if tuple(types) not in SIGNATURES[name]:
        names = [TYPE_NAMES.get(each, str(each)) for each in types]
        count = len(operands)
        yield f"has no kernel for {', '.join(names[:count])} to {', '.join(names[count:])}"
        return
    check = _CHECKS.get(name)
    if check is not None:
        yield from check(node.operation, operands, results)


def _one_scale(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    """Operations that move or select quantized values."""
    if is_quantized(results[0]) and len({scale_of(value) for value in (*operands, *results)}) > 1:
        yield "moves quantized values to another scale or zero point"


def _sum(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    if is_quantized(results[0]):
        for value in operands:
            yield from ratio_problems(scale_of(value)[0] / scale_of(results[0])[0], ratios.SUM)


def _product(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    if is_quantized(results[0]):
        product = scale_of(operands[0])[0] * scale_of(operands[1])[0]
        yield from ratio_problems(product / scale_of(results[0])[0], ratios.PRODUCT)


def _convert(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    types = {tensor_of(value).dataType for value in (*operands, *results)}
    if len(types) == 1 and types <= {DataType.INT8, DataType.UINT8}:
        yield from ratio_problems(scale_of(operands[0])[0] / scale_of(results[0])[0], ratios.CONVERSION)


def _leaky_relu(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    if is_quantized(results[0]):
        ratio = scale_of(operands[0])[0] / scale_of(results[0])[0]
        for factor in (1.0, float(operation.negativeSlope)):
            yield from ratio_problems(ratio * factor, ratios.CONVERSION)


def _max_pooling(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    yield from positive(operation, "dilationHeight", "dilationWidth")
    yield from _average_pooling(operation, operands, results)
    yield from _one_scale(operation, operands, results)


def _average_pooling(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    yield from positive(operation, "poolingHeight", "poolingWidth", "strideHeight", "strideWidth")
    yield from pad_problems(operation)


def _arg_max(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    yield from positive(operation, "poolingHeight", "poolingWidth")
    yield from pad_problems(operation)


def _global_average(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    if len(tensor_of(operands[0]).dims) < 3:
        # the runtime counts the dimensions from the declared ones
        yield f"has an input that is declared with {len(tensor_of(operands[0]).dims)} dimensions"


def _resize(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    yield from positive(operation, "newHeight", "newWidth")
    yield from flag_problems(operation, _RESIZING_FLAGS)
    if int(operation.flags) & OLD_POSITIONS and int(operation.flags) & ALIGNS_CORNERS:
        yield "has two flags for the positions of pixels"
    if max(int(operation.newHeight), int(operation.newWidth)) >= _MOST_PIXELS:
        yield f"resizes to {int(operation.newHeight)} x {int(operation.newWidth)} pixels"
    yield from _one_scale(operation, operands, results)


def _moves(*fields: str) -> Check:
    """Operations with an integer for each dimension."""

    def check(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
        yield from _one_scale(operation, operands, results)
        counts = [len(getattr(operation, field)) for field in fields]
        if max(counts) > MOST_DIMS:
            yield f"has {max(counts)} integers, one for each of at most {MOST_DIMS} dimensions"
        if len(set(counts)) > 1:
            yield f"has {counts[0]} integers of one kind and {counts[1]} of the other"
        rank = len(tensor_of(operands[0]).dims)
        if fields != ("shape",) and counts[0] != rank:
            # the runtime reads as many pads as the input is declared to have dimensions
            yield f"has {counts[0]} integers for an input that is declared with {rank} dimensions"

    return check


def _multiply(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    if int(operation.flags) & ~TRANSPOSED:
        yield f"has the flags {int(operation.flags):#x}: no runtime transposes the first operand"
    second = tensor_of(operands[1])
    if second.dataType == DataType.CHANNEL_INT8:
        yield from layers.constant_problems(operands)
        yield from layers.channel_problems(
            operands[1], len(second.dims) - (2 if operation.flags & TRANSPOSED else 1)
        )
        yield from layers.row_problems(operands[0])
        if math.prod(second.dims[:-2]) != 1:
            # a scale is read for each matrix and channel
            yield f"has {math.prod(second.dims[:-2])} matrices with one list of scales"
    if second.dataType == DataType.INT8:
        yield from _product(operation, operands, results)


_CHECKS: Final[dict[str, Check]] = {
    **layers.CHECKS,
    **dict.fromkeys(("Add", "Subtract"), _sum),
    "Multiply": _product,
    "Convert": _convert,
    "LeakyRelu": _leaky_relu,
    **dict.fromkeys(("Copy", *CONCATENATIONS), _one_scale),
    "Reshape": _moves("shape"),
    "Transpose": _moves("permutation"),
    "Slice": _moves("offsets", "sizes"),
    "ConstantPad": _moves("padsBefore", "padsAfter"),
    "MaxPooling": _max_pooling,
    "AveragePooling": _average_pooling,
    "ArgMaxPooling": _arg_max,
    "GlobalAveragePooling": _global_average,
    "ResizeBilinear": _resize,
    "BatchMatrixMultiply": _multiply,
}
