# SPDX-License-Identifier: Apache-2.0
"""Operations on images, [N, H, W, C], see `edge/channels_last/operators.py`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange
from delegatec.backends.xnnpack.building.columns import column_layer
from delegatec.backends.xnnpack.building.layers import (
    FilterForm,
    Operands,
    equal_weights,
    is_dynamically_quantized,
    quantized_operands,
)
from delegatec.backends.xnnpack.building.operations import binary, converted, fully_connected
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.depthwise import is_large
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.flags import ALIGNS_CORNERS
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.operators.large_kernels import convolve_in_parts
from delegatec.backends.xnnpack.operators.pixel_blocks import blocks, has_blocks
from delegatec.backends.xnnpack.operators.row import KnownConstraint, Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import SAME_DTYPES
from delegatec.backends.xnnpack.quantized.weights import is_weight
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.symbols import is_dynamic


def _result(
    b: QuantizedBuilder,
    node: Node,
    operation: int,
    table: Callable[[int], Any],
    dtype: torch.dtype | None = None,
) -> None:
    """Emits an operation; `table` returns its operands and attributes from the id of its result.

    The kernel's result has a dtype, that of the node by default, and is converted to that of the node.
    """
    value = node.meta["val"]
    out = b.temporary(value.shape, dtype or value.dtype)
    b.emit(operation, table(out))
    b.alias(node, converted(b, out, value.dtype))


def _convolution(b: QuantizedBuilder, node: Node) -> None:
    bound = bind(node)
    weight, groups = bound["weight"], bound["groups"]
    outputs, inputs, *kernel = shape_of(weight)
    channels = (inputs, outputs // groups, groups)
    is_of_pixels = groups == math.prod(kernel) == 1 and _is_dense(bound)
    # the runtime has no depthwise convolution of dynamically quantized values
    if groups > 1 and inputs == 1 and not is_dynamically_quantized(bound["x"]):
        if is_large(node) and b.scale_of(node) is None:
            convolve_in_parts(b, node)
            return
        filter = _Filter("depthwise", _depthwise, kernel, channels)
        _emit_convolution(b, node, Operation.DepthwiseConvolution, filter)
    elif is_of_pixels and is_dynamically_quantized(bound["x"]):
        b.alias(node, converted(b, _pixels(b, node, bound["x"], (outputs, inputs)), dtype_of(node)))
    elif _is_float16(b, node) and is_of_pixels:
        # The same layer, with weights of half the size.
        form = b.arranged(weight, "pixels", _channels_last, (outputs, inputs))
        bias = NO_VALUE if bound["bias"] is None else b.of(bound["bias"])
        b.alias(node, fully_connected(b, b.of(bound["x"]), form, bias))
    else:
        _emit_convolution(
            b, node, Operation.Convolution, _Filter("channels last", _channels_last, kernel, channels)
        )


def _pixels(b: QuantizedBuilder, node: Node, x: Node, shape: tuple[int, int]) -> int:
    """Emits a layer of dynamically quantized pixels: in one scale, unless several sizes are dynamic."""
    if sum(is_dynamic([size]) for size in b.shape_of(b.of(x))) <= 1:
        return column_layer(b, node, x)
    operands = quantized_operands(b, node, x, FilterForm("pixels", lambda weight: weight.flatten(1), shape))
    assert operands is not None
    return fully_connected(b, *operands)


def _is_float16(b: QuantizedBuilder, node: Node) -> bool:
    """Whether a convolution multiplies float16 values."""
    return dtype_of(node) == torch.float16 and b.scale_of(node) is None


def _is_dense(bound: Mapping[str, Any]) -> bool:
    """Whether a convolution computes a result at each pixel, and nowhere else."""
    return set(bound["stride"]) == {1} and not any(bound["padding"])


def _conv_transpose(b: QuantizedBuilder, node: Node) -> None:
    if has_blocks(node):
        blocks(b, node)
        return
    bound = bind(node)
    groups = bound["groups"]
    inputs, outputs, *kernel = shape_of(bound["weight"])

    def arrange(weight: torch.Tensor) -> torch.Tensor:
        """[groups * in, out, ..] as [groups, out, .., in]."""
        apart = weight.view(groups, inputs // groups, *weight.shape[1:])
        return apart.movedim(1, -1)

    filter = _Filter(("transposed", groups), arrange, kernel, (inputs // groups, outputs, groups))
    _emit_convolution(b, node, Operation.TransposedConvolution, filter)


class _Filter(NamedTuple):
    """The filter of a convolution.

    Attributes:
        form: names the arrangement.
        arrange: permutes the dimensions of the weight to the runtime's order.
        kernel: its sizes; a kernel of one row has a single size.
        channels: inputs of a group, outputs of a group, and the number of groups.
    """

    form: Hashable
    arrange: Arrange
    kernel: Sequence[int]
    channels: tuple[int, int, int]


def _emit_convolution(b: QuantizedBuilder, node: Node, operation: int, filter: _Filter) -> None:
    """Emits a convolution. Weights of float16 are stored as float32."""
    bound = bind(node)
    inputs, outputs, groups = filter.channels
    kernel = (1, *filter.kernel)[-2:]
    depthwise = operation == Operation.DepthwiseConvolution
    shape = (1, *kernel, groups * outputs) if depthwise else (groups * outputs, *kernel, inputs)
    # The runtime refuses float16, and rounds float32 to float16 when it packs them.
    is_wide = dtype_of(node) == torch.float16
    form = FilterForm(filter.form, filter.arrange, shape, 3 if depthwise else 0)
    operands = quantized_operands(b, node, bound["x"], form)
    if operands is None:
        weight = b.arranged(bound["weight"], filter.form, filter.arrange, shape, is_wide)
        bias = NO_VALUE
        if bound["bias"] is not None:
            bias = b.arranged(bound["bias"], "bias", torch.Tensor.detach, shape_of(bound["bias"]), is_wide)
        operands = Operands(b.of(bound["x"]), weight, bias)
    if operation == Operation.TransposedConvolution:
        top, bottom, left, right = (max(-amount, 0) for amount in bound["out_padding"])
        adjustment = _output_padding(bound)
    else:
        (top, bottom, left, right), adjustment = bound["padding"], [0, 0]
    fields = (*kernel, *bound["stride"], *bound["dilation"], *filter.channels, *adjustment)
    _result(
        b,
        node,
        operation,
        lambda out: schema.ConvolutionT(top, right, bottom, left, *fields, *operands, out, 0),
        torch.float32 if is_dynamically_quantized(bound["x"]) else None,
    )


def _output_padding(bound: Mapping[str, Any]) -> list[int]:
    """Returns the rows and columns that a transposed convolution adds after the last ones."""
    return [max(amount, 0) for amount in bound["out_padding"][1::2]]


def _channels_last(weight: torch.Tensor) -> torch.Tensor:
    return weight.movedim(1, -1)


def _depthwise(weight: torch.Tensor) -> torch.Tensor:
    return weight.movedim(0, -1)


def _pool(operation: int) -> Lower:
    def lower(b: QuantizedBuilder, node: Node) -> None:
        bound = bind(node)
        source = b.of(bound["x"])
        top, bottom, left, right = bound["padding"]
        fields = (*bound["kernel"], *bound["stride"], *bound.get("dilation", (1, 1)))
        _result(
            b,
            node,
            operation,
            lambda out: schema.PoolingT(top, right, bottom, left, *fields, source, out, 0),
        )

    return lower


def _average(b: QuantizedBuilder, node: Node) -> None:
    """Emits a pool of floats. The runtime has none of int8 values: they are convolved by equal weights."""
    if b.scale_of(node) is None:
        _pool(Operation.AveragePooling)(b, node)
        return
    bound = bind(node)
    channels, kernel, source = shape_of(node)[3], bound["kernel"], b.of(bound["x"])
    filter = equal_weights(b, [1, *kernel, channels])
    fields = (*kernel, *bound["stride"], 1, 1, 1, 1, channels, 0, 0)
    _result(
        b,
        node,
        Operation.DepthwiseConvolution,
        lambda out: schema.ConvolutionT(0, 0, 0, 0, *fields, source, filter, NO_VALUE, out, 0),
    )


def _resize(b: QuantizedBuilder, node: Node) -> None:
    bound = bind(node)
    source, flags = b.of(bound["x"]), ALIGNS_CORNERS if bound["align_corners"] else 0
    _result(
        b,
        node,
        Operation.ResizeBilinear,
        lambda out: schema.ResizeBilinearT(*bound["sizes"], source, out, flags),
    )


def _prelu(b: QuantizedBuilder, node: Node) -> None:
    bound = bind(node)
    b.alias(node, binary(b, Operation.Prelu, b.of(bound["x"]), b.of(bound["slope"])))


def _constants(*names: str) -> KnownConstraint:
    """Requires that arguments are constants, or absent."""

    def broken(node: Node, facts: Facts) -> str | None:
        bound = bind(node)
        bad = [name for name in names if bound[name] is not None and not _is_constant(bound[name], facts)]
        return f"{bad[0]} is not constant" if bad else None

    listed = " and ".join(names)
    return Constraint("constant", f"The runtime packs {listed} when it loads a program.", broken)


def _is_constant(node: Node, facts: Facts) -> bool:
    return facts.constant(node) is not None or is_weight(node, facts.constant)


def _much_output_padding(node: Node, _: object) -> str | None:
    bound = bind(node)
    added, stride = _output_padding(bound), bound["stride"]
    return f"{added} for a stride of {stride}" if any(map(operator.ge, added, stride)) else None


_ADJUSTMENT: Final = Constraint[object](
    "argument",
    "Output padding minus padding is less than the stride: the limit of the runtime.",
    _much_output_padding,
)
_PACKED: Final = (_constants("weight", "bias"),)

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(NHWC.conv2d.default, _convolution, SAME_DTYPES, resizes=True, known=_PACKED),
    operator_row(
        NHWC.conv_transpose2d.default,
        _conv_transpose,
        SAME_DTYPES,
        _ADJUSTMENT,
        resizes=True,
        known=_PACKED,
    ),
    operator_row(NHWC.max_pool2d.default, _pool(Operation.MaxPooling), resizes=True, note="NaN may be lost"),
    operator_row(
        NHWC.avg_pool2d.default,
        _average,
        resizes=True,
        note="NaN may be lost",
    ),
    operator_row(XNNPACK.resize_bilinear.default, _resize, resizes=True),
    operator_row(XNNPACK.prelu.default, _prelu, SAME_DTYPES, resizes=True, known=(_constants("slope"),)),
)
