# SPDX-License-Identifier: Apache-2.0
"""Activations that are quantized at run time: the calls of it, as one call of an operator."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.quantized.closure import closed
from delegatec.backends.xnnpack.quantized.weights import weight_of
from delegatec.edge.affine import AFFINE
from delegatec.edge.analysis.quantized import Constant, quantized
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_dynamic, sizes_key

aten = torch.ops.aten

CHOOSE: Final = frozenset(
    {
        quantized.choose_qparams.tensor,
        quantized.choose_qparams_symmetric.tensor,
        quantized.choose_qparams_per_token.default,
        quantized.choose_qparams_per_token_asymmetric.default,
        AFFINE.choose_qparams_affine.default,
    }
)
_QUANTIZE: Final = frozenset(
    {
        quantized.quantize_per_tensor.tensor,
        quantized.quantize_per_tensor.tensor2,
        quantized.quantize_per_token.default,
        AFFINE.quantize_affine.default,
    }
)
DEQUANTIZE_ROWS: Final = frozenset(
    {
        quantized.dequantize_per_tensor.tensor,
        quantized.dequantize_per_tensor.tensor2,
        quantized.dequantize_per_token.default,
        AFFINE.dequantize_affine.default,
    }
)
DYNAMIC: Final = CHOOSE | _QUANTIZE | DEQUANTIZE_ROWS
"""Calls that quantize with parameters that they compute."""

_ROW: Final = 1
IMAGE_DIMS: Final = 3
"""Dimensions of an image in a batch, all with one scale."""


@dataclass(frozen=True)
class Rounding:
    """A value that is quantized at run time, and only read by layers with quantized weights.

    Attributes:
        source: the value, float32 or float16.
        result: the call that dequantizes it.
        dims: how many of its last dimensions have one scale in the runtime.
        calls: all calls, the result included.
    """

    source: Node
    result: Node
    dims: int
    calls: tuple[Node, ...]

    @property
    def inner(self) -> Sequence[Node]:
        """The calls but the result."""
        return self.calls[:-1]


def roundings(nodes: Sequence[Node], constant: Constant) -> list[Rounding]:
    """Returns the values of a program that the runtime can quantize itself.

    Args:
        nodes: its calls.
        constant: returns the value of a constant node, and None for other nodes.
    """
    found = [each for node in nodes if (each := _rounding(node, constant)) is not None]
    return closed([each for each in found if _is_read_by_layers(each, constant)])


def round_rows(program: EdgeProgram) -> bool:
    """Replaces the calls that quantize values at run time, where only layers read them.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder = Builder(program)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    found = roundings(nodes, builder.facts.constant)
    for each in found:
        call = builder.at(each.result).call(
            XNNPACK.rounded.default, each.source, each.dims, val=each.result.meta["val"]
        )
        each.result.replace_all_uses_with(call)
    if found:
        program.graph.eliminate_dead_code()
    return bool(found)


def order_images(program: EdgeProgram) -> bool:
    """Moves permutations of images that layers quantize at run time to before the quantization.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder, changed = Builder(program), False
    for node in program.graph.find_nodes(op="call_function", target=aten.permute.default):
        call, dims = bind(node)["self"], bind(node)["dims"]
        if call.target is not XNNPACK.rounded.default or dims[: -bind(call)["dims"]] != [0]:
            continue
        moved = builder.at(node).call(aten.permute.default, bind(call)["x"], dims)
        result = builder.call(XNNPACK.rounded.default, moved, bind(call)["dims"], val=node.meta["val"])
        node.replace_all_uses_with(result)
        changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed


def _rounding(node: Node, constant: Constant) -> Rounding | None:
    if node.target not in DEQUANTIZE_ROWS:
        return None
    levels, scale, zero = _parameters(node)
    if not isinstance(levels, Node) or levels.target not in _QUANTIZE:
        return None
    source, *same = _parameters(levels)
    is_computed = isinstance(scale, Node) and scale.target is operator.getitem
    chosen = scale.all_input_nodes[0] if is_computed else None
    if same != [scale, zero] or chosen is None or chosen.target not in CHOOSE:
        return None
    if bind(chosen)["input"] is not source or dtype_of(source) not in (torch.float32, torch.float16):
        return None
    if zero is not None and (zero.target is not operator.getitem or zero.all_input_nodes[0] is not chosen):
        return None
    if dtype_of(node) != dtype_of(source) or not _has_eight_bits(levels) or not _is_of_rows(node):
        return None
    dims = IMAGE_DIMS if _is_convolved(node) else _dims_of_scale(node, constant)
    calls = dict.fromkeys((chosen, scale, *([] if zero is None else [zero]), levels, node))
    return Rounding(source, node, dims, tuple(calls))


def _parameters(node: Node) -> tuple[Any, Any, Any]:
    """Returns the operand of a call that quantizes or dequantizes, its scale and its zero point."""
    bound = bind(node)
    scale, zero = (bound.get(name, bound.get(f"{name}s")) for name in ("scale", "zero_point"))
    return bound["input"], scale, zero


def _has_eight_bits(levels: Node) -> bool:
    bound = bind(levels)
    dtype = dtype_of(levels)
    if dtype not in (torch.int8, torch.uint8):
        return False
    limits = torch.iinfo(dtype)
    low, high = bound["quant_min"], bound["quant_max"]
    return (limits.max if high is None else high) - (limits.min if low is None else low) >= 254


def _is_of_rows(node: Node) -> bool:
    """Whether a value has one scale, or one for each row."""
    if node.target is not AFFINE.dequantize_affine.default:
        return True
    block, shape = bind(node)["block_size"], node.meta["val"].shape
    if sizes_key([block[-1]]) != sizes_key([shape[-1]]):
        return False
    return all(size == 1 for size in block[:-1]) or sizes_key(block) == sizes_key(shape)


def _dims_of_scale(node: Node, constant: Constant) -> int:
    """Returns how many dimensions of a linear layer's input have one scale: all, or the last.

    Rows of layers with a scale for each group of weights are quantized alone, and so are those of inputs with
    several sizes that vary, which the runtime cannot reshape.
    """
    shape = node.meta["val"].shape
    is_affine = node.target is AFFINE.dequantize_affine.default
    is_of_rows = node.target is quantized.dequantize_per_token.default or (
        is_affine and sizes_key(bind(node)["block_size"]) != sizes_key(shape)
    )
    rows = [size for size in shape[:-1] if is_dynamic([size]) or size != 1]
    if not rows or is_of_rows or sum(is_dynamic([size]) for size in rows) > 1:
        return _ROW
    layers = [bind(user) for user in node.users if user.target is aten.linear.default]
    weights = [weight_of(layer["weight"], constant) for layer in layers]
    # columns are the channels of a convolution, whose bias is a constant
    is_computed = any(isinstance(layer["bias"], Node) and constant(layer["bias"]) is None for layer in layers)
    return _ROW if is_computed or any(weight is None or weight.width for weight in weights) else len(shape)


def _is_read_by_layers(found: Rounding, constant: Constant) -> bool:
    result = found.result
    if not result.users:
        return False
    for user in result.users:
        if _is_convolved(result):
            if not _is_convolution(user, result, constant):
                return False
        elif (
            user.target is not aten.linear.default
            or bind(user)["input"] is not result
            or (weight := weight_of(bind(user)["weight"], constant)) is None
            or not weight.takes_rounded()
        ):
            return False
    return True


def _is_convolved(node: Node) -> bool:
    return aten.convolution.default in [user.target for user in node.users]


def _is_convolution(node: Node, x: Node, constant: Constant) -> bool:
    if node.target is not aten.convolution.default:
        return False
    bound = bind(node)
    if bound["input"] is not x or len(shape_of(x)) != 4:
        return False
    weight = weight_of(bound["weight"], constant, *((1, bound["groups"]) if bound["transposed"] else ()))
    return weight is not None and not weight.width
