# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products of integers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.dialect import INT48
from delegatec.backends.arm.integer.accumulators import finished
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.elementwise import add, scaled
from delegatec.backends.arm.integer.matrices import matrices
from delegatec.backends.arm.integer.values import Fixed, Levels, Quantity, UnsupportedError
from delegatec.edge.analysis.quantized import quantized_constant
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.channels_last.rewrites.convolutions import Convolution, convolve
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten

_MOST: Final = (1 << 31) - 1


class Weight(NamedTuple):
    """A constant weight of int8, with one zero point.

    Attributes:
        origin: the constant of the program.
        levels: its integers, maybe rearranged.
        scale: one, or one per output.
        zero: the zero point.
    """

    origin: Node
    levels: Tensor
    scale: tuple[float, ...]
    zero: int

    def reach(self, outputs: int, exact: bool) -> int:
        """Returns a bound of the sum of absolute values per output, which is the given dimension."""
        if not exact:
            return self.levels.numel() // self.levels.shape[outputs] * 255
        centered = self.levels.to(torch.int32) - self.zero
        dims = [dim for dim in range(centered.dim()) if dim != outputs]
        return int(centered.abs().sum(dims).max())


def weight_of(conversion: Conversion, node: Node, outputs: int) -> Weight:
    """Returns the weight of a layer.

    Args:
        conversion: the state.
        node: the floating-point weight.
        outputs: its dimension of outputs.

    Raises:
        UnsupportedError: it is not a constant of at most eight bits.
    """
    chain: list[Node] = []
    while node.target in (aten.permute.default, aten.view.default, aten.squeeze.dims, aten.unsqueeze.default):
        chain.append(node)
        node = node.all_input_nodes[0]
    found = quantized_constant(node, conversion.constant)
    if found is None:
        raise UnsupportedError(f"the weight {node.name} is not quantized")
    levels = found.tensor.detach()
    zeros = 0 if found.zeros is None else found.zeros
    if levels.dtype == torch.uint8:
        levels = (levels.to(torch.int16) - 128).to(torch.int8)
        zeros = zeros - 128
    if levels.dtype != torch.int8:
        raise UnsupportedError(f"the weight {node.name} has more than eight bits")
    scales, zeros = found.scales.to(torch.float64), torch.as_tensor(zeros)
    zero = int(zeros.flatten()[0]) if zeros.numel() else 0
    if bool((zeros != zero).any()):
        raise UnsupportedError(f"the weight {node.name} has several zero points")
    shape = shape_of(found.levels)
    if any(width not in (size, 1) for width, size in zip(found.block, shape, strict=True)):
        raise UnsupportedError(f"the weight {node.name} is quantized in groups")
    scales = scales.expand(shape) if chain else scales
    for each in reversed(chain):
        target: Any = each.target
        levels = target(levels, *each.args[1:])
        scales = target(scales, *each.args[1:])
    return Weight(found.levels, levels, _per_output(scales, outputs, node), zero)


def _per_output(scales: Tensor, outputs: int, node: Node) -> tuple[float, ...]:
    first = scales
    for dim in range(scales.dim()):
        if dim != outputs:
            first = first.narrow(dim, 0, 1)
    if first.shape != scales.shape and not torch.equal(first.expand(scales.shape), scales):
        raise UnsupportedError(f"the scales of the weight {node.name} are not per output")
    flat = first.reshape(-1).tolist()
    return (flat[0],) if len({*flat}) == 1 else tuple(flat)


class Layer(NamedTuple):
    """Operands of a product with a constant weight, and the accumulators' scale."""

    x: Levels
    weight: Weight
    scale: tuple[float, ...]
    limit: int
    bias: Tensor | None


def _layer(conversion: Conversion, x: Node, weight: Weight, bias: Any, outputs: int, node: Node) -> Layer:
    value = conversion.narrow(conversion.of(x), x)
    scale = tuple(value.scale[0] * each for each in weight.scale)
    # it matters for accumulators that are added or moved
    limit = weight.reach(outputs, exact=conversion.target(node) is None) * value.limit
    levels = None
    if bias is not None:
        found = conversion.of(bias)
        if not isinstance(found, Fixed):
            raise UnsupportedError("the bias is not a constant")
        wide = torch.round(
            found.values.to(torch.float64).reshape(-1) / torch.tensor(scale, dtype=torch.float64)
        )
        most = _MOST if value.dtype == torch.int8 else (1 << 46)
        levels = wide.clamp(-most, most).to(torch.int32 if value.dtype == torch.int8 else INT48)
        limit += int(levels.abs().max())
    return Layer(value, weight, scale, min(limit, _MOST) if value.dtype == torch.int8 else limit, levels)


def _convolution(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    call = Convolution.of(node)
    outputs = 1 if call.transposed else 0
    weight = weight_of(conversion, bound["weight"], outputs)
    if call.transposed and call.groups > 1 and len(weight.scale) > 1:
        raise UnsupportedError("a grouped transposed convolution with scales per output")
    layer = _layer(conversion, bound["input"], weight, bound["bias"], outputs, node)
    call = replace(call, x_zero=layer.x.zero, weight_zero=weight.zero)
    return _convolved(conversion, layer, call, node)


def _convolved(conversion: Conversion, layer: Layer, call: Convolution, node: Node) -> Levels:
    builder = conversion.arithmetic.builder
    weight = Value(builder, builder.derived(layer.weight.origin, layer.weight.levels, torch.int8))
    bias = None if layer.bias is None else Value(builder, builder.constant(layer.bias))
    made: list[Levels] = []

    def finish(value: Value, start: int) -> Value:
        scale = layer.scale[start : start + value.shape[-1]] if len(layer.scale) > 1 else layer.scale
        axis = value.rank - 1 if len(scale) > 1 else None
        made.append(finished(conversion, Levels(value.node, scale, 0, layer.limit, axis), node))
        return Value(builder, made[-1].node)

    result = convolve(Value(builder, layer.x.node), weight, bias, call, finish)
    if result is None:
        raise UnsupportedError("there is no operator for this transposed convolution")
    if made[0].axis is None:
        return replace(made[0], node=result.node)
    return Levels(result.node, layer.scale, 0, layer.limit, 1)


_POINTWISE: Final = Convolution([1, 1], [0, 0], [1, 1], False, [0, 0], 1)


def _product(conversion: Conversion, x: Node, weight: Weight, bias: Any, node: Node) -> Levels:
    """Returns x @ weight^T + bias as a convolution of 1 x 1; the weight is [outputs, inputs]."""
    layer = _layer(conversion, x, weight, bias, 0, node)
    inputs = layer.x.shape[-1]
    count = math.prod(layer.x.shape[:-1])
    builder = conversion.arithmetic.builder
    images = Value(builder, layer.x.node).view(1, count, 1, inputs).permute(0, 3, 1, 2)
    call = replace(_POINTWISE, x_zero=layer.x.zero, weight_zero=weight.zero)
    levels = weight.levels.reshape(*weight.levels.shape, 1, 1)
    layer = layer._replace(x=replace(layer.x, node=images.node), weight=weight._replace(levels=levels))
    result = _convolved(conversion, layer, call, node)
    shape = shape_of(node)
    rows = Value(builder, result.node).permute(0, 2, 3, 1).view(*shape)
    return replace(result, node=rows.node, axis=None if result.axis is None else len(shape) - 1)


def _linear(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    weight = weight_of(conversion, bound["weight"], 0)
    return _product(conversion, bound["input"], weight, bound["bias"], node)


def _addmm(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    term, factors = conversion.of(bound["self"]), (bound["alpha"], bound["beta"])
    is_bias = isinstance(term, Fixed) and shape_of(bound["self"]) == shape_of(node)[1:]
    if is_bias and factors == (1, 1) and _is_constant(conversion, bound["mat2"]):
        return _with_weight(conversion, bound["mat1"], bound["mat2"], bound["self"], node)
    if 0 in factors:
        raise UnsupportedError("a product or a term with the factor 0")
    product = matrices(conversion, bound["mat1"], bound["mat2"], node, is_final=False)
    values = [scaled(conversion, value, by) for value, by in zip((product, term), factors, strict=True)]
    return add(conversion, values, (1, 1))


def _mm(conversion: Conversion, node: Node) -> Quantity:
    x, y = node.args[0], node.args[1]
    assert isinstance(x, Node) and isinstance(y, Node)
    if _is_constant(conversion, y):
        return _with_weight(conversion, x, y, None, node)
    return matrices(conversion, x, y, node)


def _bmm(conversion: Conversion, node: Node) -> Quantity:
    x, y = node.args[0], node.args[1]
    assert isinstance(x, Node) and isinstance(y, Node)
    # a convolution has the same weight for each image
    return matrices(conversion, x, y, node)


def _with_weight(conversion: Conversion, x: Node, y: Node, bias: Any, node: Node) -> Levels:
    weight = weight_of(conversion, y, 1)
    weight = weight._replace(levels=weight.levels.t().contiguous())
    return _product(conversion, x, weight, bias, node)


def _is_constant(conversion: Conversion, node: Node) -> bool:
    return isinstance(conversion.quantities.get(node), Fixed)


PRODUCTS: Final[Mapping[Any, Convert]] = {
    aten.convolution.default: _convolution,
    aten.linear.default: _linear,
    aten.addmm.default: _addmm,
    aten.mm.default: _mm,
    aten.bmm.default: _bmm,
}
