# SPDX-License-Identifier: Apache-2.0
"""Pooling to a given size.

Output i has the elements from floor(i * size / outputs) to before ceil((i + 1) * size / outputs). Where all
windows have one size and one distance, that is a pool; otherwise their elements are gathered, window after
window.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand, table
from delegatec.backends.mps.operators.layers.padding import padded
from delegatec.backends.mps.operators.layers.pooling import Windows, averages, images, maxima
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import read_results, shape_of


def _bounds(size: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """First element of each window, and that behind its last."""
    output = torch.arange(outputs)
    start = torch.div(output * size, outputs, rounding_mode="floor")
    return start, torch.div((output + 1) * size + outputs - 1, outputs, rounding_mode="floor")


def _regular(size: int, outputs: int) -> Windows | None:
    """The windows as those of a pool, if they are."""
    start, end = _bounds(size, outputs)
    kernel, stride = int(end[0]), int(start[1]) if outputs > 1 else size
    if stride == 0 or not torch.equal(start, torch.arange(outputs) * stride) or (end - start != kernel).any():
        return None
    return Windows(size, outputs, kernel, stride)


def _gathered(size: int, outputs: int, missing: int | None) -> torch.Tensor:
    """[outputs, K]: which elements each window has; a smaller one has `missing`, or repeats its last."""
    start, end = _bounds(size, outputs)
    members = start.unsqueeze(1) + torch.arange(int((end - start).max()))
    last = (end - 1).unsqueeze(1)
    return members.minimum(last) if missing is None else members.where(members <= last, missing)


def _adaptive_avg_pool2d(b: GraphBuilder, node: Node) -> None:
    source, whole = bind(node)["self"], shape_of(node)
    x = images(operand(b, source))
    windows, scales = [], []
    for dim in (2, 3):
        size, outputs = x.shape[dim], whole[dim - 4]
        regular, scale = _regular(size, outputs), torch.ones(outputs)
        if regular is None:
            # What a window lacks is a zero of its own, so that no infinity is multiplied away.
            members = _gathered(size, outputs, missing=size)
            lacking = (members == size).sum(1)
            x = padded(x, dim, 0, 1) if lacking.any() else x
            x = x.index_select(dim, table(b, members.reshape(-1)))
            kernel = members.shape[1]
            regular, scale = Windows(outputs * kernel, outputs, kernel, kernel), kernel / (kernel - lacking)
        windows.append(regular)
        scales.append(scale)
    x = averages(x, windows[0], windows[1])
    scale = scales[0].unsqueeze(1) * scales[1]
    if (scale != 1).any():
        x = x * table(b, scale.to(x.dtype))
    x.view(*whole).bind(node)


def _adaptive_max_pool2d(b: GraphBuilder, node: Node) -> None:
    source, whole = bind(node)["self"], tuple(node.meta["val"][0].shape)
    x = images(operand(b, source))
    width = x.shape[3]
    windows, places = [], []
    for dim in (2, 3):
        size, outputs = x.shape[dim], whole[dim - 4]
        regular, members = _regular(size, outputs), torch.arange(size)
        if regular is None:
            windowed = _gathered(size, outputs, missing=None)
            members = windowed.reshape(-1)
            x = x.index_select(dim, table(b, members))
            regular = Windows(members.shape[0], outputs, windowed.shape[1], windowed.shape[1])
        windows.append(regular)
        places.append(members)
    values, indices = maxima(x, windows[0], windows[1])
    values.view(*whole).bind(node, 0)
    if 1 not in read_results(node):
        return
    if x.shape[2:] != shape_of(source)[-2:]:
        # Places among what was gathered, as places in the operand.
        originals = table(b, (places[0].unsqueeze(1) * width + places[1]).reshape(-1))
        indices = originals.index_select(0, indices)
    indices.to(torch.int64).view(*whole).bind(node, 1)


_NOTE: Final = (
    "windows of several sizes are gathered, by constants of the size of one plane at most, and pooled"
)

ROWS: Final = (
    OperatorRow(
        overload("_adaptive_avg_pool2d"),
        _adaptive_avg_pool2d,
        (FLOAT_OPERANDS,),
        note=_NOTE,
    ),
    OperatorRow(
        overload("adaptive_max_pool2d"),
        _adaptive_max_pool2d,
        (FLOAT_OPERANDS,),
        note=_NOTE,
        preserved=True,
    ),
)
