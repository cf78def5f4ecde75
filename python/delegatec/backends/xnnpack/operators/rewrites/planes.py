# SPDX-License-Identifier: Apache-2.0
"""Images of one row, and batches of one image. No size is an argument, so that all may be symbolic."""

from __future__ import annotations

import torch

from delegatec.edge.legalize.value import Value

aten = torch.ops.aten


def plane(x: Value) -> Value:
    """[N, L, C] as [N, 1, L, C]."""
    return _unsqueezed(x, 1)


def row(x: Value) -> Value:
    """[N, 1, L, C] as [N, L, C]."""
    return _squeezed(x, 1)


def batch(x: Value) -> Value:
    """[C, H, W] as [1, C, H, W]; a batch as it is."""
    return x if x.rank == 4 else _unsqueezed(x, 0)


def like(x: Value, rank: int) -> Value:
    """[1, C, H, W] as [C, H, W] if that has the rank; a batch as it is."""
    return x if x.rank == rank else _squeezed(x, 0)


def _unsqueezed(x: Value, dim: int) -> Value:
    value = x.builder.empty((*x.shape[:dim], 1, *x.shape[dim:]), x.dtype)
    return Value(x.builder, x.builder.call(aten.unsqueeze.default, x.node, dim, val=value))


def _squeezed(x: Value, dim: int) -> Value:
    value = x.builder.empty((*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype)
    return Value(x.builder, x.builder.call(aten.squeeze.dims, x.node, [dim], val=value))
