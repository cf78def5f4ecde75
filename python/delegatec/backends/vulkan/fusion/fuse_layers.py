# SPDX-License-Identifier: Apache-2.0
"""Replaces layers between quantized values by the runtime's operators."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.vulkan.fusion.layers import (
    Fused,
    activation_of,
    fused_of,
    is_depthwise,
    unsupported,
)
from delegatec.backends.vulkan.operators.clamps import CLAMPS
from delegatec.backends.vulkan.operators.quantized.conversion import RANGE
from delegatec.backends.vulkan.operators.rewrites.quantized import quantized_node, value_of_quantized
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.arguments import bind, each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.rules.convolution_in_parts import merge_groups
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten

_TEXEL: Final = 4


def fuse_layers(program: EdgeProgram) -> bool:
    """Replaces the layers of a private program; see `fusion.layers`.

    Returns:
        Whether it changed.
    """
    return rewrite(program, dict.fromkeys(_FUSED, _fuse))


def _fuse(b: Builder, node: Node) -> Node | None:
    layer = fused_of(node, lambda operand: b.program.constants.get(operand.name))
    if layer is None or unsupported(layer) is not None:
        return None
    result = _FUSED[node.target](b.at(layer.output), layer)
    if result is None:
        return None
    replace(layer.output, result)
    return node


def _sum(builder: Builder, layer: Fused) -> Node:
    first, second = layer.inputs
    name, limits = activation_of(layer)
    low = bind(layer.output)["zero_point"] if name == "relu" else limits[0]
    found = builder.call(
        RUNTIME.q8ta_add.default,
        *(bind(operand)["input"] for operand in layer.inputs),
        *(parameter for operand in (first, second) for parameter in _parameters(operand)),
        *_parameters(layer.output),
        1.0,
        val=layer.output.meta["val"],
    )
    return _limited(builder, found, (low, limits[1]))


def _clamp(builder: Builder, layer: Fused) -> Node | None:
    """Returns a clamp at zero that changes the scale, if no other bound matters."""
    zero = bind(layer.output)["zero_point"]
    name, limits = activation_of(layer)
    if limits != RANGE or (name != "relu" and zero != RANGE[0]):
        return None
    return builder.call(
        RUNTIME.q8ta_relu.default,
        bind(layer.inputs[0])["input"],
        *_parameters(layer.inputs[0]),
        *_parameters(layer.output),
        val=layer.output.meta["val"],
    )


def _linear(builder: Builder, layer: Fused) -> Node | None:
    x = bind(layer.inputs[0])["input"]
    assert layer.product is not None
    weight = layer.product.weight.values
    if len(shape_of(x)) != 2 or weight.shape[1] % _TEXEL or layer.product.group_size:
        return None
    operator = RUNTIME.q8ta_linear_gemv if same_sizes(shape_of(x)[:1], (1,)) else RUNTIME.q8ta_linear
    name, limits = activation_of(layer)
    return _limited(
        builder,
        builder.call(
            operator.default,
            *_operands(builder, layer, x, weight, weight.sum(1, dtype=torch.int32)),
            name,
            val=layer.output.meta["val"],
        ),
        limits,
    )


def _convolution(builder: Builder, layer: Fused) -> Node | None:
    bound = bind(layer.node)
    x = bind(layer.inputs[0])["input"]
    assert layer.product is not None
    weight, groups, transposed = layer.product.weight.values, bound["groups"], bound["transposed"]
    shape = tuple(weight.shape)
    depthwise = not transposed and is_depthwise(shape, groups) and groups > 1
    if transposed:
        weight = weight.transpose(0, 1)
    elif not depthwise and groups > 1 and (shape[1] % _TEXEL or shape[0] // groups % _TEXEL):
        merged = merge_groups(weight, groups)
        if merged is None:
            return None
        weight, groups = merged
    sums = weight.flatten(1).sum(1, dtype=torch.int32)
    kernel = list(weight.shape[2:])
    stride, padding, dilation = (each(bound[name], 2) for name in ("stride", "padding", "dilation"))
    if depthwise:
        operator, packed = RUNTIME.q8ta_conv2d_dw, weight.permute(2, 3, 1, 0).flatten(2)
    else:
        packed = weight.permute(0, 2, 3, 1).flatten(1)
        plain = (kernel, stride, padding, groups) == ([1, 1], [1, 1], [0, 0], 1)
        operator = RUNTIME.q8ta_conv2d_pw if plain else RUNTIME.q8ta_conv2d
    window: list[Any] = [kernel, stride, padding]
    if transposed:
        operator = RUNTIME.q8ta_conv2d_transposed
        window.append(each(bound["output_padding"], 2))
    name, limits = activation_of(layer)
    count, *rest = shape_of(layer.output)
    images = [x] if count == 1 else _images(builder, x)
    results = [
        builder.call(
            operator.default,
            *_operands(builder, layer, image, _padded(packed), sums),
            *(*window, dilation, groups, name),
            val=builder.empty((1, *rest), torch.int8),
        )
        for image in images
    ]
    found = results[0] if count == 1 else builder.call(aten.cat.default, results, 0)
    return _limited(builder, found, limits)


def _images(builder: Builder, x: Node) -> list[Node]:
    return [builder.call(aten.slice.Tensor, x, 0, row, row + 1) for row in range(shape_of(x)[0])]


def _parameters(node: Node) -> tuple[float, int]:
    bound = bind(node)
    return float(bound["scale"]), int(bound["zero_point"])


def _operands(builder: Builder, layer: Fused, x: Node, weight: Tensor, sums: Tensor) -> list[Any]:
    """Returns the arguments of an operator with a weight, up to the bias."""
    found = layer.product
    assert found is not None
    # constants are float32 also in a program of float16
    constants = [weight.contiguous(), _padded(sums), _padded(found.scales)]
    if found.bias is not None:
        constants.append(_padded(found.bias.detach().to(torch.float32)))
    nodes: list[Any] = [builder.derived(found.weight.source, value, value.dtype) for value in constants]
    bias = nodes.pop() if found.bias is not None else None
    return [x, *_parameters(layer.inputs[0]), *nodes, *_parameters(layer.output), bias]


def _padded(values: Tensor) -> Tensor:
    """Pads rows to whole texels."""
    return torch.nn.functional.pad(values, (0, -values.shape[-1] % _TEXEL)).contiguous()


def _limited(builder: Builder, node: Node, limits: tuple[int, int]) -> Node:
    """Clamps quantized values, unless all are within the limits."""
    return (
        node
        if limits == RANGE
        else quantized_node(value_of_quantized(builder, node).clamp(*map(float, limits)))
    )


_FUSED: Final[dict[Any, Any]] = {
    aten.convolution.default: _convolution,
    aten.linear.default: _linear,
    aten.add.Tensor: _sum,
    **dict.fromkeys(CLAMPS, _clamp),
}
