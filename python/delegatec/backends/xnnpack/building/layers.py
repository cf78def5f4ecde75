# SPDX-License-Identifier: Apache-2.0
"""Operands of layers: floats, or quantized values in the forms that the runtime's kernels multiply."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType
from torch import Tensor
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange, ArrangedElements
from delegatec.backends.xnnpack.building.operations import converted, reshaped
from delegatec.backends.xnnpack.building.packing import OffsetInt4Bytes
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.quantized.dynamic_quantization import IMAGE_DIMS
from delegatec.backends.xnnpack.quantized.weights import layer_of, quantized_bias, takes_dynamically_quantized
from delegatec.delegation.protocol.parts import TensorBytes, tensor_part
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.quantization.constant import QuantizedConstant

aten = torch.ops.aten


class Operands(NamedTuple):
    """Ids of the operands of a layer."""

    x: int
    filter: int
    bias: int


class FilterForm(NamedTuple):
    """The form in which the runtime stores a filter.

    Attributes:
        name: of the arrangement, see `GraphBuilder.constant`.
        arrange: permutes the dimensions of the weight from ATen's order to the runtime's.
        shape: the sizes in that order; those of the weight if empty.
        channel_dim: the dimension of the result's channels in that order.
        is_column: whether dynamically quantized rows are pixels of an image of one column, which has one
            scale.
        repeats: how often that dimension has all channels of the weight.
    """

    name: Hashable = None
    arrange: Arrange = Tensor.detach
    shape: Sequence[int] = ()
    channel_dim: int = 0
    is_column: bool = False
    repeats: int = 1


MATRIX: Final = FilterForm()
_MATRIX_DIMS: Final = 2


def linear_operands(b: QuantizedBuilder, node: Node) -> Operands:
    """Returns the operands of a linear layer, whose result may be float32 instead of float16."""
    bound = bind(node)
    x, weight, bias = (bound[name] for name in ("input", "weight", "bias"))
    return (
        quantized_operands(b, node, x, MATRIX)
        or _weight_only(b, node, x)
        or Operands(b.of(x), b.of(_half(b, weight)), NO_VALUE if bias is None else b.of(bias))
    )


def _half(b: QuantizedBuilder, weight: Node) -> Node:
    """Returns the float16 constant that a weight is converted from, which the kernel converts itself."""
    if weight.target is not aten._to_copy.default or dtype_of(weight) != torch.float32:
        return weight
    source: Node = bind(weight)["self"]
    value = b.constant_value(source)
    is_half = value is not None and value.dtype == dtype_of(source) == torch.float16
    return source if is_half else weight


def quantized_operands(b: QuantizedBuilder, node: Node, x: Node, form: FilterForm) -> Operands | None:
    """Returns the operands of a layer that multiplies integers; None if it multiplies floats.

    Args:
        b: the builder.
        node: the layer.
        x: its input.
        form: its filter.
    """
    if b.scale_of(node) is not None:
        return _static(b, node, x, form)
    return _dynamic(b, node, x, form) if is_dynamically_quantized(x) else None


def _static(b: QuantizedBuilder, node: Node, x: Node, form: FilterForm) -> Operands:
    scale, layer = b.scale_of(x), layer_of(node, b.constant_value)
    assert scale is not None and layer is not None
    bias_id = NO_VALUE
    if layer.bias is not None:
        scales = layer.scales * scale.scale
        found = quantized_bias(layer.bias, scales)
        assert found is not None
        found, scales = _repeated(found, form), _repeated(scales, form)
        data = b.draft.constant(tensor_part(found))
        bias_id = b.value(DataType.CHANNEL_INT32, found.shape, torch.float32, _channels(b, scales, 0), data)
    return Operands(b.of(x), filter_of(b, layer.weight, _repeated(layer.scales, form), form), bias_id)


def _repeated(values: Tensor, form: FilterForm) -> Tensor:
    """Returns the values of all channels of a filter, from those of the weight."""
    return values if form.repeats == 1 else values.repeat(form.repeats)


def filter_of(
    b: QuantizedBuilder,
    weight: QuantizedConstant,
    scales: Tensor,
    form: FilterForm = MATRIX,
    *,
    packs: bool = False,
) -> int:
    """Adds the filter of a layer, once for all layers with the weight.

    Args:
        b: the builder.
        weight: its quantized values.
        scales: float32, [channels of the result], or [channels, groups].
        form: the order of the values.
        packs: whether they are stored in four bits.
    """

    def make() -> int:
        elements = ArrangedElements(weight.values, form.arrange)
        data = OffsetInt4Bytes(weight.values) if packs else TensorBytes(elements, 1)
        table: Any = _channels(b, scales, form.channel_dim)
        kind = DataType.CHANNEL_INT4 if packs else DataType.CHANNEL_INT8
        if scales.dim() > 1:
            halves = scales.to(torch.bfloat16)
            kind = DataType.GROUP_INT4
            table = schema.ScalesOfGroupsT(
                scales=[],
                channelDim=form.channel_dim,
                groupSize=weight.block[1],
                scalesConstantId=b.draft.constant(tensor_part(halves)),
                numScales=halves.numel(),
            )
        shape = form.shape or weight.values.shape
        return b.named(b.value(kind, shape, torch.float32, table, b.draft.constant(data)), weight.source)

    return b.shared(("filter", weight.call, form.name, packs), make)


def channel_filter(b: QuantizedBuilder, values: Tensor, scales: Tensor, *, packs: bool = False) -> int:
    """Adds a filter that is not a weight of the model.

    Args:
        b: the builder.
        values: int8, [outputs, inputs].
        scales: the scale of each output.
        packs: whether the quantized values are stored in four bits.
    """
    data = b.draft.constant(OffsetInt4Bytes(values) if packs else tensor_part(values))
    kind = DataType.CHANNEL_INT4 if packs else DataType.CHANNEL_INT8
    return b.value(kind, values.shape, torch.float32, _channels(b, scales, 0), data)


def equal_weights(b: QuantizedBuilder, shape: Sequence[int]) -> int:
    """Adds the depthwise filter [1, height, width, channels] that averages windows: ones of 1 / size."""

    def make() -> int:
        values = torch.ones(tuple(shape), dtype=torch.int8)
        scales = torch.full(shape[3:], 1 / (shape[1] * shape[2]))
        data = b.draft.constant(tensor_part(values))
        return b.value(DataType.CHANNEL_INT8, shape, torch.float32, _channels(b, scales, 3), data)

    return b.shared(("averages", *shape), make)


def _channels(b: QuantizedBuilder, scales: Tensor, dim: int) -> schema.ScalesOfChannelsT:
    data = b.draft.constant(tensor_part(scales))
    return schema.ScalesOfChannelsT(scales=[], channelDim=dim, scalesConstantId=data, numScales=len(scales))


def is_dynamically_quantized(node: Node) -> bool:
    """Whether layers quantize a value dynamically."""
    return node.target is XNNPACK.quantize_dynamically.default


def _dynamically_quantized(b: QuantizedBuilder, call: Node, form: FilterForm) -> int:
    """Returns a dynamically quantized value, for layers alone."""
    source, dims = bind(call).values()
    if len(form.shape) == _MATRIX_DIMS:
        dims = 1  # a row for each pixel
    # kernels with float16 results are up to seven times slower on x86-64, and lack int4 weights per channel
    id = converted(b, b.of(source), torch.float32)
    if form.is_column:
        id, dims = _column(b, call, id), IMAGE_DIMS

    def make() -> int:
        table = schema.ScalesOfRowsT(dims)
        out = b.value(DataType.DYNAMIC_INT8, b.shape_of(id), b.dtype_of(id), table)
        with b.at(call):
            return b.convert(id, out)

    return b.shared(("rounded", id, dims), make)


def _column(b: QuantizedBuilder, call: Node, id: int) -> int:
    """Returns the rows of a value as pixels of an image of one column."""
    *rows, inputs = b.shape_of(id)

    def make() -> int:
        with b.at(call):
            return reshaped(b, id, (1, math.prod(rows), 1, inputs))

    return b.shared(("column", id), make)


def _dynamic(b: QuantizedBuilder, node: Node, x: Node, form: FilterForm) -> Operands | None:
    layer = layer_of(node, b.constant_value)
    if layer is None or not takes_dynamically_quantized(layer):
        return None
    # the runtime computes wrong sums of an odd number of inputs in four bits
    is_even = form is MATRIX and layer.weight.values.shape[1] % 2 == 0
    packs = bool(layer.group_size) or (is_even and layer.weight.is_int4)
    bias_id = NO_VALUE
    # float32 also in float16 models
    if layer.computes_bias:
        bias_id = converted(b, b.of(bind(node)["bias"]), torch.float32)
    elif layer.bias is not None:
        bias_id = b.constant(layer.bias.detach(), torch.float32)
    rows = _dynamically_quantized(b, x, form)
    return Operands(rows, filter_of(b, layer.weight, layer.scales, form, packs=packs), bias_id)


def _weight_only(b: QuantizedBuilder, node: Node, x: Node) -> Operands | None:
    """Returns floats, quantized values, and a bias divided by the scales: the kernel scales sum and bias."""
    layer = layer_of(node, b.constant_value)
    if layer is None or layer.group_size or layer.computes_bias:
        return None
    bias_id = NO_VALUE
    if layer.bias is not None:
        bias_id = b.constant(layer.bias.detach() / layer.scales, torch.float32)
    id = converted(b, b.of(x), torch.float32)
    return Operands(id, filter_of(b, layer.weight, layer.scales, packs=layer.weight.is_int4), bias_id)
