# SPDX-License-Identifier: Apache-2.0
"""The layout of values in XNNPACK's graphs, see `edge/channels_last`.

The values of a convolution have a fixed layout, while all others can be computed in any layout: a global
choice removes the permutations that rewrites put around each operation on images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common import layout
from delegatec.backends.common.legality import TableTarget
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.rules import MOST_RANK
from delegatec.backends.xnnpack.quantized.value_sets import moves_quantized
from delegatec.delegation import PartitionView
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of, values_of
from delegatec.edge.channels_last.dimension_rules import along, pointwise
from delegatec.edge.channels_last.einsum_rules import POOL
from delegatec.edge.channels_last.labeled_op import Axis, LabeledOp
from delegatec.edge.channels_last.operation import Operation
from delegatec.edge.channels_last.rules import RULES, OperationRules
from delegatec.edge.channels_last.storage import Storage, Stored
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

aten = torch.ops.aten


class _Rows(LabeledOp):
    """A call on the last dimension, "c"; others, "m", have any order."""

    def __init__(self, node: Node, x: Node, free: str) -> None:
        rank = len(shape_of(x))
        axes = [Axis("m", tuple(range(rank - 1))), Axis("c", (rank - 1,))]
        super().__init__(node, [x], [axes, axes], free)


class _Softmax(_Rows):
    """A softmax of the last dimension, whose index changes with the rank."""

    def emit(self, storage: Storage, values: Mapping[Node, Stored], config: Any) -> Stored:
        """See `Operation.emit`."""
        result = super().emit(storage, values, config)
        if result.node is not self.node:
            x, _, *others = result.node.args
            result.node.args = (x, -1, *others)
        return result


def _softmax(node: Node) -> Operation | None:
    bound, rank = bind(node), len(shape_of(node))
    is_last = rank > 1 and positive(bound["dim"], rank) == rank - 1
    return _Softmax(node, bound["self"], "mc") if is_last else None


def _prelu(node: Node) -> Operation | None:
    return _Rows(node, bind(node)["x"], "m")


_RULES: Final[OperationRules] = {
    **RULES,
    XNNPACK.as_bool.default: pointwise,
    XNNPACK.resize_bilinear.default: POOL,
    XNNPACK.prelu.default: _prelu,
    XNNPACK.matmul_along_dim.default: along("dim"),
    **dict.fromkeys((QUANTIZE, DEQUANTIZE), pointwise),
    aten._softmax.default: _softmax,
}


def layout_passes(view: PartitionView, target: TableTarget[Settings]) -> Sequence[Pass]:
    """Returns the passes that choose the layout of a legal private program of the partition."""
    return layout.layout_passes(view, target, _RULES, _moves_quantized)


def _moves_quantized(node: Node) -> bool:
    """Whether a call moves quantized values, which the runtime moves like floats."""
    return (
        moves_quantized(node)
        and dtype_of(node) in (torch.int8, torch.uint8)
        and all(value.dim() <= MOST_RANK for value in values_of(node))
    )
