# SPDX-License-Identifier: Apache-2.0
"""Movement of integers instead of floating-point values."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.integer.conversion import MOVES, Conversion, Convert
from delegatec.backends.arm.integer.values import Fixed, Quantity, Quantized, TableFunction, UnsupportedError
from delegatec.edge.arguments import bind, shape_of

aten = torch.ops.aten


def _move(conversion: Conversion, node: Node) -> Quantity:
    source, *rest = node.args
    value = conversion.of(source)
    target: Any = node.target
    if isinstance(value, Fixed) and len(node.all_input_nodes) == 1:
        return Fixed(lambda: target(value.values, *rest, **node.kwargs), shape_of(node))
    if isinstance(value, TableFunction) and conversion.target(node) is None:
        moved = _moved(conversion, node, value.source)
        return TableFunction(moved, value.values)
    return _moved(conversion, node, conversion.as_quantized(value, node))


def _moved(conversion: Conversion, node: Node, quantized: Quantized) -> Quantized:
    rest = [conversion.node(each) for each in node.args[1:]]
    kwargs = {name: conversion.node(each) for name, each in node.kwargs.items()}
    return conversion.moved(node, quantized, quantized.node, *rest, **kwargs)


def _split(conversion: Conversion, node: Node) -> None:
    value = conversion.of(node.args[0])
    quantized = conversion.as_quantized(value, node)
    empty = conversion.arithmetic.builder.empty
    parts = [empty(each.shape, quantized.dtype) for each in node.meta["val"]]
    builder = conversion.arithmetic.builder
    call = builder.call(node.target, quantized.node, *node.args[1:], val=parts, **node.kwargs)
    for user in list(node.users):
        if user.target is operator.getitem:
            index: Any = user.args[1]
            item = builder.call(operator.getitem, call, index, val=parts[index])
            conversion.quantities[user] = replace(quantized, node=item)


def _pad(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    quantized = conversion.as_quantized(conversion.of(bound["self"]), node)
    limits = torch.iinfo(quantized.dtype)
    scaled = min(max(float(bound["value"] or 0) / quantized.scale[0], -1e12), 1e12)
    fill = min(max(round(scaled) + quantized.zero, limits.min), limits.max)
    moved = conversion.moved(node, quantized, quantized.node, bound["pad"], fill)
    return replace(moved, limit=max(moved.limit, abs(fill - quantized.zero)))


def _cat(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    values = [conversion.of(each) for each in bound["tensors"]]
    parts = _alike(conversion, values, node)
    call = conversion.arithmetic.call
    result = call(
        node.target, [each.node for each in parts], *node.args[1:], dtype=parts[0].dtype, shape=shape_of(node)
    )
    return replace(parts[0], node=result, limit=max(each.limit for each in parts))


def _alike(conversion: Conversion, values: list[Quantity], node: Node) -> list[Quantized]:
    """Returns values in the same parameters."""
    to = conversion.target(node)
    if to is not None:
        return [conversion.quantized(each, to) for each in values]
    first = values[0]
    if isinstance(first, Quantized) and first.is_narrow:
        same = [
            each
            for each in values
            if isinstance(each, Quantized)
            and (each.dtype, each.scale, each.zero, each.axis, each.low, each.high)
            == (first.dtype, first.scale, first.zero, None, first.low, first.high)
        ]
        if len(same) == len(values):
            return same
    scale = conversion.common_scale(values)
    nodes = [conversion.arithmetic.accumulate(each, scale) for each in values]
    return [Quantized(each, (scale,), 0, (1 << 28) - 1) for each in nodes]


def _put(name: str, source: str) -> Convert:
    """Returns the conversion of an operator that replaces elements of `self` by those of an argument."""

    def convert(conversion: Conversion, node: Node) -> Quantity:
        bound = bind(node)
        if bound.get("accumulate"):
            raise UnsupportedError(f"{name} accumulates")
        values = [conversion.of(bound[each]) for each in ("self", source)]
        target, parts = _alike(conversion, values, node)
        rest = {key: conversion.node(value) for key, value in bound.items()}
        rest |= {"self": target.node, source: parts.node}
        call = conversion.arithmetic.call
        result = call(node.target, *rest.values(), dtype=target.dtype, shape=shape_of(node))
        return replace(target, node=result, limit=max(target.limit, parts.limit))

    return convert


def _gather_rows(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    quantized = conversion.as_quantized(conversion.of(bound["weight"]), node)
    index = conversion.node(bound["indices"])
    return conversion.moved(node, quantized, quantized.node, index, *node.args[2:], **node.kwargs)


def _masked(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    quantized = conversion.as_quantized(conversion.of(bound["self"]), node)
    value = conversion.of(bound["value"])
    if not isinstance(value, Fixed) or value.scalar is None:
        raise UnsupportedError("the value is not a constant")
    limits = torch.iinfo(quantized.dtype)
    scaled = min(max(value.scalar / quantized.scale[0], -1e12), 1e12)
    bounds = (limits.min, limits.max) if quantized.is_narrow else (-(1 << 29), 1 << 29)
    fill = min(max(round(scaled) + quantized.zero, bounds[0]), bounds[1])
    filler = conversion.arithmetic.constant(torch.tensor(fill, dtype=quantized.dtype), len(quantized.shape))
    call = conversion.arithmetic.call(
        aten.where.self,
        conversion.node(bound["mask"]),
        filler,
        quantized.node,
        dtype=quantized.dtype,
        shape=shape_of(node),
    )
    return replace(quantized, node=call, limit=max(quantized.limit, abs(fill - quantized.zero)))


MOVEMENTS: Final[Mapping[Any, Convert]] = {
    **dict.fromkeys(MOVES, _move),
    aten.split_with_sizes.default: _split,
    aten.split.Tensor: _split,
    aten.unbind.int: _split,
    aten.constant_pad_nd.default: _pad,
    aten.cat.default: _cat,
    aten.stack.default: _cat,
    aten.embedding.default: _gather_rows,
    aten.index_put.default: _put("index_put", "values"),
    aten.scatter.src: _put("scatter", "src"),
    aten.select_scatter.default: _put("select_scatter", "src"),
    aten.slice_scatter.default: _put("slice_scatter", "src"),
    aten.masked_fill.Scalar: _masked,
    aten.masked_fill.Tensor: _masked,
}
