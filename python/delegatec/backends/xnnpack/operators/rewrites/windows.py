# SPDX-License-Identifier: Apache-2.0
"""Windows that overlap, as slices: frames of sound, windows of attention."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.value import cat, value_of

aten = torch.ops.aten

_MOST: Final = 64
_VARYING: Final = Refusal("dynamic-shape", "the number of windows varies")
_TOO_MANY: Final = Refusal("argument", f"the windows need more than {_MOST} slices")


def _unfold(builder: Builder, node: Node) -> Node | Refusal | None:
    """Slices one part of all windows at a time, or one window; a part is as large as size and step permit."""
    bound = bind(node)
    x, size, step = value_of(builder, bound["self"]), bound["size"], bound["step"]
    dim = positive(bound["dimension"], x.rank)
    count = shape_of(node)[dim]
    if size == step:
        return None  # the windows are adjacent: the shared rule needs one slice
    if not isinstance(x.shape[dim], int):
        return _VARYING
    part = math.gcd(size, step)
    parts, stride = size // part, step // part
    if min(parts, count) > _MOST:
        return _TOO_MANY
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    rows, width = math.prod(before), math.prod(after)
    x = x.view(rows, x.shape[dim], width)
    if parts <= count:
        used = (count - 1) * step + size
        blocks = x.slice(1, 0, used).view(rows, used // part, part * width)
        found = [blocks.slice(1, n, n + (count - 1) * stride + 1, stride) for n in range(parts)]
        windows = cat([each.view(rows, count, 1, part * width) for each in found], 2)
    else:
        found = [x.slice(1, n * step, n * step + size) for n in range(count)]
        windows = cat([each.view(rows, 1, size, width) for each in found], 1)
    order = [d for d in range(len(before) + len(after) + 2) if d != dim + 1] + [dim + 1]
    return windows.view(*before, count, size, *after).permute(*order).node


REWRITES: Final = (
    Rewrite(
        aten.unfold.default, _unfold, (HAS_AXIS,), computes=False, note="a slice for each part of a window"
    ),
)
