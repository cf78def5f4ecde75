# SPDX-License-Identifier: Apache-2.0
"""The layout of values in TOSA graphs, see `edge/channels_last`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.arm.dialect import INT48, TOSA
from delegatec.backends.arm.settings import Settings
from delegatec.backends.common import layout
from delegatec.backends.common.legality import TableTarget
from delegatec.delegation import PartitionView
from delegatec.edge.arguments import bind, dtype_of, operand_nodes
from delegatec.edge.channels_last.dimension_rules import along, on_first, pointwise
from delegatec.edge.channels_last.einsum_rules import einsum
from delegatec.edge.channels_last.merge_dimensions import merge_dimensions
from delegatec.edge.channels_last.operation import Operation
from delegatec.edge.channels_last.rules import RULES, OperationRules, is_pointwise
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram

_ALONG: Final = along("axis")


def _rescale(node: Node) -> Operation | None:
    return _ALONG(node) if bind(node)["per_channel"] else pointwise(node)


_RULES: Final[OperationRules] = {
    **RULES,
    TOSA.rescale.default: _rescale,
    TOSA.table.default: on_first,
    TOSA.clz.default: pointwise,
    TOSA.shift_left.default: pointwise,
    TOSA.shift_right.default: pointwise,
    TOSA.matmul.default: einsum("bmk,bkn->bmn", "bmkn", ("x", "y")),
}


def layout_passes(view: PartitionView, target: TableTarget[Settings]) -> Sequence[Pass]:
    """Returns the passes that choose the layout of a legal private program of the partition."""
    return layout.layout_passes(view, target, _RULES)


def merge_integer_dimensions(program: EdgeProgram) -> bool:
    """Merges dimensions of integer arithmetic."""
    return merge_dimensions(program, _broadcast)


def _broadcast(node: Node) -> Sequence[Node]:
    """Returns the operands of a pointwise call, which broadcast."""
    if node.target is TOSA.rescale.default:
        # TOSA has no RESHAPE of int48
        is_fixed = bind(node)["per_channel"] or dtype_of(bind(node)["x"]) == INT48
        return () if is_fixed else operand_nodes(node)
    rule = _RULES.get(node.target) if isinstance(node.target, OpOverload) else None
    if rule is on_first:
        return operand_nodes(node)[:1]
    return operand_nodes(node) if is_pointwise(node) or rule is pointwise else ()
