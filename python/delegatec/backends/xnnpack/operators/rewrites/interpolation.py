# SPDX-License-Identifier: Apache-2.0
"""Interpolation and averages along each dimension, as products with constant matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_SPATIAL: Final = ("d", "h", "w")
_TARGETS: Final = (
    *(aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d, aten.upsample_bicubic2d),
    *(aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa),
)
_OTHERS: Final = 2
"""Size of the dimensions that are not resized: with one, ATen's kernels of antialiasing are wrong."""


def _interpolated(builder: Builder, node: Node) -> Node | None:
    """Starts with the dimensions that shrink, so that fewer elements remain for the others."""
    bound = bind(node)
    source: Node = next(iter(bound.values()))  # `self` of some overloads, `input` of others
    sizes, outputs = shape_of(source)[2:], shape_of(node)[2:]
    if is_dynamic((*sizes, *outputs)) or not dtype_of(node).is_floating_point:
        return None
    x = value_of(builder, source)
    order = sorted(range(len(sizes)), key=lambda index: outputs[index] / sizes[index])
    for index in order:
        weights = _weights(node, sizes[index], index, len(sizes))
        if not torch.equal(weights, torch.eye(sizes[index])):
            x = _mixed(x, index + 2, weights)
    return x.node


def _weights(node: Node, size: int, index: int, count: int) -> torch.Tensor:
    """Returns the operator's matrix along a dimension, [outputs, size]."""
    arguments = dict(_of_dimension(bind(node), index, count, shape_of(node)[2 + index]))
    x = torch.eye(size).view(size, 1, *(size if each == index else 1 for each in range(count)))
    wide = x.repeat(1, 1, *(1 if each == index else _OTHERS for each in range(count)))
    target: Any = node.target
    result: torch.Tensor = target(wide, *arguments.values())
    return result.movedim(2 + index, 1).reshape(size, result.shape[2 + index], -1)[..., 0].mT.contiguous()


def _of_dimension(
    bound: Mapping[str, Any], index: int, count: int, outputs: int
) -> Iterator[tuple[str, Any]]:
    """Yields the arguments after the first one, for images with few elements in the other dimensions."""
    for name, value in list(bound.items())[1:]:
        if name == "output_size" and value is not None:
            yield name, [outputs if each == index else _OTHERS for each in range(count)]
        elif name == "scale_factors" and value is not None:
            yield name, [value[index] if each == index else 1.0 for each in range(count)]
        elif name.startswith("scales_"):
            yield name, value if name[-1] == _SPATIAL[-count:][index] else None
        else:
            yield name, value


def _mixed(x: Value, dim: int, weights: torch.Tensor) -> Value:
    """Returns the weighted sums of elements along a dimension."""
    shape = (*x.shape[:dim], weights.shape[0], *x.shape[dim + 1 :])
    constant = x.builder.constant(weights.to(x.dtype))
    call = x.builder.call(
        XNNPACK.matmul_along_dim.default, x.node, constant, dim, val=x.builder.empty(shape, x.dtype)
    )
    return Value(x.builder, call)


REWRITES: Final = tuple(
    Rewrite(
        target,
        _interpolated,
        note="a product with constant weights along each dimension; an infinity makes its row NaN",
        preserved=True,
    )
    for packet in _TARGETS
    for target in (packet.default, packet.vec)
)
