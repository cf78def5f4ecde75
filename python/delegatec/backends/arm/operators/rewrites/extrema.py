# SPDX-License-Identifier: Apache-2.0
"""Extrema with their positions."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, read_results
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule

aten = torch.ops.aten


def _with_position(extremum: Any, position: Any) -> Rule:
    def rule(builder: Builder, node: Node) -> list[Node | None]:
        bound = bind(node)
        x, dim, keepdim = bound["self"], bound["dim"], bound["keepdim"]
        value, place = node.meta["val"]
        read = read_results(node)
        dims = [dim] if x.meta["val"].dim() else []
        return [
            builder.call(extremum, x, dims, keepdim, val=value) if 0 in read else None,
            builder.call(position, x, dim, keepdim, val=place) if 1 in read else None,
        ]

    return rule


REWRITES: Final = (
    Rewrite(aten.max.dim, _with_position(aten.amax.default, aten.argmax.default)),
    Rewrite(aten.min.dim, _with_position(aten.amin.default, aten.argmin.default)),
)
