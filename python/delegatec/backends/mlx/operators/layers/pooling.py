# SPDX-License-Identifier: Apache-2.0
"""Pools of channels-last images: reductions of windows, which are views of the images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.dtypes import NUMERIC
from delegatec.backends.mlx.operators.layers.convolution import padded, pairs
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import EXACT_FLOAT32
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.symbols import sizes_key


def _windows(b: GraphBuilder, x: Array, node: Node) -> tuple[Array, list[int]]:
    """Returns a value with dimensions for the elements of windows, and these dimensions."""
    bound = bind(node)
    kernel, stride = bound["kernel"], bound["stride"]
    dilation = bound.get("dilation", (1, 1))
    batch, height, width, channels = x.shape
    rows, columns = node.meta["val"].shape[1:3]
    image = sizes_key([height, width])
    if sizes_key([*kernel, rows, columns]) == (*image, 1, 1):
        return x, [1, 2]
    exact = sizes_key([rows * kernel[0], columns * kernel[1]]) == image
    if list(stride) == list(kernel) and set(dilation) == {1} and exact:
        blocks = b.temporary((batch, rows, kernel[0], columns, kernel[1], channels), x.dtype)
        b.emit("Reshape", x=x, out=blocks, shape=b.shape(blocks.shape))
        return blocks, [2, 4]
    shape = (batch, rows, columns, *kernel, channels)
    views = b.temporary(shape, x.dtype)
    row = width * channels
    strides: list[Any] = [
        *(height * row, row * stride[0], channels * stride[1]),
        *(row * dilation[0], channels * dilation[1], 1),
    ]
    b.emit("AsStrided", x=x, out=views, shape=b.integers(shape), strides=b.integers(strides))
    return views, [3, 4]


def _reduced(b: GraphBuilder, node: Node, name: str, x: Array) -> Array:
    windows, axes = _windows(b, x, node)
    keepdims = windows is x
    out = b.temporary(node.meta["val"].shape, x.dtype)
    b.emit(name, x=windows, out=out, axes=axes, keepdims=keepdims)
    return out


def _maxima(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dtype = dtype_of(node)
    least = -math.inf if dtype.is_floating_point else float(torch.iinfo(dtype).min)
    x = padded(b, b.of(bound["x"]), pairs(bound["padding"]), least)
    b.alias(node, _reduced(b, node, "Max", x))


def _averages(b: GraphBuilder, node: Node) -> None:
    """Averages in float32; padding is not counted, so a sum of windows with padding has other divisors."""
    bound = bind(node)
    amounts = pairs(bound["padding"])
    x = padded(b, b.in_float32(bound["x"]), amounts)
    if not any(map(any, amounts)):
        found = _reduced(b, node, "Mean", x)
    else:
        total, counts = _reduced(b, node, "Sum", x), b.table(_factors(node, amounts))
        found = b.temporary(total.shape, total.dtype)
        b.emit("Multiply", a=total, b=counts, out=found)
    b.alias(node, b.converted(found, dtype_of(node)))


def _factors(node: Node, amounts: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Returns the reciprocal number of elements of each window, [rows, columns, 1]."""
    bound = bind(node)
    counts = []
    for dim, (kernel, stride, (before, _)) in enumerate(
        zip(bound["kernel"], bound["stride"], amounts, strict=True), 1
    ):
        size, outputs = bound["x"].meta["val"].shape[dim], node.meta["val"].shape[dim]
        start = torch.arange(outputs) * stride - before
        counts.append((start + kernel).clamp(max=size) - start.clamp(min=0))
    factors: torch.Tensor = (counts[0][:, None] * counts[1]).float().reciprocal()
    return factors.unsqueeze(2)


def _wide_integers(node: Node, _: object) -> str | None:
    dtype = dtype_of(node)
    has_padding = any(bind(node)["padding"])
    is_exact = dtype.is_floating_point or torch.iinfo(dtype).max < EXACT_FLOAT32
    return None if is_exact or not has_padding else f"padding of {dtype}"


def _dynamic_padding(node: Node, _: object) -> str | None:
    sizes = (*bind(node)["x"].meta["val"].shape[1:3], *node.meta["val"].shape[1:3])
    is_dynamic = any(not isinstance(size, int) for size in sizes)
    return "padding of an image of dynamic size" if is_dynamic and any(bind(node)["padding"]) else None


ROWS: Final = (
    operator_row(
        NHWC.max_pool2d.default,
        _maxima,
        operand_dtypes(NUMERIC, "MLX orders numbers."),
        Constraint(
            "argument",
            "Padding of integers is that of at most 16 bits: the format has float32.",
            _wide_integers,
        ),
        note="a reduction of windows, which are a view",
    ),
    operator_row(
        NHWC.avg_pool2d.default,
        _averages,
        operand_dtypes((torch.float32, torch.float16, torch.bfloat16), "averages are fractions."),
        Constraint("dynamic-shape", "Sizes are static, or there is no padding.", _dynamic_padding),
        note="in float32; a reduction of windows, which are a view",
    ),
)
