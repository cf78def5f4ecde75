# SPDX-License-Identifier: Apache-2.0
"""Hoisting of quantization above moves, and removal of the one before a clamp that is quantized again."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import scale_of
from delegatec.backends.xnnpack.quantized.value_sets import CLAMPS, MOVES, value_sets_of
from delegatec.edge.arguments import bind, dtype_of, operand_nodes
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Call, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

_SEVERAL_RESULTS: Final = (aten.split_with_sizes.default, aten.max_pool2d_with_indices.default)


def quantize_before_moves(program: EdgeProgram) -> bool:
    """Quantizes the operands of moves instead of their results; the results are the same.

    Then padding is next to the layer into which it is folded, and int8 values are moved.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder, changed = Builder(program), False
    for node in reversed(list(program.graph.nodes)):
        scale = scale_of(node) if node.target is QUANTIZE and dtype_of(node) == torch.int8 else None
        while scale is not None:
            move = bind(node)["input"]
            operand = _operand(move, scale)
            if operand is None:
                break
            parameters = bind(node).values()
            node = builder.at(move).call(QUANTIZE, operand, *list(parameters)[1:])
            # a call that dequantizes has the same arguments
            quantized_values = builder.call(DEQUANTIZE, node, *node.args[1:])
            move.replace_input_with(operand, quantized_values)
            changed = True
    return changed


def _operand(move: Node, scale: Quantization) -> Node | None:
    """Returns the operand of a move whose result is only quantized."""
    if move.target not in MOVES or move.target in _SEVERAL_RESULTS or len(move.users) != 1:
        return None
    operands = operand_nodes(move)
    if len(operands) != 1 or scale_of(operands[0]) == scale:
        return None
    is_padded = move.target is aten.constant_pad_nd.default
    return None if is_padded and not scale.holds(float(bind(move)["value"])) else operands[0]


def snap_bounds(program: EdgeProgram) -> bool:
    """Rounds the bounds of clamps between quantized values of one scale, so that these need no quantization.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    value_sets = value_sets_of(program)

    def snap(b: Builder, node: Node) -> Node | None:
        scale = value_sets.get(node.all_input_nodes[0])
        if scale is None or node in value_sets or not all(scale_of(user) == scale for user in node.users):
            return None
        bounds = map(scale.nearest, CLAMPS[node.target](bind(node)))
        return b.call(aten.clamp.default, node.args[0], *bounds, val=node.meta["val"])

    return rewrite(program, dict.fromkeys(CLAMPS, snap))


def quantize_after_clamps(program: EdgeProgram) -> bool:
    """Removes the quantization of a value that is then clamped and quantized again.

    Quantizers observe a layer and the activation after it as two values. One operation computes both: the
    first range becomes a part of the bounds, and the first quantization disappears.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    return rewrite(program, _QUANTIZED_TWICE)


def _clamp_first(b: Builder, node: Node, x: Node, once: Node, quantized: Node) -> Node | None:
    scale = scale_of(quantized)
    again = {scale_of(user) if user.target is QUANTIZE else None for user in node.users}
    if scale is None or scale != scale_of(once) or len(again) != 1 or again <= {None, scale}:
        return None
    low, high = CLAMPS[node.target](bind(node))
    bounds = max(low, scale.nearest(-math.inf)), min(high, scale.nearest(math.inf))
    return None if bounds[0] >= bounds[1] else b.call(aten.clamp.default, x, *bounds, val=node.meta["val"])


_COMPUTED: Final = Var("x").one_use().where(lambda x: x.op == "call_function" and x.target is not DEQUANTIZE)
_QUANTIZED: Final = Call(QUANTIZE, _COMPUTED, ...).one_use().named("quantized")
_QUANTIZED_TWICE: Final = fusion(
    Call(CLAMPS, Call(DEQUANTIZE, _QUANTIZED, ...).one_use().named("once"), ...), _clamp_first
)
