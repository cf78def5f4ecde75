# SPDX-License-Identifier: Apache-2.0
"""Pools over images as channels-last ones, around which permutations move the channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.rewrites.images import batch, channels_first, channels_last, like
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.rules.windows import Pair, Windows, padding_of, runs, windows_of
from delegatec.edge.legalize.value import Scalar, Value, cat, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

Pool = Callable[[Value, Sequence[Windows], Sequence[Pair]], Value]
"""Pools [N, H, W, C] by windows and padding of each dimension. Padding is not counted."""

_CEIL: Final = Refusal("argument", "ceil_mode is not supported for dynamic sizes")
VARY: Final = Refusal("shape", "the window sizes depend on a dynamic dimension")


_NO_PADDING: Final = ((0, 0), (0, 0))


@dataclass(frozen=True)
class Pools:
    """The pools of a target.

    Attributes:
        maxima: emits the maxima of windows.
        averages: emits the averages of windows.
        only_first: requires that no call reads the indices of maxima.
        constraints: of averages.
    """

    maxima: Pool
    averages: Pool
    only_first: Constraint[Any]
    constraints: tuple[Constraint[Any], ...] = ()

    def rewrites(self) -> tuple[Rewrite, ...]:
        """Returns the rewrites of ATen's pools over images."""
        runs = "channels last; windows of several sizes by dimension, in runs of the same size"
        return (
            Rewrite(
                aten.max_pool2d_with_indices.default,
                self._max_pool2d,
                (self.only_first,),
                note="channels last; windows beyond the border are padding",
            ),
            Rewrite(
                aten.avg_pool2d.default,
                self._avg_pool2d,
                self.constraints,
                note="channels last; padding that counts is added to the images, a divisor is a factor",
            ),
            Rewrite(
                aten._adaptive_avg_pool2d.default,
                partial(_adaptive, self.averages),
                self.constraints,
                note=runs,
                preserved=True,
            ),
            Rewrite(
                aten.adaptive_max_pool2d.default,
                partial(_adaptive, self.maxima),
                (self.only_first,),
                note=runs,
                preserved=True,
            ),
        )

    def _max_pool2d(self, builder: Builder, node: Node) -> Any:
        source, windows = value_of(builder, bind(node)["self"]), windows_of(node, 2)
        padding = padding_of(node, windows)
        if padding is None:
            return _CEIL
        result = channels_first(self.maxima(channels_last(batch(source)), windows, padding))
        return [like(result, source.rank).node, None]

    def _avg_pool2d(self, builder: Builder, node: Node) -> Any:
        bound, windows = bind(node), windows_of(node, 2)
        source, divisor = value_of(builder, bound["self"]), bound["divisor_override"]
        padding = padding_of(node, windows)
        if padding is None:
            return _CEIL
        counted = padding
        if not divisor:
            is_counted = bound["count_include_pad"]
            counted = [(axis.before, axis.padding) if is_counted else (0, 0) for axis in windows]
        x, windows = padded(channels_last(batch(source)), windows, counted, 0)
        left = [
            (before - own[0], after - own[1]) for (before, after), own in zip(padding, counted, strict=True)
        ]
        result = self.averages(x, windows, left)
        count = math.prod(axis.kernel for axis in windows)
        if divisor and divisor != count:
            result = result * (count / divisor)
        return like(channels_first(result), source.rank).node


def _adaptive(pool: Pool, builder: Builder, node: Node) -> Any:
    source, results = value_of(builder, bind(node)["self"]), tensors(node.meta["val"])
    x = channels_last(batch(source))
    if is_dynamic(x.shape[1:]):
        return VARY
    result = _in_runs(x, results[0].shape[-2:], pool)
    node_of_result = like(channels_first(result), source.rank).node
    return [node_of_result, None] if len(results) > 1 else node_of_result


def _in_runs(x: Value, outputs: Sequence[int], pool: Pool) -> Value:
    """Pools [N, H, W, C] to some rows and columns: at once if windows are regular, else runs of such."""
    found = [runs(size, count) for size, count in zip(x.shape[1:3], outputs, strict=True)]
    if all(len(several) == 1 for several in found):
        return pool(x, [windows for ((_, windows),) in found], _NO_PADDING)
    for dim, several in enumerate(found, 1):
        identity = Windows(x.shape[3 - dim], x.shape[3 - dim], kernel=1, stride=1)
        parts = []
        for start, windows in several:
            axes = (windows, identity) if dim == 1 else (identity, windows)
            parts.append(pool(x.slice(dim, start, start + windows.size), axes, _NO_PADDING))
        x = cat(parts, dim)
    return x


def padded(
    x: Value, windows: Sequence[Windows], amounts: Sequence[Pair], value: Scalar
) -> tuple[Value, list[Windows]]:
    """Makes padding elements of [N, H, W, C], which averages count.

    Args:
        x: the images.
        windows: per dimension.
        amounts: the elements before and after each dimension.
        value: the elements.

    Returns:
        The images, and the windows over them, which have no padding.
    """
    if not any(map(any, amounts)):
        return x, list(windows)
    return x.pad([0, 0, *amounts[1], *amounts[0]], value), [
        Windows(axis.size + sum(pair), axis.outputs, axis.kernel, axis.stride)
        for axis, pair in zip(windows, amounts, strict=True)
    ]
