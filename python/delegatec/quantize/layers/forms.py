# SPDX-License-Identifier: Apache-2.0
"""Layers of a graph whose weights are constants: linear layers, convolutions and embeddings."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from delegatec.quantize.annotate.selection import Selection
from delegatec.quantize.graph.bodies import Body, all_nodes
from delegatec.quantize.graph.constants import getattr_of, tensor_of, written_constants
from delegatec.quantize.layers.lines import IMAGES, ROW, is_depthwise, is_pointwise
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

# Convolutions of images, and of lines, which are written as images or as linear layers.
LAYERS: Final[Mapping[Any, Operands]] = {
    aten.linear.default: _LINEAR,
    aten.matmul.default: _PRODUCT,
    aten.mm.default: _PRODUCT,
    aten.addmm.default: Operands(Form.LINEAR, 1, 2, 1),
    **dict.fromkeys((aten.conv2d.default, aten.conv2d.padding), Operands(Form.CONVOLUTION, 0, 1, 0)),
    **dict.fromkeys((aten.conv1d.default, aten.conv1d.padding), Operands(Form.CONVOLUTION, 0, 1, 0)),
    aten.conv_transpose2d.input: Operands(Form.CONVOLUTION, 0, 1, 1),
    aten.conv_transpose1d.default: Operands(Form.CONVOLUTION, 0, 1, 1),
    aten.embedding.default: Operands(Form.EMBEDDING, 1, 0, 0),
}


@dataclass(frozen=True)
class Layer:
    """A call with a constant weight in float32.

    Attributes:
        node: the call.
        operands: the positions of its operands.
        body: the body that has the call; None for the model's graph.
    """

    node: Node
    operands: Operands
    body: Body | None = None

    @property
    def x(self) -> Node:
        """The activation, or the indices of an embedding."""
        node = self.node.args[self.operands.x]
        assert isinstance(node, Node)
        return node

    @property
    def weight(self) -> Node:
        """The node that loads the weight, in the model's graph."""
        node = self.loaded(self.node.args[self.operands.weight])
        assert isinstance(node, Node)
        return node

    @property
    def outer_node(self) -> Node:
        """The call in the model's graph: the layer, or the one that runs its body."""
        return self.node if self.body is None else self.body.call

    def loaded(self, value: Any) -> Any:
        """Returns the node of the model's graph that a value next to the layer is."""
        return value if self.body is None else self.body.outer(value)

    def operand(self, value: Node) -> Node:
        """Returns a node next to the layer for one of the model's graph."""
        return value if self.body is None else self.body.inner(value)

    @property
    def is_line(self) -> bool:
        """Whether it is a convolution along one dimension."""
        return self.node.target in IMAGES

    @property
    def is_product(self) -> bool:
        """Whether it is a linear layer with a weight of [inputs, outputs]."""
        return self.operands.form is Form.LINEAR and self.operands.axis == 1

    def arranged(self, value: Tensor) -> Tensor:
        """Returns a weight as it is stored: [outputs, inputs] of a linear layer, or a filter of images."""
        if self.is_product:
            return value.t()
        if self.is_line:
            return value.squeeze(-1) if self.operands.form is Form.LINEAR else value.unsqueeze(ROW)
        return value

    @property
    def name(self) -> str:
        """The weight's name."""
        return str(self.weight.target)


def layers_of(graph: GraphModule, settings: Settings, state: Collection[str]) -> list[Layer]:
    """Returns the layers that are quantized, in order.

    Convolutions are only those whose images are quantized, too, and not depthwise: no kernel supports others.

    Args:
        graph: calls of ATen, in any form of torch.export.
        settings: how to quantize, and which calls stay in float.
        state: names of the state that any method writes to.
    """
    written, selection = written_constants(graph, state), Selection(settings)
    found = []
    for node, body in all_nodes(graph):
        operands = LAYERS.get(node.target) if isinstance(node.target, OpOverload) else None
        if operands is None or selection.stays(node):
            continue
        layer = Layer(node, operands, body)
        if not _is_layer(graph, layer) or layer.name in written:
            continue
        if operands.form is Form.CONVOLUTION:
            value = tensor_of(graph, layer.weight)
            if is_pointwise(node, value):
                layer = replace(layer, operands=_LINEAR)
            elif settings.activation == "float" or is_depthwise(node, value):
                continue
        found.append(layer)
    return found


def _is_layer(graph: GraphModule, layer: Layer) -> bool:
    node, operands = layer.node, layer.operands
    if len(node.args) <= max(operands.x, operands.weight):
        return False
    x, weight = node.args[operands.x], layer.loaded(node.args[operands.weight])
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
        return operands.form is Form.EMBEDDING or len(shape) == value.dim()  # with a batch
    if value.dim() != 2 or not shape:
        return False
    return node.target is not aten.addmm.default or _is_affine(node, value)


def _is_affine(node: Node, weight: Tensor) -> bool:
    """Whether a sum and a product are those of a linear layer: with a row, and without factors."""
    bias = node.args[0]
    shape = list(bias.meta["val"].shape) if isinstance(bias, Node) else None
    return shape == [weight.shape[1]] and all(factor == 1 for factor in node.kwargs.values())
