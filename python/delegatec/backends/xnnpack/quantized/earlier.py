# SPDX-License-Identifier: Apache-2.0
"""Quantization before moves instead of after them, and once instead of before and after a clamp."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.grids import CLAMPS, MOVES, grids_of
from delegatec.backends.xnnpack.quantized.scales import DEQUANTIZE, QUANTIZE, Scale, scale_of
from delegatec.edge.arguments import bind, dtype_of, operand_nodes
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_SEVERAL_RESULTS: Final = (aten.split_with_sizes.default, aten.max_pool2d_with_indices.default)


def quantize_before_moves(program: EdgeProgram) -> bool:
    """Quantizes the operands of moves whose results are quantized, which has the same results.

    So that padding is next to the layer into which it is folded, and moves are those of levels.

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
            levels = builder.call(DEQUANTIZE, node, *node.args[1:])
            move.replace_input_with(operand, levels)
            changed = True
    return changed


def _operand(move: Node, scale: Scale) -> Node | None:
    """Returns the operand of a move whose result is only quantized."""
    if move.target not in MOVES or move.target in _SEVERAL_RESULTS or len(move.users) != 1:
        return None
    operands = operand_nodes(move)
    if len(operands) != 1 or scale_of(operands[0]) == scale:
        return None
    is_padded = move.target is aten.constant_pad_nd.default
    return None if is_padded and not scale.holds(float(bind(move)["value"])) else operands[0]


def snap_bounds(program: EdgeProgram) -> bool:
    """Rounds the bounds of clamps from levels to levels of one scale, so that these need no quantization.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    grids, builder, changed = grids_of(program), Builder(program), False
    for node in list(program.graph.nodes):
        scale = grids.get(node.all_input_nodes[0]) if node.target in CLAMPS else None
        if scale is None or node in grids or not all(scale_of(user) == scale for user in node.users):
            continue
        bounds = map(scale.nearest, CLAMPS[node.target](bind(node)))
        clamped = builder.at(node).call(aten.clamp.default, node.args[0], *bounds, val=node.meta["val"])
        node.replace_all_uses_with(clamped)
        changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed


def quantize_after_clamps(program: EdgeProgram) -> bool:
    """Removes the quantization of a value that is then clamped and quantized again.

    Quantizers observe a layer and the activation after it as two values. One operation computes both: the
    first range becomes a part of the bounds, and the first rounding disappears.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder, changed = Builder(program), False
    for node in list(program.graph.nodes):
        found = _quantized_twice(node) if node.target in CLAMPS else None
        if found is None:
            continue
        source, scale = found
        low, high = CLAMPS[node.target](bind(node))
        ends = scale.nearest(-math.inf), scale.nearest(math.inf)
        bounds = max(low, ends[0]), min(high, ends[1])
        if bounds[0] >= bounds[1]:
            continue
        clamped = builder.at(node).call(aten.clamp.default, source, *bounds, val=node.meta["val"])
        node.replace_all_uses_with(clamped)
        changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed


def _quantized_twice(clamp: Node) -> tuple[Node, Scale] | None:
    """Returns the value that a clamp limits after it was quantized, and its scale."""
    dequantize: Any = clamp.args[0]
    levels = bind(dequantize)["input"] if dequantize.target is DEQUANTIZE else None
    if not isinstance(levels, Node) or levels.target is not QUANTIZE or scale_of(levels) is None:
        return None
    source = bind(levels)["input"]
    is_alone = all(len(each.users) == 1 for each in (source, levels, dequantize))
    is_computed = source.op == "call_function" and source.target is not DEQUANTIZE
    again = {scale_of(user) if user.target is QUANTIZE else None for user in clamp.users}
    if not is_alone or not is_computed or len(again) != 1 or None in again:
        return None
    scale = scale_of(levels)
    return None if scale is None or scale != scale_of(dequantize) or {scale} == again else (source, scale)
