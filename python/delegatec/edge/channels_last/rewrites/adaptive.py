# SPDX-License-Identifier: Apache-2.0
"""Adaptive pools over images as channels-last pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.rewrites.convolutions import FLOATS
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last
from delegatec.edge.channels_last.rewrites.pools import averages, maxima
from delegatec.edge.legalize.constraints import only_first_result, operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pooling import images
from delegatec.edge.legalize.rules.windows import Windows, bounds
from delegatec.edge.legalize.value import Value, cat, value_of

aten = torch.ops.aten

Pool = Callable[[Value, Sequence[Windows]], Value]
"""Pools [N, H, W, C] by windows per dimension."""


def adaptive(x: Value, outputs: Sequence[int], pool: Pool) -> Value:
    """Pools [N, H, W, C] to some rows and columns: at once if windows are regular, else runs of such."""
    found = [_runs(size, count) for size, count in zip(x.shape[1:3], outputs, strict=True)]
    if all(len(runs) == 1 for runs in found):
        return pool(x, [windows for ((_, windows),) in found])
    for dim, runs in enumerate(found, 1):
        whole = Windows(x.shape[3 - dim], x.shape[3 - dim], kernel=1, stride=1)
        parts = []
        for start, windows in runs:
            axes = (windows, whole) if dim == 1 else (whole, windows)
            parts.append(pool(x.slice(dim, start, start + windows.size), axes))
        x = cat(parts, dim)
    return x


def _runs(size: int, outputs: int) -> list[tuple[int, Windows]]:
    """Returns runs of windows with one size and distance, and where each starts."""
    windows = [(int(start), int(end)) for start, end in zip(*bounds(size, outputs), strict=True)]
    runs: list[list[tuple[int, int]]] = []
    for window in windows:
        if runs and _is_regular([*runs[-1], window]):
            runs[-1].append(window)
        else:
            runs.append([window])
    return [(run[0][0], _windows(run)) for run in runs]


def _is_regular(run: Sequence[tuple[int, int]]) -> bool:
    steps = {later[0] - earlier[0] for earlier, later in pairwise(run)}
    return len(steps) == 1 and steps != {0} and len({end - start for start, end in run}) == 1


def _windows(run: Sequence[tuple[int, int]]) -> Windows:
    start, end = run[0]
    stride = run[1][0] - start if len(run) > 1 else 1
    return Windows(run[-1][1] - start, len(run), end - start, stride)


def _adaptive_avg_pool2d(builder: Builder, node: Node) -> Node:
    shape = node.meta["val"].shape
    x = channels_last(images(value_of(builder, bind(node)["self"])))
    return channels_first(adaptive(x, shape[-2:], averages)).view(*shape).node


def _adaptive_max_pool2d(builder: Builder, node: Node) -> list[Node | None]:
    shape = tensors(node.meta["val"])[0].shape
    x = channels_last(images(value_of(builder, bind(node)["self"])))
    return [channels_first(adaptive(x, shape[-2:], maxima)).view(*shape).node, None]


def _rewrite(target: Any, rule: Any, *constraints: Any) -> Rewrite:
    note = "channels last; windows of several sizes by dimension, in runs of the same size"
    return Rewrite(target, rule, constraints, note=note, preserved=True)


REWRITES: Final = (
    _rewrite(
        aten._adaptive_avg_pool2d.default,
        _adaptive_avg_pool2d,
        operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),
    ),
    _rewrite(
        aten.adaptive_max_pool2d.default,
        _adaptive_max_pool2d,
        only_first_result("there is no operator for the indices."),
    ),
)
