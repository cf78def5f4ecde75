# SPDX-License-Identifier: Apache-2.0
"""Dynamically quantized activations: replaces the calls that quantize them by one call of an operator."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.quantized.closure import Fused, closed
from delegatec.backends.xnnpack.quantized.weights import layer_of, takes_dynamically_quantized
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import ANY, NONE, Argument, Call, Pattern, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.constant import Constant
from delegatec.edge.quantization.operators import (
    BLOCKWISE,
    CHOOSE,
    DEQUANTIZING,
    DYNAMIC,
    QUANTIZING,
    Operands,
    operands_of,
)
from delegatec.edge.symbols import is_dynamic, sizes_key

aten = torch.ops.aten

_QUANTIZE: Final = DYNAMIC & QUANTIZING
_DEQUANTIZE: Final = DYNAMIC & DEQUANTIZING
_DTYPES: Final = (torch.int8, torch.uint8)
_LEAST_RANGE: Final = 254
"""The difference of the largest and the least 8-bit quantized value, without the least of int8."""
_ROW: Final = 1
IMAGE_DIMS: Final = 3
"""Dimensions of an image in a batch, which have one scale."""
_IMAGES_RANK: Final = IMAGE_DIMS + 1


@dataclass(frozen=True)
class DynamicQuantization(Fused):
    """A dynamically quantized value that only layers with quantized weights read.

    Attributes:
        dims: how many of its last dimensions share a scale in the runtime.
    """

    dims: int


def dynamic_quantizations(nodes: Sequence[Node], constant: Constant) -> list[DynamicQuantization]:
    """Returns the values of a program that the runtime can quantize itself.

    Args:
        nodes: its calls.
        constant: returns the value of a constant node, and None for other nodes.
    """
    found = [each for node in nodes if (each := _dynamic_quantization(node, constant)) is not None]
    return closed([each for each in found if _is_read_by_layers(each, constant)])


def quantize_dynamically(program: EdgeProgram) -> bool:
    """Replaces the calls that quantize values dynamically, where only layers read them.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder = Builder(program)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    found = dynamic_quantizations(nodes, builder.facts.constant)
    for each in found:
        call = builder.at(each.result).call(
            XNNPACK.quantize_dynamically.default, each.source, each.dims, val=each.result.meta["val"]
        )
        each.result.replace_all_uses_with(call)
    if found:
        program.graph.eliminate_dead_code()
    return bool(found)


def order_images(program: EdgeProgram) -> bool:
    """Moves permutations of images before their dynamic quantization.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    return rewrite(program, _PERMUTED)


def _permute_first(b: Builder, node: Node, x: Node, dims: int, order: list[int]) -> Node | None:
    if order[:-dims] != [0]:
        return None
    permuted = b.call(aten.permute.default, x, order)
    return b.call(XNNPACK.quantize_dynamically.default, permuted, dims, val=node.meta["val"])


_X: Final = Var("x")
_PERMUTED: Final = fusion(
    Call(
        aten.permute.default,
        Call(XNNPACK.quantize_dynamically.default, _X, Argument("dims")),
        Argument("order"),
    ),
    _permute_first,
)


def _dynamic_quantization(node: Node, constant: Constant) -> DynamicQuantization | None:
    match = _ROUNDED.first(node)
    if match is None:
        return None
    x, quantize, operands = match.values["x"], operands_of(match.values["quantize"]), operands_of(node)
    has_eight_bits = quantize.dtype in _DTYPES and quantize.high - quantize.low >= _LEAST_RANGE
    if dtype_of(x) not in (torch.float32, torch.float16) or dtype_of(node) != dtype_of(x):
        return None
    if not has_eight_bits or not _is_of_rows(operands):
        return None
    dims = IMAGE_DIMS if _is_convolved(node) else _dims_of_scale(node, constant)
    return DynamicQuantization(x, node, tuple(dict.fromkeys(match.calls[::-1])), dims)


def _with_chosen(targets: frozenset[Any], x: Pattern) -> Pattern:
    """Matches calls with a scale, and possibly a zero point, that are computed from the value."""
    chosen = Call(CHOOSE, _X, ...).named("chosen")
    scale = Call(operator.getitem, chosen, ANY).named("scale")
    zero = (Call(operator.getitem, chosen, ANY) | NONE).named("zero")
    return Call(targets & BLOCKWISE, x, ANY, scale, zero, ...) | Call(
        targets - BLOCKWISE, x, scale, zero, ...
    )


_ROUNDED: Final = _with_chosen(_DEQUANTIZE, _with_chosen(_QUANTIZE, _X).named("quantize"))


def _is_of_rows(operands: Operands) -> bool:
    """Whether a value has one scale, or one for each row."""
    block, shape = operands.block, operands.x.meta["val"].shape
    if sizes_key(block[-1:]) != sizes_key(shape[-1:]):
        return False
    return all(size == 1 for size in block[:-1]) or sizes_key(block) == sizes_key(shape)


def _dims_of_scale(node: Node, constant: Constant) -> int:
    """Returns how many dimensions of a linear layer's input share a scale: all, or the last.

    Rows of layers with groupwise scales are quantized separately, and so are those of inputs with several
    dynamic sizes, which the runtime cannot reshape.
    """
    shape = node.meta["val"].shape
    is_of_rows = sizes_key(operands_of(node).block) != sizes_key(shape)
    rows = [size for size in shape[:-1] if is_dynamic([size]) or size != 1]
    if not rows or is_of_rows or sum(is_dynamic([size]) for size in rows) > 1:
        return _ROW
    layers = [layer_of(user, constant) for user in node.users if user.target is aten.linear.default]
    # columns are the channels of a convolution, whose bias is a constant
    is_per_tensor = all(each and not each.group_size and not each.computes_bias for each in layers)
    return len(shape) if is_per_tensor else _ROW


def _is_read_by_layers(found: DynamicQuantization, constant: Constant) -> bool:
    return bool(found.result.users) and all(
        _multiplies(user, found.result, constant) for user in found.result.users
    )


def _multiplies(user: Node, x: Node, constant: Constant) -> bool:
    """Whether a user of a value is a layer that multiplies integers: a linear one, or one of images."""
    if user.target is not (aten.convolution.default if _is_convolved(x) else aten.linear.default):
        return False
    layer = layer_of(user, constant)
    if layer is None or bind(user)["input"] is not x:
        return False
    if user.target is aten.linear.default:
        return takes_dynamically_quantized(layer)
    return len(shape_of(x)) == _IMAGES_RANK and not layer.group_size


def _is_convolved(node: Node) -> bool:
    return aten.convolution.default in [user.target for user in node.users]
