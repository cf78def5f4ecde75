# SPDX-License-Identifier: Apache-2.0
"""The passes that choose the layout of a private program's values, see `edge/channels_last`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch.fx import Node

from delegatec.backends.common.legality import TableTarget
from delegatec.delegation import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.channels_last import fold_padding as padding
from delegatec.edge.channels_last import optimize
from delegatec.edge.channels_last.rules import OperationRules
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature


def layout_passes(
    view: PartitionView,
    target: TableTarget[Any],
    rules: OperationRules,
    is_always_legal: Callable[[Node], bool] = lambda _: False,
) -> Sequence[Pass]:
    """Returns the passes that choose the layout of a legal private program.

    Args:
        view: the partition.
        target: decides which calls are legal.
        rules: how each operator depends on the layout of its operands.
        is_always_legal: calls that the target supports in every layout, but does not know to be legal.
    """

    def optimize_layout(program: EdgeProgram) -> bool:
        legality = _legality(target, view.facts_in(program), is_always_legal)
        return optimize.optimize_layout(program, rules, legality)

    def fold_padding(program: EdgeProgram) -> bool:
        facts = view.facts_in(program)
        return padding.fold_padding(program, facts, _legality(target, facts, is_always_legal))

    return [optimize_layout, fold_padding]


def _legality(
    target: TableTarget[Any], facts: Facts, is_always_legal: Callable[[Node], bool]
) -> Callable[[Node], bool]:
    known: dict[Hashable, bool] = {}

    def is_legal(node: Node) -> bool:
        if is_always_legal(node):
            return True
        key = (
            call_signature(node.target, node.args, node.kwargs),  # type: ignore[arg-type]
            tuple(facts.constant(each) is not None for each in node.all_input_nodes),
        )
        if key not in known:
            known[key] = target.refusal(node, facts) is None
        return known[key]

    return is_legal
