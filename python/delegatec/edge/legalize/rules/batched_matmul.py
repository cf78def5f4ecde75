# SPDX-License-Identifier: Apache-2.0
"""Products of batches of matrices by bmm."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import broadcast, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten


def batched_matmul(b: Builder, left: Node, right: Node) -> Node:
    """Computes `left @ right` of [*, M, K] and [*, K, N], whose leading dimensions broadcast."""
    batch = broadcast(shape_of(left)[:-2], shape_of(right)[:-2])
    if not batch:
        return b.call(aten.mm.default, left, right)
    product = b.call(aten.bmm.default, _flatten(b, left, batch), _flatten(b, right, batch))
    if len(batch) == 1:
        return product
    return b.call(aten.view.default, product, [*batch, shape_of(left)[-2], shape_of(right)[-1]])


def _flatten(b: Builder, x: Node, batch: tuple[Any, ...]) -> Node:
    """Broadcasts the leading dimensions of `x` to `batch`, and joins them."""
    sizes = shape_of(x)
    if sizes_key(sizes[:-2]) != sizes_key(batch):
        x = b.call(aten.expand.default, x, [*batch, *sizes[-2:]])
    return x if len(batch) == 1 else b.call(aten.view.default, x, [math.prod(batch), *sizes[-2:]])
