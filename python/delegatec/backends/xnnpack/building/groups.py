# SPDX-License-Identifier: Apache-2.0
"""Linear layers with scales of groups of inputs, as sums of layers with a scale per output channel."""

from __future__ import annotations

from functools import partial

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.layers import FilterForm, channel_filter, filter_of
from delegatec.backends.xnnpack.building.level_builder import LevelBuilder
from delegatec.backends.xnnpack.building.operations import binary, converted, fully_connected, sliced
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.quantized.groups import Grouped
from delegatec.backends.xnnpack.quantized.weights import layer_bias
from delegatec.edge.arguments import bind


def grouped_layer(b: LevelBuilder, node: Node, weight: Grouped) -> int:
    """Emits a linear layer of numbers; returns its result, float32.

    The products are added one after the other, so that few of them are in memory at a time.

    Args:
        b: the builder.
        node: the layer.
        weight: its weight.
    """
    bound = bind(node)
    id = converted(b, b.of(bound["input"]), torch.float32)
    bias, last = layer_bias(node, b.constant_value), len(b.shape_of(id)) - 1
    total: int | None = None
    corrections = weight.corrections()
    if corrections is not None:
        factors = b.constant(corrections, torch.float32, weight.source, form=("zeros", weight.call))
        added = NO_VALUE if bias is None else b.constant(bias.detach(), torch.float32)
        total = fully_connected(b, _sums(b, id, weight), factors, added)
    for index, part in enumerate(weight.parts()):
        start = index * weight.width
        piece = b.shared(
            ("inputs", id, start, weight.width),
            partial(sliced, b, id, last, start, start + weight.width),
        )
        added = NO_VALUE
        if bias is not None and total is None:
            # in units of the scales: the kernel scales sum and bias
            added = b.constant(bias.detach() / part.steps, torch.float32)
        filter = filter_of(b, part, FilterForm(("group", index)), packs=weight.is_int4)
        product = fully_connected(b, piece, filter, added)
        total = product if total is None else binary(b, Operation.Add, total, product)
    assert total is not None
    is_computed = bias is None and bound["bias"] is not None
    if is_computed:
        total = binary(b, Operation.Add, total, converted(b, b.of(bound["bias"]), torch.float32))
    return total


def _sums(b: LevelBuilder, id: int, weight: Grouped) -> int:
    """Emits the sums of each group's inputs, once for all layers that read a value."""
    groups, width = weight.groups, weight.width

    def make() -> int:
        members = torch.eye(groups, dtype=torch.int8).repeat_interleave(width, 1)
        return fully_connected(b, id, channel_filter(b, members, torch.ones(groups), packs=True))

    return b.shared(("sums", id, width), make)
