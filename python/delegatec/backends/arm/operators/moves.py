# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only change the shape."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.dtypes import ALL
from delegatec.backends.arm.operators.row import operator_row
from delegatec.edge.arguments import bind, positive, shape_of

_RESHAPES: Final = ("view", "unsqueeze", "squeeze.dims", "squeeze.dim", "squeeze")
_COPIES: Final = ("alias", "clone")


def _reshape(b: GraphBuilder, node: Node) -> None:
    b.alias(node, b.reshaped(b.of(bind(node)["self"]), shape_of(node)))


def _permute(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    perms = [positive(dim, len(source.shape)) for dim in bound["dims"]]
    if perms == sorted(perms):
        b.alias(node, source)
    else:
        b.result(node, "TRANSPOSE", source, perms=perms)


def _cat(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.result(node, "CONCAT", *map(b.of, bound["tensors"]), axis=positive(bound["dim"], len(shape_of(node))))


ROWS: Final = (
    *(operator_row(name, _reshape, ALL, computes=False) for name in (*_RESHAPES, *_COPIES)),
    operator_row("permute", _permute, ALL, computes=False),
    operator_row("cat", _cat, ALL, computes=False),
)
