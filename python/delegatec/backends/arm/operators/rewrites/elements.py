# SPDX-License-Identifier: Apache-2.0
"""Functions of elements that TOSA lacks, or defines for some operands only."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _split(builder: Builder, node: Node) -> list[Node | None]:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dim, start = positive(bound["dim"], x.rank), 0
    parts: list[Node | None] = []
    for size in bound["split_sizes"]:
        parts.append(x.slice(dim, start, start + size).node)
        start += size
    return parts


REWRITES: Final = (Rewrite(aten.split_with_sizes.default, _split, computes=False),)
