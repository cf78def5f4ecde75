# SPDX-License-Identifier: Apache-2.0
"""Gathers by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import ALL
from delegatec.backends.vulkan.memory.demands import Group, IsConstant, tied
from delegatec.backends.vulkan.memory.representation import ROWS as ROW_PACKED
from delegatec.backends.vulkan.memory.sizes import shape_of
from delegatec.backends.vulkan.operators.row import OperatorRow, constants, operator_row
from delegatec.edge.arguments import bind, positive
from delegatec.edge.legalize.constraints import HAS_AXIS, rank_at_most


def _embedding_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    return (Group(ROW_PACKED, (bind(node)["indices"],), (0,)),)


def _embedding(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    args = [b.of(bound["weight"]), b.of(bound["indices"]), b.scalar(-1), b.scalar(False), b.scalar(False)]
    b.call("aten.embedding.default", *args, b.result(node))


def _gather(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = b.scalar(positive(bound["dim"], len(shape_of(bound["self"]))))
    args = (b.of(bound["self"]), dim, b.of(bound["index"]), b.scalar(False), b.result(node))
    b.call("aten.gather.default", *args)


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "embedding",
        _embedding_memory,
        ALL,
        rank_at_most(4, "the shaders have four dimensions."),
        lower=_embedding,
        resizes=(),
        known=(constants("weight"),),
    ),
    operator_row(
        "gather",
        tied(),
        ALL,
        HAS_AXIS,
        rank_at_most(4, "the shaders have four dimensions."),
        lower=_gather,
        resizes=(),
    ),
)
