# SPDX-License-Identifier: Apache-2.0
"""The calls that the runtime computes from int8 to int8, and with which scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.depthwise import is_large
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.quantized.fits import (
    fits_choice,
    fits_layer,
    fits_product,
    fits_slope,
    fits_sum,
)
from delegatec.backends.xnnpack.quantized.scales import SHARES
from delegatec.backends.xnnpack.quantized.weights import layer_of, quantized_bias
from delegatec.edge.arguments import bind
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.legalize.rules.reductions import reduced_dims
from delegatec.edge.quantization.constant import Constant
from delegatec.edge.quantization.scale import Quantization
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_MOST_TAPS: Final = 81
"""Elements of the largest window whose average is a depthwise convolution."""


@dataclass(frozen=True)
class QuantizedCall:
    """A call whose operands are quantized, and whose result is only quantized.

    Attributes:
        node: the call.
        scales: of the operands, in the order of `Kernel.operands`.
        result: the scale to which the result is quantized.
        constant: returns the value of a constant node, and None for other nodes.
    """

    node: Node
    scales: Sequence[Quantization]
    result: Quantization
    constant: Constant


@dataclass(frozen=True)
class Kernel:
    """The runtime's int8 kernel of an operator.

    Attributes:
        operands: names of the arguments that are quantized.
        computes: whether it can compute a call.
    """

    operands: tuple[str, ...]
    computes: Callable[[QuantizedCall], bool]


def _is_sum(call: QuantizedCall) -> bool:
    return bind(call.node)["alpha"] == 1 and fits_sum(call.scales, call.result)


def _is_gated(call: QuantizedCall) -> bool:
    return fits_product([call.scales[0], SHARES], call.result)


def _is_plain_elu(call: QuantizedCall) -> bool:
    bound = bind(call.node)
    return bool(bound["scale"] == bound["input_scale"] == 1)


def _is_leaky(call: QuantizedCall) -> bool:
    return fits_slope(call.scales[0], float(bind(call.node)["negative_slope"]), call.result)


def _is_mean(call: QuantizedCall) -> bool:
    rank = len(bind(call.node)["self"].meta["val"].shape)
    is_pooled = rank > 3 and sorted(reduced_dims(call.node)) == [rank - 3, rank - 2]
    # sums of int8 values have a buffer that does not grow with the batch: see `reductions.mean_of`
    is_static = not is_dynamic(call.node.meta["val"].shape)
    return is_pooled and is_static and fits_choice(call.scales, call.result)


def _is_average(call: QuantizedCall) -> bool:
    """Whether a depthwise convolution computes averages of windows: padding is not counted."""
    bound = bind(call.node)
    count = math.prod(bound["kernel"])
    is_inside = count <= _MOST_TAPS and not any(bound["padding"])
    # the filter is a constant with a value for each channel
    is_inside = is_inside and isinstance(bound["x"].meta["val"].shape[3], int)
    return is_inside and fits_layer(call.scales[0], torch.tensor([1 / count]), call.result)


def _is_layer(call: QuantizedCall) -> bool:
    layer = layer_of(call.node, call.constant)
    if layer is None or layer.group_size or layer.computes_bias:
        return False
    (scale,) = call.scales
    is_held = layer.bias is None or quantized_bias(layer.bias, layer.scales * scale.scale) is not None
    return is_held and fits_layer(scale, layer.scales, call.result)


def _is_convolution(call: QuantizedCall) -> bool:
    """Whether the int8 kernel computes a convolution; large depthwise ones are faster with floats."""
    return not is_large(call.node) and _is_layer(call)


_SUM: Final = Kernel(("self", "other"), _is_sum)
_PRODUCT: Final = Kernel(("self", "other"), lambda call: fits_product(call.scales, call.result))
_CHOICE: Final = Kernel(("self", "other"), lambda call: fits_choice(call.scales, call.result))
_TABLE: Final = Kernel(("self",), lambda call: True)  # a table with an entry for each quantized value

KERNELS: Final[dict[Any, Kernel]] = {
    **dict.fromkeys((aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar), _SUM),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), _PRODUCT),
    **dict.fromkeys((aten.maximum.default, aten.minimum.default), _CHOICE),
    **dict.fromkeys(
        (
            getattr(aten, name).default
            for name in ("sigmoid", "tanh", "gelu", "exp", "abs", "neg", "hardswish", "floor", "ceil")
        ),
        _TABLE,
    ),
    aten.elu.default: Kernel(("self",), _is_plain_elu),
    aten.leaky_relu.default: Kernel(("self",), _is_leaky),
    aten.silu.default: Kernel(("self",), _is_gated),
    aten.mean.dim: Kernel(("self",), _is_mean),
    XNNPACK.resize_bilinear.default: Kernel(("x",), lambda call: call.scales[0] == call.result),
    NHWC.avg_pool2d.default: Kernel(("x",), _is_average),
    aten.linear.default: Kernel(("input",), _is_layer),
    NHWC.conv2d.default: Kernel(("x",), _is_convolution),
    NHWC.conv_transpose2d.default: Kernel(("x",), _is_layer),
}
"""Operator -> its int8 kernel."""
