# SPDX-License-Identifier: Apache-2.0
"""Values that a scale represents exactly, so that quantizing them again changes nothing."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import scale_of
from delegatec.edge.arguments import bind, operand_nodes, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Call, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

ValueSets = dict[Node, Quantization]
"""The scale of each value that is dequantized, or selected from values of one scale."""

CLAMPS: Final[dict[Any, Callable[[dict[str, Any]], tuple[float, float]]]] = {
    aten.relu.default: lambda _: (0.0, math.inf),
    aten.relu6.default: lambda _: (0.0, 6.0),
    aten.hardtanh.default: lambda bound: (float(bound["min_val"]), float(bound["max_val"])),
    aten.clamp.default: lambda bound: (_bound(bound["min"], -math.inf), _bound(bound["max"], math.inf)),
}
"""Targets -> the bounds of a call, from its arguments."""


def _bound(scalar: float | None, default: float) -> float:
    return default if scalar is None else float(scalar)


_SPLITS: Final = frozenset({aten.split_with_sizes.default})

MOVES: Final = frozenset(
    {
        *_SPLITS,
        *(
            getattr(aten, name).default
            for name in ("view", "permute", "unsqueeze", "expand", "alias", "clone")
        ),
        *(aten.squeeze.dims, aten.slice.Tensor, aten.select.int, aten.cat.default),
        *(aten.constant_pad_nd.default, aten.max_pool2d_with_indices.default, aten.max_pool2d.default),
        NHWC.max_pool2d.default,
    }
)
"""Calls whose results are elements of their operands, or the padding value."""


_VIEWS: Final = frozenset({aten.view.default, aten.unsqueeze.default, aten.squeeze.dims, aten.select.int})


def moves_quantized(node: Node) -> bool:
    """Whether the runtime moves quantized values by a call.

    `expand` is a product with ones, and so are views of several dynamic sizes: both are of floats.
    """
    if node.target not in MOVES or node.target is aten.expand.default:
        return False
    if node.target not in _VIEWS:
        return True
    return sum(not isinstance(size, int) for size in shape_of(node)) <= 1


def value_set_of(node: Node, value_sets: ValueSets) -> Quantization | None:
    """Returns the scale that represents all elements of a value exactly, if one is known.

    Args:
        node: the value.
        value_sets: of its operands.
    """
    if node.target is DEQUANTIZE:
        return scale_of(node)
    if node.target is operator.getitem:
        source = node.all_input_nodes[0]
        return value_sets.get(source) if node.args[1] == 0 or source.target in _SPLITS else None
    if node.target not in MOVES and node.target not in CLAMPS:
        return None
    found = {value_sets.get(operand) for operand in operand_nodes(node)}
    scale = found.pop() if len(found) == 1 else None
    if scale is None:
        return None
    added: tuple[float, ...] = ()
    if node.target in CLAMPS:
        added = tuple(each for each in CLAMPS[node.target](bind(node)) if math.isfinite(each))
    elif node.target is aten.constant_pad_nd.default:
        added = (float(bind(node)["value"]),)
    return scale if all(map(scale.holds, added)) else None


def read_scale(node: Node) -> Quantization | None:
    """Returns the scale of the calls that dequantize quantized values, possibly after moves."""
    found = (scale_of(user) or (read_scale(user) if user.target in MOVES else None) for user in node.users)
    return next((scale for scale in found if scale is not None), None)


def value_sets_of(program: EdgeProgram) -> ValueSets:
    """Returns the known scales of all values."""
    value_sets: ValueSets = {}
    for node in program.graph.nodes:
        scale = value_set_of(node, value_sets) if node.op == "call_function" else None
        if scale is not None:
            value_sets[node] = scale
    return value_sets


def remove_repeated(program: EdgeProgram) -> bool:
    """Removes pairs of calls that quantize and dequantize values that are quantized in the same scale.

    Quantizers put such pairs around each call, also where it only moves values: without them, padding is next
    to the layer into which it is folded.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    value_sets = value_sets_of(program)

    def remove(_: Builder, node: Node, x: Node, quantized: Node) -> Node | None:
        return x if scale_of(quantized) == scale_of(node) == value_sets.get(x) is not None else None

    quantized = Call(QUANTIZE, Var("x"), ...).named("quantized")
    return rewrite(program, fusion(Call(DEQUANTIZE, quantized, ...), remove))
