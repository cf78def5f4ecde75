# SPDX-License-Identifier: Apache-2.0
"""The layout of values in TOSA graphs, see `edge/channels_last`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.settings import Settings
from delegatec.backends.common.legality import TableTarget
from delegatec.delegation import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind
from delegatec.edge.channels_last import fold_padding as padding
from delegatec.edge.channels_last import optimize
from delegatec.edge.channels_last.dimension_rules import along, on_first, pointwise
from delegatec.edge.channels_last.merge_dimensions import merge_dimensions
from delegatec.edge.channels_last.operation import Operation
from delegatec.edge.channels_last.role_rules import grouped
from delegatec.edge.channels_last.rules import RULES, OperationRules, is_pointwise
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature

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
    TOSA.matmul.default: grouped("bmk,bkn->bmn", "bmkn", ("x", "y")),
}


def layout_passes(view: PartitionView, target: TableTarget[Settings]) -> Sequence[Pass]:
    """Returns the passes that choose the layout of a legal private program.

    Args:
        view: the partition.
        target: decides which calls are legal.
    """

    def optimize_layout(program: EdgeProgram) -> bool:
        return optimize.optimize_layout(program, _RULES, _legality(target, view.facts_in(program)))

    def fold_padding(program: EdgeProgram) -> bool:
        facts = view.facts_in(program)
        return padding.fold_padding(program, facts, _legality(target, facts))

    return [optimize_layout, fold_padding]


def merge_integer_dimensions(program: EdgeProgram) -> bool:
    """Merges dimensions of integer arithmetic."""
    return merge_dimensions(program, _is_pointwise)


def _is_pointwise(node: Node) -> bool:
    if node.target is TOSA.rescale.default:
        return not bind(node)["per_channel"]
    rule = _RULES.get(node.target) if isinstance(node.target, OpOverload) else None
    return is_pointwise(node) or rule in (pointwise, on_first)


def _legality(target: TableTarget[Settings], facts: Facts) -> Callable[[Node], bool]:
    known: dict[Hashable, bool] = {}

    def is_legal(node: Node) -> bool:
        key = (
            call_signature(node.target, node.args, node.kwargs),  # type: ignore[arg-type]
            tuple(facts.constant(each) is not None for each in node.all_input_nodes),
        )
        if key not in known:
            known[key] = target.refusal(node, facts) is None
        return known[key]

    return is_legal
