# SPDX-License-Identifier: Apache-2.0
"""A layer of the cache that the runtime owns."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node


@dataclass(frozen=True)
class RuntimeLayer:
    """What a call of attention stores in a layer of the cache, before it reads the layer.

    Attributes:
        number: of the layer.
        positions: of the new rows, consecutive, [n].
        rows: the new rows of keys and of values, [1, heads, n, depth] each.
        buffers: placeholders of the buffers of keys and of values that the layer replaces.
        replaced: calls that write to these buffers, and convert what they hold.
    """

    number: int
    positions: Node
    rows: tuple[Node, Node]
    buffers: tuple[Node, Node]
    replaced: frozenset[Node]
