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
from delegatec.backends.arm.integer.values import Fixed, Quantity, Quantized, UnsupportedError
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.channels_last.rewrites.convolutions import Convolution, convolve
from delegatec.edge.legalize.value import Value
from delegatec.edge.quantization.constant import QuantizedConstant, quantized_constant

aten = torch.ops.aten

_MOST: Final = (1 << 31) - 1


def weight_of(conversion: Conversion, node: Node) -> QuantizedConstant:
    """Returns the weight of a layer, in int8.

    Args:
        conversion: the state.
        node: the floating-point weight.

    Raises:
        UnsupportedError: it is not a constant of at most eight bits, with one zero point.
    """
    rank, chain = len(shape_of(node)), []
    while node.target in (aten.permute.default, aten.view.default, aten.squeeze.dims, aten.unsqueeze.default):
        chain.append(node)
        node = node.all_input_nodes[0]
    found = quantized_constant(node, conversion.constant)
    if found is None:
        raise UnsupportedError(f"the weight {node.name} is not quantized")
    found = found.signed()
    if found.dtype != torch.int8:
        raise UnsupportedError(f"the weight {node.name} has more than eight bits")
    zeros = found.zero_points
    if zeros is not None and bool((zeros != zeros.flatten()[0]).any()):
        raise UnsupportedError(f"the weight {node.name} has several zero points")
    if any(found.splits(dim) and width != 1 for dim, width in enumerate(found.block)):
        raise UnsupportedError(f"the weight {node.name} is quantized in groups")

    def move(part: Tensor) -> Tensor:
        for each in reversed(chain):
            target: Any = each.target
            part = target(part, *each.args[1:])
        return part

    return found.by_element().mapped(move, (1,) * rank) if chain else found


def _per_output(weight: QuantizedConstant, outputs: int) -> tuple[float, ...]:
    first = scales = weight.scales.to(torch.float64)
    for dim in range(scales.dim()):
        if dim != outputs:
            first = first.narrow(dim, 0, 1)
    if first.shape != scales.shape and not torch.equal(first.expand(scales.shape), scales):
        raise UnsupportedError(f"the scales of the weight {weight.call.name} are not per output")
    flat = first.reshape(-1).tolist()
    return (flat[0],) if len({*flat}) == 1 else tuple(flat)


class Operands(NamedTuple):
    """Operands of a product with a constant weight.

    Attributes:
        x: the other operand.
        source: the constant of the weight.
        weight: its quantized values.
        zero: its zero point.
        scale: of the accumulators, one or one per output.
        limit: a bound of the accumulators.
        bias: as the accumulators; None if there is none.
    """

    x: Quantized
    source: Node
    weight: Tensor
    zero: int
    scale: tuple[float, ...]
    limit: int
    bias: Tensor | None


def _operands(
    conversion: Conversion, x: Node, weight: QuantizedConstant, bias: Any, outputs: int, node: Node
) -> Operands:
    scales, zeros = _per_output(weight, outputs), weight.zero_points
    zero = 0 if zeros is None or not zeros.numel() else int(zeros.flatten()[0])
    value = conversion.narrow(conversion.of(x), x)
    scale = tuple(value.scale[0] * each for each in scales)
    # it matters for accumulators that are added or moved
    limit = _reach(weight.values, zero, outputs, exact=conversion.target(node) is None) * value.limit
    quantized_values = None
    if bias is not None:
        found = conversion.of(bias)
        if not isinstance(found, Fixed):
            raise UnsupportedError("the bias is not a constant")
        wide = torch.round(
            found.values.to(torch.float64).reshape(-1) / torch.tensor(scale, dtype=torch.float64)
        )
        most = _MOST if value.dtype == torch.int8 else (1 << 46)
        quantized_values = wide.clamp(-most, most).to(torch.int32 if value.dtype == torch.int8 else INT48)
        limit += int(quantized_values.abs().max())
    limit = min(limit, _MOST) if value.dtype == torch.int8 else limit
    return Operands(value, weight.source, weight.values.contiguous(), zero, scale, limit, quantized_values)


def _reach(weight: Tensor, zero: int, outputs: int, exact: bool) -> int:
    """Returns a bound of the sum of absolute values per output, which is the given dimension."""
    if not exact:
        return weight.numel() // weight.shape[outputs] * 255
    dims = [dim for dim in range(weight.dim()) if dim != outputs]
    return int((weight.to(torch.int32) - zero).abs().sum(dims).max())


def _convolution(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    call = Convolution.of(node)
    outputs = 1 if call.transposed else 0
    weight = weight_of(conversion, bound["weight"])
    if call.transposed and call.groups > 1 and len(_per_output(weight, outputs)) > 1:
        raise UnsupportedError("a grouped transposed convolution with scales per output")
    return _convolved(
        conversion, _operands(conversion, bound["input"], weight, bound["bias"], outputs, node), call, node
    )


def _convolved(conversion: Conversion, layer: Operands, call: Convolution, node: Node) -> Quantized:
    builder = conversion.arithmetic.builder
    call = replace(call, x_zero=layer.x.zero, weight_zero=layer.zero)
    weight = Value(builder, builder.derived(layer.source, layer.weight, torch.int8))
    bias = None if layer.bias is None else Value(builder, builder.constant(layer.bias))
    made: list[Quantized] = []

    def finish(value: Value, start: int) -> Value:
        scale = layer.scale[start : start + value.shape[-1]] if len(layer.scale) > 1 else layer.scale
        axis = value.rank - 1 if len(scale) > 1 else None
        made.append(finished(conversion, Quantized(value.node, scale, 0, layer.limit, axis), node))
        return Value(builder, made[-1].node)

    result = convolve(Value(builder, layer.x.node), weight, bias, call, finish)
    if result is None:
        raise UnsupportedError("there is no operator for this transposed convolution")
    if made[0].axis is None:
        return replace(made[0], node=result.node)
    return Quantized(result.node, layer.scale, 0, layer.limit, 1)


_POINTWISE: Final = Convolution([1, 1], [0, 0], [1, 1], False, [0, 0], 1)


def _product(conversion: Conversion, x: Node, weight: QuantizedConstant, bias: Any, node: Node) -> Quantized:
    """Returns x @ weight^T + bias as a convolution of 1 x 1; the weight is [outputs, inputs]."""
    layer = _operands(conversion, x, weight, bias, 0, node)
    inputs = layer.x.shape[-1]
    count = math.prod(layer.x.shape[:-1])
    builder = conversion.arithmetic.builder
    images = Value(builder, layer.x.node).view(1, count, 1, inputs).permute(0, 3, 1, 2)
    kernel = layer.weight.reshape(*layer.weight.shape, 1, 1)
    layer = layer._replace(x=replace(layer.x, node=images.node), weight=kernel)
    result = _convolved(conversion, layer, _POINTWISE, node)
    shape = shape_of(node)
    rows = Value(builder, result.node).permute(0, 2, 3, 1).view(*shape)
    return replace(result, node=rows.node, axis=None if result.axis is None else len(shape) - 1)


def _linear(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    weight = weight_of(conversion, bound["weight"])
    return _product(conversion, bound["input"], weight, bound["bias"], node)


def _addmm(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    term, factors = conversion.of(bound["self"]), (bound["alpha"], bound["beta"])
    is_bias = isinstance(term, Fixed) and shape_of(bound["self"]) == shape_of(node)[1:]
    if is_bias and factors == (1, 1) and _is_constant(conversion, bound["mat2"]):
        return _with_weight(conversion, bound["mat1"], bound["mat2"], bound["self"], node)
    if 0 in factors:
        raise UnsupportedError("alpha or beta is 0")
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


def _with_weight(conversion: Conversion, x: Node, y: Node, bias: Any, node: Node) -> Quantized:
    weight = weight_of(conversion, y).permuted(1, 0)
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
