# SPDX-License-Identifier: Apache-2.0
"""The layout of values in XNNPACK's graphs, see `edge/channels_last`.

A value of a convolution has one layout, while others can be computed in any: one choice for all removes the
permutations that rewrites put around each operation on images.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.quantized.grids import MOVES
from delegatec.backends.xnnpack.quantized.scales import DEQUANTIZE, QUANTIZE
from delegatec.delegation import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.channels_last import fold_padding as padding
from delegatec.edge.channels_last import optimize
from delegatec.edge.channels_last.dimension_rules import pointwise
from delegatec.edge.channels_last.groups import Grouped, Role
from delegatec.edge.channels_last.operation import Operation
from delegatec.edge.channels_last.role_rules import grouped
from delegatec.edge.channels_last.rules import RULES, OperationRules
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature

# "p" and "q" are sizes of the result. The weights are not among the operands: they are constants that have
# their place already.
_CONVOLUTION: Final = grouped("nhwc->npqo", "", ("x",))
_POOL: Final = grouped("nhwc->npqc", "c", ("x",))


def _prelu(node: Node) -> Operation | None:
    x = bind(node)["x"]
    rank = len(shape_of(x))
    roles = [Role("m", tuple(range(rank - 1))), Role("c", (rank - 1,))]
    return Grouped(node, [x], [roles, roles], "m")


_RULES: Final[OperationRules] = {
    **RULES,
    XNNPACK.conv2d.default: _CONVOLUTION,
    XNNPACK.conv_transpose2d.default: _CONVOLUTION,
    **dict.fromkeys(
        (
            XNNPACK.max_pool2d.default,
            XNNPACK.avg_pool2d.default,
            XNNPACK.resize_bilinear.default,
        ),
        _POOL,
    ),
    XNNPACK.prelu.default: _prelu,
    **dict.fromkeys((QUANTIZE, DEQUANTIZE), pointwise),
}
_WINDOWED: Final = (XNNPACK.conv2d.default, XNNPACK.max_pool2d.default)


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
        return padding.fold_padding(program, facts, _legality(target, facts), _WINDOWED)

    return [optimize_layout, fold_padding]


def _legality(target: TableTarget[Settings], facts: Facts) -> Callable[[Node], bool]:
    known: dict[Hashable, bool] = {}

    def is_legal(node: Node) -> bool:
        if node.target in MOVES and dtype_of(node) in (torch.int8, torch.uint8):
            return True  # levels, which are moved like numbers
        key = (
            call_signature(node.target, node.args, node.kwargs),  # type: ignore[arg-type]
            tuple(facts.constant(each) is not None for each in node.all_input_nodes),
        )
        if key not in known:
            known[key] = target.refusal(node, facts) is None
        return known[key]

    return is_legal
