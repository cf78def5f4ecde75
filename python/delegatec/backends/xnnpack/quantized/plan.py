# SPDX-License-Identifier: Apache-2.0
"""Which values of a private program the runtime keeps as int8.

In the program, calls compute with numbers, between calls that quantize and dequantize. In the blob, a value
is numbers, or int8 levels with a scale. The plan chooses: a call whose operands are levels, and whose result
is only quantized, is one operation from levels to levels. All others compute with numbers, and conversions
are where the two meet.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.quantized.fits import (
    fits_choice,
    fits_layer,
    fits_product,
    fits_slope,
    fits_sum,
)
from delegatec.backends.xnnpack.quantized.grids import CLAMPS, MOVES, grid_of, read_scale
from delegatec.backends.xnnpack.quantized.scales import DEQUANTIZE, QUANTIZE, SHARES, Scale, is_step, scale_of
from delegatec.backends.xnnpack.quantized.weights import Weight, bias_levels, weight_of
from delegatec.edge.analysis.quantized import Constant, quantized_constant
from delegatec.edge.arguments import bind, dtype_of, operand_nodes
from delegatec.edge.legalize.rules.reductions import reduced_dims
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

Plan = dict[Node, Scale]
"""Value -> its scale, for each value that is kept as levels."""

_VIEWS: Final = frozenset({aten.view.default, aten.unsqueeze.default, aten.squeeze.dims, aten.select.int})

_Fits = Callable[[Node, Sequence[Scale], Scale, Constant], bool]


def plan(nodes: Sequence[Node], constant: Constant) -> Plan:
    """Chooses the values that are kept as levels.

    Args:
        nodes: the calls of a private program, in order.
        constant: returns the value of a constant node, and None for other nodes.
    """
    wanted = _wanted(nodes)
    chosen: Plan = {}
    for node in nodes:
        for operand in operand_nodes(node):
            scale = _scale_of_input(operand, constant) if operand.op == "placeholder" else None
            if scale is not None:
                chosen[operand] = scale
        scale = _chosen(node, chosen, wanted.get(node), constant)
        if scale is not None:
            chosen[node] = scale
    return chosen


def _scale_of_input(node: Node, constant: Constant) -> Scale | None:
    is_levels = dtype_of(node) in (torch.int8, torch.uint8) and constant(node) is None
    return read_scale(node) if is_levels else None


def _wanted(nodes: Sequence[Node]) -> Plan:
    """Returns the one scale to which all users of a value quantize it, maybe after calls that keep levels."""
    wanted: Plan = {}
    for node in reversed(nodes):
        found = set()
        for user in node.users:
            is_transparent = user.target in MOVES or user.target in CLAMPS or user.target is operator.getitem
            found.add(
                scale_of(user) if user.target is QUANTIZE else wanted.get(user) if is_transparent else None
            )
        scale = found.pop() if len(found) == 1 else None
        if scale is not None:
            wanted[node] = scale
    return wanted


def _chosen(node: Node, chosen: Plan, wanted: Scale | None, constant: Constant) -> Scale | None:
    if node.target is QUANTIZE:
        return scale_of(node)
    if node.target is DEQUANTIZE:
        return scale_of(node) if constant(bind(node)["input"]) is None else None
    if node.target is operator.getitem:
        return chosen.get(node.all_input_nodes[0])
    kind = _KINDS.get(node.target)
    operands = operand_nodes(node) if kind is None else [bind(node)[name] for name in kind[0]]
    scales = [operand_scale(each, chosen, constant) for each in operands]
    found = [scale for scale in scales if scale is not None]
    if len(found) < len(scales) or not any(each in chosen for each in operands):
        return None
    if kind is None:
        return _moved(node, found, chosen, wanted)
    return wanted if wanted is not None and kind[1](node, found, wanted, constant) else None


def _moved(node: Node, scales: Sequence[Scale], chosen: Plan, wanted: Scale | None) -> Scale | None:
    """Returns the scale of elements of operands."""
    # products with ones; so are views of several sizes that vary
    is_product = node.target is aten.expand.default or _varies_in_several(node)
    if is_product or (node.target not in MOVES and node.target not in CLAMPS):
        return None
    same = grid_of(node, chosen)
    if same is not None and wanted in (None, same):
        return same
    if node.target in CLAMPS:
        return wanted if wanted is not None and fits_choice(scales, wanted) else None
    # the operands are converted first
    is_joined = node.target is aten.cat.default and wanted is not None and fits_choice(scales, wanted)
    return wanted if is_joined else same


def _varies_in_several(node: Node) -> bool:
    """Whether several sizes vary of a value of another rank or other sizes than the operand."""
    value = node.meta["val"]
    if node.target not in _VIEWS or not isinstance(value, torch.Tensor):
        return False
    return sum(not isinstance(size, int) for size in value.shape) > 1


def operand_scale(node: Node | float, chosen: Plan, constant: Constant) -> Scale | None:
    """Returns the scale of an operand that is kept as levels, or of a constant that can be."""
    if not isinstance(node, Node):
        return scale_of_number(float(node))
    if node in chosen:
        return chosen[node]
    value = constant(node)
    if value is not None:
        return scale_of_number(float(value)) if value.numel() == 1 else None
    found = quantized_constant(node, constant)
    if found is None or found.tensor.dtype != torch.int8:
        return None
    if found.scales.numel() != 1 and len(set(found.scales.flatten().tolist())) != 1:
        return None
    zeros = {0} if found.zeros is None else {int(zero) for zero in found.zeros.flatten().tolist()}
    step = float(found.scales.flatten()[0])
    return Scale(step, zeros.pop()) if len(zeros) == 1 and is_step(step) else None


def scale_of_number(number: float) -> Scale | None:
    """Returns a scale that has a level for a number."""
    size = abs(number)
    return Scale(size / 64, 0) if 2.0**-50 < size < 2.0**50 else None


# ---- what the runtime computes from levels to levels -------------------------------------------------------


def _is_plain_elu(node: Node, _: Sequence[Scale], __: Scale, ___: Constant) -> bool:
    return bool(bind(node)["scale"] == bind(node)["input_scale"] == 1)


def _of_elements(_: Node, __: Sequence[Scale], ___: Scale, ____: Constant) -> bool:
    return True  # tables with an entry for each level


def _is_sum(node: Node, scales: Sequence[Scale], wanted: Scale, _: Constant) -> bool:
    return bind(node)["alpha"] == 1 and fits_sum(scales, wanted)


def _is_product(_: Node, scales: Sequence[Scale], wanted: Scale, __: Constant) -> bool:
    return fits_product(scales, wanted)


def _is_choice(_: Node, scales: Sequence[Scale], wanted: Scale, __: Constant) -> bool:
    return fits_choice(scales, wanted)


def _is_same(_: Node, scales: Sequence[Scale], wanted: Scale, __: Constant) -> bool:
    return scales[0] == wanted


def _is_gated(_: Node, scales: Sequence[Scale], wanted: Scale, __: Constant) -> bool:
    return fits_product([scales[0], SHARES], wanted)


def _is_mean(node: Node, scales: Sequence[Scale], wanted: Scale, _: Constant) -> bool:
    rank = len(bind(node)["self"].meta["val"].shape)
    is_pooled = rank > 3 and sorted(reduced_dims(node)) == [rank - 3, rank - 2]
    # sums of levels have a buffer that does not grow with the batch: see `reductions.mean_of`
    return is_pooled and not is_dynamic(node.meta["val"].shape) and fits_choice(scales, wanted)


def _is_average(node: Node, scales: Sequence[Scale], wanted: Scale, _: Constant) -> bool:
    """Whether a depthwise convolution computes averages of windows: padding is not counted."""
    bound = bind(node)
    count = math.prod(bound["kernel"])
    is_inside = count <= _MOST_TAPS and not any(bound["padding"])
    return is_inside and fits_layer(scales[0], torch.tensor([1 / count]), wanted)


_MOST_TAPS: Final = 81


def _is_leaky(node: Node, scales: Sequence[Scale], wanted: Scale, _: Constant) -> bool:
    return fits_slope(scales[0], float(bind(node)["negative_slope"]), wanted)


def _is_layer(node: Node, scales: Sequence[Scale], wanted: Scale, constant: Constant) -> bool:
    weight = layer_weight(node, constant)
    bias = layer_bias(node, constant)
    if weight is None or weight.width or (bias is None and bind(node)["bias"] is not None):
        return False
    steps = weight.steps * scales[0].step
    return bias_levels(bias, steps) is not None and fits_layer(scales[0], weight.steps, wanted)


def layer_weight(node: Node, constant: Constant) -> Weight | None:
    """Returns the quantized weight of a layer; None if it has none that the runtime has a form for."""
    bound = bind(node)
    if node.target is XNNPACK.conv_transpose2d.default:
        return weight_of(bound["weight"], constant, 1, bound["groups"])
    return weight_of(bound["weight"], constant)


def layer_bias(node: Node, constant: Constant) -> Tensor | None:
    """Returns the values of a layer's bias, which may be quantized; None if they are not constant."""
    bias = bind(node)["bias"]
    if bias is None:
        return None
    found = quantized_constant(bias, constant)
    return constant(bias) if found is None else found.values()


_KINDS: Final[dict[Any, tuple[tuple[str, ...], _Fits]]] = {
    **dict.fromkeys(
        (aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar), (("self", "other"), _is_sum)
    ),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), (("self", "other"), _is_product)),
    **dict.fromkeys((aten.maximum.default, aten.minimum.default), (("self", "other"), _is_choice)),
    **dict.fromkeys(
        (
            getattr(aten, name).default
            for name in ("sigmoid", "tanh", "gelu", "exp", "abs", "neg", "hardswish", "floor", "ceil")
        ),
        (("self",), _of_elements),
    ),
    aten.elu.default: (("self",), _is_plain_elu),
    aten.leaky_relu.default: (("self",), _is_leaky),
    aten.silu.default: (("self",), _is_gated),
    aten.mean.dim: (("self",), _is_mean),
    XNNPACK.resize_bilinear.default: (("x",), _is_same),
    XNNPACK.avg_pool2d.default: (("x",), _is_average),
    aten.linear.default: (("input",), _is_layer),
    XNNPACK.conv2d.default: (("x",), _is_layer),
    XNNPACK.conv_transpose2d.default: (("x",), _is_layer),
}
"""Targets -> names of the operands that are levels, and whether the runtime computes with their scales."""
