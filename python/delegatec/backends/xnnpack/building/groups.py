# SPDX-License-Identifier: Apache-2.0
"""Linear layers with groupwise scales, as sums of layers with a scale per output channel."""

from __future__ import annotations

from functools import partial

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.layers import FilterForm, channel_filter, filter_of
from delegatec.backends.xnnpack.building.operations import binary, converted, fully_connected, sliced
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.edge.arguments import bind
from delegatec.edge.quantization.constant import QuantizedConstant
from delegatec.edge.quantization.layer import quantized_layer


def grouped_layer(b: QuantizedBuilder, node: Node, weight: QuantizedConstant) -> int:
    """Emits a linear layer with a float input; returns its result, float32.

    The products are accumulated one by one, so that few of them are in memory at a time.

    Args:
        b: the builder.
        node: the layer.
        weight: its weight.
    """
    bound = bind(node)
    id = converted(b, b.of(bound["input"]), torch.float32)
    layer, last = quantized_layer(node, b.constant_value), len(b.shape_of(id)) - 1
    assert layer is not None
    bias, width = layer.bias, weight.block[1]
    total: int | None = None
    if weight.zero_points is not None:
        corrections = (-weight.zero_points.to(torch.float64) * weight.scales).to(torch.float32)
        factors = b.constant(corrections, torch.float32, weight.source, form=("zeros", weight.call))
        added = NO_VALUE if bias is None else b.constant(bias.detach(), torch.float32)
        total = fully_connected(b, _sums(b, id, weight), factors, added)
    for index, part in enumerate(weight.columns()):
        start, scales = index * width, part.channel_scales()
        piece = b.shared(
            ("inputs", id, start, width),
            partial(sliced, b, id, last, start, start + width),
        )
        added = NO_VALUE
        if bias is not None and total is None:
            # divided by the scales: the kernel scales sum and bias
            added = b.constant(bias.detach() / scales, torch.float32)
        filter = filter_of(b, part, scales, FilterForm(("group", index)), packs=weight.is_int4)
        product = fully_connected(b, piece, filter, added)
        total = product if total is None else binary(b, Operation.Add, total, product)
    assert total is not None
    if layer.computes_bias:
        total = binary(b, Operation.Add, total, converted(b, b.of(bound["bias"]), torch.float32))
    return total


def _sums(b: QuantizedBuilder, id: int, weight: QuantizedConstant) -> int:
    """Emits the sums of each group's inputs, once for all layers that read a value."""
    groups, width = weight.groups, weight.block[1]

    def make() -> int:
        members = torch.eye(groups, dtype=torch.int8).repeat_interleave(width, 1)
        return fully_connected(b, id, channel_filter(b, members, torch.ones(groups), packs=True))

    return b.shared(("sums", id, width), make)
