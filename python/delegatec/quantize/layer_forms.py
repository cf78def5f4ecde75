# SPDX-License-Identifier: Apache-2.0
"""Layers of a graph whose weights are constants: linear layers, convolutions and embeddings."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from delegatec.quantize.constants import getattr_of, written_constants
from delegatec.quantize.selection import Selection
from delegatec.quantize.settings import Settings

aten = torch.ops.aten


class Form(enum.Enum):
    """The operation of a layer on its weight."""

    LINEAR = "products with rows"
    CONVOLUTION = "products with parts of images"
    EMBEDDING = "rows of the weight"


@dataclass(frozen=True)
class Operands:
    """Positions of a layer's operands, and the form of its weight.

    Attributes:
        form: the operation.
        x: position of the activation, or of the indices of an embedding.
        weight: position of the weight.
        axis: the weight's dimension of output channels.
    """

    form: Form
    x: int
    weight: int
    axis: int


_LINEAR: Final = Operands(Form.LINEAR, 0, 1, 0)
_PRODUCT: Final = Operands(Form.LINEAR, 0, 1, 1)

# Convolutions only of images: the runtime of XNNPACK, which quantizes their inputs, has no others.
LAYERS: Final[Mapping[Any, Operands]] = {
    aten.linear.default: _LINEAR,
    aten.matmul.default: _PRODUCT,
    aten.mm.default: _PRODUCT,
    aten.addmm.default: Operands(Form.LINEAR, 1, 2, 1),
    **dict.fromkeys((aten.conv2d.default, aten.conv2d.padding), Operands(Form.CONVOLUTION, 0, 1, 0)),
    aten.conv_transpose2d.input: Operands(Form.CONVOLUTION, 0, 1, 1),
    aten.embedding.default: Operands(Form.EMBEDDING, 1, 0, 0),
}


@dataclass(frozen=True)
class Layer:
    """A call with a constant weight in float32.

    Attributes:
        node: the call.
        operands: the positions of its operands.
    """

    node: Node
    operands: Operands

    @property
    def x(self) -> Node:
        """The activation, or the indices of an embedding."""
        node = self.node.args[self.operands.x]
        assert isinstance(node, Node)
        return node

    @property
    def weight(self) -> Node:
        """The node that loads the weight."""
        node = self.node.args[self.operands.weight]
        assert isinstance(node, Node)
        return node

    @property
    def is_product(self) -> bool:
        """Whether it is a linear layer with a weight of [inputs, outputs]."""
        return self.operands.form is Form.LINEAR and self.operands.axis == 1

    @property
    def name(self) -> str:
        """The weight's name."""
        return str(self.weight.target)


def layers_of(graph: GraphModule, settings: Settings, state: Collection[str]) -> list[Layer]:
    """Returns the layers that are quantized, in order.

    Convolutions are only those whose images are quantized, too: no kernel supports others.

    Args:
        graph: calls of ATen, in any form of torch.export.
        settings: how to quantize, and which calls stay in float.
        state: names of the state that any method writes to.
    """
    written, selection = written_constants(graph, state), Selection(settings)
    found = []
    for node in graph.graph.nodes:
        operands = LAYERS.get(node.target) if isinstance(node.target, OpOverload) else None
        if operands is None or selection.stays(node):
            continue
        if operands.form is Form.CONVOLUTION and settings.activation == "float":
            continue
        layer = Layer(node, operands)
        if _is_layer(graph, node, operands) and layer.name not in written:
            found.append(layer)
    return found


def _is_layer(graph: GraphModule, node: Node, operands: Operands) -> bool:
    if len(node.args) <= max(operands.x, operands.weight):
        return False
    x, weight = node.args[operands.x], node.args[operands.weight]
    if not isinstance(x, Node) or not isinstance(weight, Node) or weight.op != "get_attr":
        return False
    value = getattr_of(graph, weight)
    if not isinstance(value, Tensor) or value.dtype is not torch.float32 or not value.numel():
        return False
    if value.dim() < 2 or value.numel() == value.shape[operands.axis]:
        return False  # a scale for each element
    shape = x.meta["val"].shape
    if any(isinstance(size, int) and not size for size in shape):
        return False  # no elements, so no range
    if operands.form is not Form.LINEAR:
        return True
    if value.dim() != 2 or not shape:
        return False
    return node.target is not aten.addmm.default or _is_affine(node, value)


def _is_affine(node: Node, weight: Tensor) -> bool:
    """Whether a sum and a product are those of a linear layer: with a row, and without factors."""
    bias = node.args[0]
    shape = list(bias.meta["val"].shape) if isinstance(bias, Node) else None
    return shape == [weight.shape[1]] and all(factor == 1 for factor in node.kwargs.values())
