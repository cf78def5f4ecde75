# SPDX-License-Identifier: Apache-2.0
"""Folding of padding into channels-last convolutions and maxima."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_WINDOWED: Final = (NHWC.conv2d.default, NHWC.conv3d.default, NHWC.max_pool2d.default)
"""Convolutions, and maxima, which have a kernel; their padding is per side."""


class _Padding(NamedTuple):
    """Elements around the images of a call: their value, and how many before and after each dimension."""

    source: Node
    value: float
    amounts: list[int]


def fold_padding(
    program: EdgeProgram,
    facts: Facts,
    is_legal: Callable[[Node], bool] = lambda _: True,
) -> bool:
    """Moves padding into convolutions and maxima, also if slices remove some of it.

    Args:
        program: edited in place.
        facts: for its values: zeros do not change the maxima of nonnegative values.
        is_legal: whether the target supports a call.
    """
    changed = False
    for target in _WINDOWED:
        for node in program.graph.find_nodes(op="call_function", target=target):
            while (padding := _padding(node)) is not None and _fold(node, padding, facts, is_legal):
                changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed


def _padding(node: Node) -> _Padding | None:
    """Returns the padding of the images of a call, if only their inner dimensions have some."""
    x = bind(node)["x"]
    spatial = len(shape_of(x)) - 2
    removed = [0] * (2 * spatial)
    while x.target is aten.slice.Tensor:
        bound = bind(x)
        source, dim = bound["self"], positive(bound["dim"], spatial + 2)
        size = shape_of(source)[dim]
        start, end, _ = slice(bound["start"], bound["end"]).indices(size)
        if bound["step"] != 1 or not 1 <= dim <= spatial:
            return None
        removed[2 * dim - 2] += start
        removed[2 * dim - 1] += size - end
        x = source
    if x.target is not aten.constant_pad_nd.default:
        return None
    bound = bind(x)
    pads = [*bound["pad"], *[0] * (2 * (spatial + 2) - len(bound["pad"]))]
    pairs = [pads[offset : offset + 2] for offset in range(0, len(pads), 2)][::-1]
    if any(pairs[0]) or any(pairs[-1]):
        return None
    amounts = [amount for pair in pairs[1:-1] for amount in pair]
    left = [amount - less for amount, less in zip(amounts, removed, strict=True)]
    return None if min(left) < 0 else _Padding(bound["self"], bound["value"] or 0, left)


def _fold(node: Node, padding: _Padding, facts: Facts, is_legal: Callable[[Node], bool]) -> bool:
    bound = bind(node)
    total = [own + more for own, more in zip(bound["padding"], padding.amounts, strict=True)]
    if "kernel" in bound:
        if set(bound["dilation"]) != {1}:
            return False
        limits = (limit for size in bound["kernel"] for limit in (size, size))
        if not _is_least(padding, facts) or any(a >= b for a, b in zip(total, limits, strict=True)):
            return False
    elif padding.value != bound.get("x_zero", 0):
        return False
    args, position = node.args, list(bound).index("padding")
    changed: list[Any] = [padding.source, *args[1:]]
    changed[position] = total
    node.args = tuple(changed)
    if is_legal(node):
        return True
    node.args = args
    return False


def _is_least(padding: _Padding, facts: Facts) -> bool:
    """Whether the elements of padding are never greater than others."""
    dtype = dtype_of(padding.source)
    least = -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min
    return padding.value == least or padding.value <= facts.of(padding.source).low
