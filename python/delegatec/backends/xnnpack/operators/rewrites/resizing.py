# SPDX-License-Identifier: Apache-2.0
"""Resizing of images: interpolation as XNNPACK's, and repetition or selection of elements by views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last, emit, row, rows
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.rules.resize import Dim, dims_of, nearest_elements, operand_of
from delegatec.edge.legalize.value import Value, table, value_of
from delegatec.edge.symbols import integer_ratio, is_dynamic

aten = torch.ops.aten

# A sample position that is off by this fraction of an element changes the result by no more than rounding
# does.
_TOLERANCE: Final = 1e-5
_VARY: Final = Refusal("shape", "the runtime resizes images to static sizes only")


def _dims(node: Node, *, to_static: bool = False) -> list[Dim] | None:
    """Returns the rows and columns; None if one of them, or of a result that must be static, is dynamic."""
    found = dims_of(node)
    sizes = [] if to_static else [dim.size for dim in found]
    if is_dynamic([*sizes, *(dim.outputs for dim in found)]):
        return None
    return [*[Dim(1, 1, None, found[0].dtype)] * (2 - len(found)), *found]


def _image(builder: Builder, node: Node) -> Value:
    x = channels_last(value_of(builder, operand_of(node)))
    return rows(x) if x.rank == 3 else x


def _finished(result: Value, node: Node) -> Node:
    return channels_first(row(result) if node.meta["val"].dim() == 3 else result).node


def _linear(builder: Builder, node: Node) -> Any:
    dims, corners = _dims(node, to_static=True), bool(bind(node)["align_corners"])
    if dims is None:
        return _VARY
    for dim in dims if not corners else ():
        # the runtime has no scale factors: it computes sample positions from the sizes
        if dim.factor and is_dynamic([dim.size]):
            return _VARY
        if dim.factor and abs(1 / dim.factor - dim.size / dim.outputs) * dim.outputs > _TOLERANCE:
            return Refusal("argument", f"a factor of {dim.factor:g} for {dim.size} to {dim.outputs} elements")
    x, sizes = _image(builder, node), [dim.outputs for dim in dims]
    shape = (x.shape[0], *sizes, x.shape[3])
    return _finished(emit(XNNPACK.resize_bilinear.default, x, sizes, corners, shape=shape), node)


def _nearest(target: OpOverload, builder: Builder, node: Node) -> Any:
    """Repeats each element, takes one of each group, or selects elements.

    `target` selects in one dimension, as ATen rounds.
    """
    dims = _dims(node)
    if dims is None:
        return _copied(builder, node)
    x = _image(builder, node)
    repeats, groups, starts = [], [], []
    for axis, dim in enumerate(dims, 1):
        chosen = nearest_elements(target, dim)
        times, size = dim.outputs // dim.size or 1, dim.size // dim.outputs or 1
        wanted = torch.arange(dim.size).repeat_interleave(times)[int(chosen[0]) :: size]
        first = int(chosen[0])
        if dim.size * times != dim.outputs * size or not torch.equal(chosen, wanted):
            x = x.index_select(axis, table(builder, chosen))
            times, size, first = 1, 1, 0
        repeats.append(times)
        groups.append(size)
        starts.append(first)
    return _finished(_repeated(_selected(x, groups, starts), repeats), node)


def _copied(builder: Builder, node: Node) -> Any:
    """Repeats rows and columns of dynamic sizes: a view has one such size, and a convolution several."""
    x, dims = _image(builder, node), dims_of(node)
    times = [integer_ratio(dim.outputs, dim.size) for dim in dims]
    if all(dim.factor and dim.factor % 1 == 0 for dim in dims):
        times = [int(dim.factor or 1) for dim in dims]
    channels = x.shape[3]
    if not isinstance(channels, int) or not all(times):
        return _VARY
    kernel = [*[1] * (2 - len(times)), *(each or 1 for each in times)]
    weight = builder.constant(torch.ones(channels, 1, *kernel, dtype=x.dtype))
    shape = (x.shape[0], *[1] * (2 - len(times)), *(dim.outputs for dim in dims), channels)
    result = emit(
        *(NHWC.conv_transpose2d.default, x, weight, None, kernel, [0] * 4),
        shape=shape,
        groups=channels,
        weight_order="IOHW",
    )
    return _finished(result, node)


def _selected(x: Value, sizes: Sequence[int], starts: Sequence[int]) -> Value:
    """Returns one element of each group of rows and columns."""
    if max(sizes) == 1:
        return x
    batch, height, width, channels = x.shape
    rows, columns = height // sizes[0], width // sizes[1]
    groups = x.view(batch, rows, sizes[0], columns, sizes[1], channels)
    for dim, start in zip((2, 4), starts, strict=True):
        groups = groups.slice(dim, start, start + 1)
    return groups.view(batch, rows, columns, channels)


def _repeated(x: Value, times: Sequence[int]) -> Value:
    """Repeats each row and column."""
    if max(times) == 1:
        return x
    batch, height, width, channels = x.shape
    wide = x.view(batch, height, 1, width, 1, channels)
    wide = wide.expand(batch, height, times[0], width, times[1], channels)
    return wide.view(batch, height * times[0], width * times[1], channels)


_LINEAR: Final = (aten.upsample_linear1d, aten.upsample_bilinear2d)
_NEAREST: Final = (
    (aten.upsample_nearest1d.default, (aten.upsample_nearest1d, aten.upsample_nearest2d)),
    (
        aten._upsample_nearest_exact1d.default,
        (aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d),
    ),
)

REWRITES: Final = (
    *(
        Rewrite(target, _linear, note="channels last, if positions follow from the sizes", preserved=True)
        for packet in _LINEAR
        for target in (packet.default, packet.vec)
    ),
    *(
        Rewrite(
            target,
            partial(_nearest, in_one_dimension),
            note="channels last; copies or groups for integer factors, otherwise a gather",
            preserved=True,
        )
        for in_one_dimension, packets in _NEAREST
        for packet in packets
        for target in (packet.default, packet.vec)
    ),
)
