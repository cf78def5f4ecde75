# SPDX-License-Identifier: Apache-2.0
"""Helpers for rules that emit channels-last operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from delegatec.edge.legalize.value import Value
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


def channels_last(x: Value) -> Value:
    """[N, C, ...] as [N, ..., C]."""
    return x.permute(0, *range(2, x.rank), 1)


def channels_first(x: Value) -> Value:
    """[N, ..., C] as [N, C, ...]."""
    return x.permute(0, x.rank - 1, *range(1, x.rank - 1))


def rows(x: Value) -> Value:
    """[N, L, C] as [N, 1, L, C]."""
    return _unsqueezed(x, 1)


def row(x: Value) -> Value:
    """[N, 1, L, C] as [N, L, C]."""
    return _squeezed(x, 1)


def in_images(x: Value, compute: Callable[[Value], Value]) -> Value:
    """Applies a function of images [N, H, W, C] to [N, C, ...]; one spatial dimension becomes one row."""
    images = channels_last(x)
    if x.rank == 3:
        return channels_first(row(compute(rows(images))))
    return channels_first(compute(images))


def batch(x: Value) -> Value:
    """[C, H, W] as [1, C, H, W]; a batch unchanged."""
    return x if x.rank == 4 else _unsqueezed(x, 0)


def like(x: Value, rank: int) -> Value:
    """[1, C, H, W] as [C, H, W] if that has the rank; a batch unchanged."""
    return x if x.rank == rank else _squeezed(x, 0)


def _unsqueezed(x: Value, dim: int) -> Value:
    shape = (*x.shape[:dim], 1, *x.shape[dim:])
    if not is_dynamic(shape):
        return x.view(*shape)
    # no size is an argument of this call, so that all may be symbolic
    val = x.builder.empty(shape, x.dtype)
    return Value(x.builder, x.builder.call(aten.unsqueeze.default, x.node, dim, val=val))


def _squeezed(x: Value, dim: int) -> Value:
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    if not is_dynamic(shape):
        return x.view(*shape)
    val = x.builder.empty(shape, x.dtype)
    return Value(x.builder, x.builder.call(aten.squeeze.dims, x.node, [dim], val=val))


def emit(
    operator: Any,
    x: Value,
    *args: Any,
    shape: Sequence[int],
    dtype: torch.dtype | None = None,
    **kwargs: Any,
) -> Value:
    """Emits a call on an image."""
    builder = x.builder
    nodes = [each.node if isinstance(each, Value) else each for each in args]
    val = builder.empty(shape, dtype or x.dtype)
    return Value(builder, builder.call(operator, x.node, *nodes, val=val, **kwargs))


def fitted(x: Value, dim: int, outputs: int, reach: int, stride: int, before: int) -> tuple[Value, int]:
    """Makes windows divide a dimension exactly.

    Args:
        x: the image; elements in no window are removed.
        dim: the dimension.
        outputs: number of windows.
        reach: elements from the first to the last of a window, both included.
        stride: from one window to the next.
        before: padding before the first element.

    Returns:
        The image, and the padding after its last element.
    """
    after = (outputs - 1) * stride + reach - before - x.shape[dim]
    if after >= 0:
        return x, after
    return x.slice(dim, 0, x.shape[dim] + after), 0
