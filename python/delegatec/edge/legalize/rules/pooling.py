# SPDX-License-Identifier: Apache-2.0
"""Pooling as core ATen operators with a kernel in the runtime."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable

aten = torch.ops.aten


def _max_pool2d(b: Builder, node: Node) -> Node:
    a = bind(node)
    results = b.call(
        aten.max_pool2d_with_indices.default,
        *(a["self"], a["kernel_size"], a["stride"] or a["kernel_size"], a["padding"], a["dilation"]),
        a["ceil_mode"],
    )
    return b.call(operator.getitem, results, 0, val=node.meta["val"])


def _adaptive_avg_pool2d(b: Builder, node: Node) -> Node | None:
    """Computes a mean if the output is 1 x 1, an average pool if all windows have one size."""
    x, output = node.args[0], node.args[1]
    assert isinstance(x, Node) and isinstance(output, (list, tuple))
    size = shape_of(x)[-2:]
    if list(output) == [1, 1]:
        return b.call(aten.mean.dim, x, [-2, -1], True)
    if not all(
        isinstance(s, int) and isinstance(o, int) and s % o == 0 for s, o in zip(size, output, strict=True)
    ):
        return None
    window = [s // o for s, o in zip(size, output, strict=True)]
    return b.call(aten.avg_pool2d.default, x, window, window)


RULES: RuleTable = {
    aten.adaptive_avg_pool2d.default: _adaptive_avg_pool2d,
    aten.max_pool2d.default: _max_pool2d,
}
