# SPDX-License-Identifier: Apache-2.0
"""Channels-last operators on images and volumes, see `edge/channels_last`. TOSA has the same."""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType, NanMode, ResizeMode
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.capabilities.convolution_limits import MAX_STRIDE
from delegatec.backends.arm.capabilities.families import SMALL_FAMILIES
from delegatec.backends.arm.dtypes import FLOATS, FLOATS_8, FORMAT_FLOATS_8, TO_TOSA
from delegatec.backends.arm.operators.row import Constraint, Lower, operator_row, zero_point
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.legalize import constraint

_ARITHMETIC: Final = FLOATS | FLOATS_8 | {torch.int8, torch.int16, torch.int32, torch.int64}
_ACCUMULATORS: Final = {
    DType.INT8: DType.INT32,
    DType.INT16: DType.INT48,
    DType.FP8E4M3: DType.FP16,
    DType.FP8E5M2: DType.FP16,
}
"""Type of images -> type of sums. Those of wider floating point are FP32."""
_SUMS: Final = {**_ACCUMULATORS, DType.INT16: DType.INT32}
"""Of pools."""
_MODES: Final = {"nearest": ResizeMode.NEAREST, "bilinear": ResizeMode.BILINEAR}


def _weight(b: GraphBuilder, node: Node) -> Value:
    bound = bind(node)
    weight, channels = bound["weight"], shape_of(bound["x"])[-1]
    if bound.get("groups", 1) == 1:
        return b.of(weight)
    outputs, *kernel, _ = shape_of(weight)
    return b.reshaped(b.transposed(weight, [1, 2, 0, 3]), (*kernel, channels, outputs // channels))


def _convolution(name: str, **fields: str) -> Lower:
    """Returns the lowering of a convolution.

    Args:
        name: the operator in TOSA.
        **fields: attribute -> argument.
    """

    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        x, weight, bias = b.of(bound["x"]), _weight(b, node), bound["bias"]
        dtype = _ACCUMULATORS.get(x.dtype, x.dtype)
        operands = (
            _bias(b, bias, dtype),
            zero_point(b, x, bound["x_zero"]),
            zero_point(b, weight, bound["weight_zero"]),
        )
        attributes: dict[str, Any] = {field: list(bound[argument]) for field, argument in fields.items()}
        attributes["acc_type"] = _ACCUMULATORS.get(x.dtype, DType.FP32)
        operation = name if bound.get("groups", 1) == 1 else "DEPTHWISE_CONV2D"
        if b.settings.specification.mark in SMALL_FAMILIES and max(bound["stride"][-2:]) > MAX_STRIDE:
            x, attributes = _padded(b, x, operands[1], attributes)
        result = b.emit(operation, x, weight, *operands, dtype=dtype, shape=shape_of(node), **attributes)
        b.alias(node, b.cast(result, TO_TOSA[dtype_of(node)]) if x.dtype in FORMAT_FLOATS_8 else result)

    return lower


def _padded(
    b: GraphBuilder, x: Value, zero: Value, attributes: dict[str, Any]
) -> tuple[Value, dict[str, Any]]:
    """Pads before a convolution whose strides are supported without padding only."""
    pad = attributes.get("pad", ())
    if not any(pad):
        return x, attributes
    amounts = [0, 0, *pad, 0, 0]
    pairs = zip(x.shape, amounts[::2], amounts[1::2], strict=True)
    shape = [sum(each) for each in pairs]
    padded = b.emit("PAD", x, b.shape(amounts), zero, shape=shape)
    return padded, {**attributes, "pad": [0] * len(pad)}


def _bias(b: GraphBuilder, bias: Node | None, dtype: int) -> Value:
    if dtype == DType.INT48:
        return (
            b.int48_scalar(0) if bias is None else b.arranged(bias, lambda tensor: tensor, dtype=DType.INT48)
        )
    return b.scalar(0, dtype) if bias is None else b.cast(b.of(bias), dtype)


def _windows(node: Node) -> dict[str, Any]:
    bound = bind(node)
    fields = {"kernel": "kernel", "stride": "stride", "pad": "padding"}
    return {field: list(bound[argument]) for field, argument in fields.items()}


def _max_pool(b: GraphBuilder, node: Node) -> None:
    b.result(node, "MAX_POOL2D", b.of(bind(node)["x"]), **_windows(node), nan_mode=NanMode.PROPAGATE)


def _avg_pool(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["x"])
    zeros = (zero_point(b, x, bound[name]) for name in ("x_zero", "out_zero"))
    accumulator = _SUMS.get(x.dtype, DType.FP32)
    b.result(node, "AVG_POOL2D", x, *zeros, **_windows(node), acc_type=accumulator)


def _resize(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["x"])
    sizes = (b.shape(bound[name]) for name in ("scale", "offset", "border"))
    wide = bound["mode"] == "bilinear"
    dtype = _ACCUMULATORS.get(x.dtype, x.dtype) if wide else x.dtype
    result = b.emit("RESIZE", x, *sizes, dtype=dtype, shape=shape_of(node), mode=_MODES[bound["mode"]])
    b.alias(node, result)


def _grouping(node: Node, _: object) -> str | None:
    groups, channels = bind(node)["groups"], shape_of(bind(node)["x"])[-1]
    return None if groups in (1, channels) else f"{groups} groups of {channels} channels"


_GROUPS: Final[Constraint] = constraint.Constraint(
    "argument", "groups is 1 or the number of channels: TOSA has no other grouped convolution.", _grouping
)

ROWS: Final = (
    operator_row(
        NHWC.conv2d.default,
        _convolution("CONV2D", pad="padding", stride="stride", dilation="dilation"),
        _ARITHMETIC,
        _GROUPS,
    ),
    operator_row(
        NHWC.conv3d.default,
        _convolution("CONV3D", pad="padding", stride="stride", dilation="dilation"),
        _ARITHMETIC,
    ),
    operator_row(
        NHWC.conv_transpose2d.default,
        _convolution("TRANSPOSE_CONV2D", out_pad="out_padding", stride="stride"),
        _ARITHMETIC,
    ),
    operator_row(NHWC.max_pool2d.default, _max_pool, _ARITHMETIC),
    operator_row(NHWC.avg_pool2d.default, _avg_pool, _ARITHMETIC),
    operator_row(NHWC.resize.default, _resize, _ARITHMETIC),
)
