# SPDX-License-Identifier: Apache-2.0
"""Pools along any dimensions: reductions of windows, which are views of a value."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import padded, pairs
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.dtypes import NUMERIC
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import EXACT_FLOAT32
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.pools.operators import POOLS, least
from delegatec.edge.symbols import sizes_key


class _Axis(NamedTuple):
    """Windows along a dimension: their number, and the elements of one."""

    outputs: Any
    kernel: int
    stride: int
    dilation: int

    def divides(self, size: Any) -> bool:
        """Whether windows are side by side, and have all elements."""
        is_dense = self.stride == self.kernel and self.dilation == 1
        return is_dense and sizes_key([self.outputs * self.kernel]) == sizes_key([size])

    def has_all(self, size: Any) -> bool:
        """Whether one window has all elements."""
        return self.dilation == 1 and sizes_key([self.kernel]) == sizes_key([size])


def _padded(b: GraphBuilder, node: Node, x: Array, value: float) -> Array:
    bound = bind(node)
    amounts = [(0, 0)] * len(x.shape)
    for dim, pair in zip(bound["dims"], pairs(bound["padding"]), strict=True):
        amounts[dim] = pair
    return padded(b, x, amounts, value)


def _axes(node: Node) -> dict[int, _Axis]:
    """Returns the windows along each dimension that has some."""
    bound = bind(node)
    names = ("kernel", "stride", "dilation")
    settings = zip(*(bound.get(name, [1] * len(bound["dims"])) for name in names), strict=True)
    return {
        dim: _Axis(node.meta["val"].shape[dim], *each)
        for dim, each in zip(bound["dims"], settings, strict=True)
    }


def _windows(b: GraphBuilder, node: Node, x: Array) -> tuple[Array, list[int]]:
    """Returns a value with dimensions for the elements of windows, and these dimensions."""
    axes = _axes(node)
    if all(axis.outputs == 1 and axis.has_all(x.shape[dim]) for dim, axis in axes.items()):
        return x, list(axes)
    if all(axis.divides(x.shape[dim]) for dim, axis in axes.items()):
        shape: list[Any] = []
        elements = []
        for dim, size in enumerate(x.shape):
            shape.append(axes[dim].outputs if dim in axes else size)
            if dim in axes:
                elements.append(len(shape))
                shape.append(axes[dim].kernel)
        blocks = b.temporary(shape, x.dtype)
        b.emit("Reshape", x=x, out=blocks, shape=b.shape(shape))
        return blocks, elements
    return _views(b, x, axes)


def _views(b: GraphBuilder, x: Array, axes: dict[int, _Axis]) -> tuple[Array, list[int]]:
    """Returns windows with their elements in the last dimensions."""
    steps: list[Any] = [1]
    for size in reversed(x.shape[1:]):
        steps.insert(0, size * steps[0])
    shape = [axes[dim].outputs if dim in axes else size for dim, size in enumerate(x.shape)]
    strides = [step * axes[dim].stride if dim in axes else step for dim, step in enumerate(steps)]
    shape += [axis.kernel for axis in axes.values()]
    strides += [steps[dim] * axis.dilation for dim, axis in axes.items()]
    views = b.temporary(shape, x.dtype)
    b.emit("AsStrided", x=x, out=views, shape=b.integers(shape), strides=b.integers(strides))
    return views, [*range(len(x.shape), len(shape))]


def _reduced(b: GraphBuilder, node: Node, name: str, x: Array) -> Array:
    windows, axes = _windows(b, node, x)
    keepdims = windows is x
    out = b.temporary(node.meta["val"].shape, x.dtype)
    b.emit(name, x=windows, out=out, axes=axes, keepdims=keepdims)
    return out


def _maxima(b: GraphBuilder, node: Node) -> None:
    x = b.of(bind(node)["x"])
    b.alias(node, _reduced(b, node, "Max", _padded(b, node, x, least(x.dtype))))


def _elements(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = _padded(b, node, b.of(bound["x"]), bound["value"])
    b.alias(node, _views(b, x, _axes(node))[0])


def _averages(b: GraphBuilder, node: Node) -> None:
    """Averages in float32; padding is not counted, so a sum of windows with padding has other divisors."""
    bound = bind(node)
    x = _padded(b, node, b.in_float32(bound["x"]), 0.0)
    if not any(bound["padding"]):
        found = _reduced(b, node, "Mean", x)
    else:
        total, factors = _reduced(b, node, "Sum", x), b.table(_factors(node))
        found = b.temporary(total.shape, total.dtype)
        b.emit("Multiply", a=total, b=factors, out=found)
    b.alias(node, b.converted(found, dtype_of(node)))


def _factors(node: Node) -> torch.Tensor:
    """Returns the reciprocal number of elements of each window, with dimensions that broadcast."""
    bound, result = bind(node), node.meta["val"].shape
    counts = torch.ones([1] * len(result))
    settings = zip(bound["dims"], bound["kernel"], bound["stride"], pairs(bound["padding"]), strict=True)
    for dim, kernel, stride, (before, _) in settings:
        size = bound["x"].meta["val"].shape[dim]
        start = torch.arange(result[dim]) * stride - before
        own = (start + kernel).clamp(max=size) - start.clamp(min=0)
        counts = counts * own.view([-1 if each == dim else 1 for each in range(len(result))])
    return counts.reciprocal()


def _wide_integers(node: Node, _: object) -> str | None:
    dtype = dtype_of(node)
    has_padding = any(bind(node)["padding"])
    is_exact = dtype.is_floating_point or torch.iinfo(dtype).max < EXACT_FLOAT32
    return None if is_exact or not has_padding else f"padding of {dtype}"


def _dynamic_padding(node: Node, _: object) -> str | None:
    bound = bind(node)
    sizes = (each.meta["val"].shape[dim] for each in (bound["x"], node) for dim in bound["dims"])
    is_dynamic = any(not isinstance(size, int) for size in sizes)
    return "padding of a dimension of dynamic size" if is_dynamic and any(bound["padding"]) else None


_OF_NUMBERS: Final = (
    operand_dtypes(NUMERIC, "MLX orders numbers."),
    Constraint(
        "argument",
        "Padding of integers is that of at most 16 bits: the format has float32.",
        _wide_integers,
    ),
)

ROWS: Final = (
    operator_row(
        POOLS.maxima.default, _maxima, *_OF_NUMBERS, note="a reduction of windows, which are a view"
    ),
    operator_row(
        POOLS.averages.default,
        _averages,
        operand_dtypes((torch.float32, torch.float16, torch.bfloat16), "averages are fractions."),
        Constraint("dynamic-shape", "Sizes are static, or there is no padding.", _dynamic_padding),
        note="in float32; a reduction of windows, which are a view",
    ),
    operator_row(POOLS.windows.default, _elements, *_OF_NUMBERS, note="a view"),
)
