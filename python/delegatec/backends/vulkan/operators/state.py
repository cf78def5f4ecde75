# SPDX-License-Identifier: Apache-2.0
"""State: tensors with separate memory, packed from their initial values before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import NUMERIC
from delegatec.backends.vulkan.memory.demands import Group, IsConstant
from delegatec.backends.vulkan.memory.representation import ANY
from delegatec.backends.vulkan.memory.sharing import PREPACK
from delegatec.backends.vulkan.operators.row import OperatorRow, operator_row
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.arguments import bind


def _loaded(_: Node, __: IsConstant) -> Sequence[Group]:
    return (Group(ANY, (), (0,)),)


def _stored(node: Node, _: IsConstant) -> Sequence[Group]:
    """The runtime copies between any two representations; the state keeps its own."""
    return (Group(ANY, (bind(node)["value"],), (0,)),)


def _load(b: GraphBuilder, node: Node) -> None:
    constant, packed = b.of(bind(node)["initial"]), b.result(node)
    b.call(PREPACK, constant, packed)
    b.names[packed] = b.names[constant]


def _store(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    state = b.of(bound["state"])
    b.call("aten.clone.default", b.of(bound["value"]), b.null(), state)
    b.alias(node, state)


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(RUNTIME.load_state.default, _loaded, NUMERIC, lower=_load),
    operator_row(RUNTIME.store_state.default, _stored, NUMERIC, lower=_store),
)
