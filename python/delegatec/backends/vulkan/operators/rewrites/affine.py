# SPDX-License-Identifier: Apache-2.0
"""Quantization in blocks, whose parameters are computed in each run, in float32."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.operators.rewrites.quantized import quantized_node, value_of_quantized
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, full, value_of
from delegatec.edge.quantization.affine import AFFINE, in_blocks, limits

aten = torch.ops.aten


def _float32(builder: Builder, node: Node) -> Value:
    is_quantized = dtype_of(node) == torch.int8
    return value_of_quantized(builder, node) if is_quantized else value_of(builder, node, torch.float32)


def _result(value: Value, like: torch.Tensor) -> Node:
    value = value.view(*like.shape)
    return quantized_node(value) if like.dtype == torch.int8 else value.to(like.dtype).node


def _quantize(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    scale, zeros = (bound[name] and _float32(builder, bound[name]) for name in ("scale", "zero_point"))
    return _result(quantized_values(builder, node, scale, zeros), node.meta["val"])


def quantized_values(builder: Builder, node: Node, scale: Value, zeros: Value | None) -> Value:
    """Returns what a call of `quantize_affine` computes, in blocks, as integers in float32.

    Args:
        builder: emits the calls.
        node: the call.
        scale: one scalar per block.
        zeros: likewise; None if all are 0.
    """
    bound = bind(node)
    shape, per_block, _ = in_blocks(shape_of(bound["input"]), bound["block_size"])
    found = (_float32(builder, bound["input"]).view(*shape) * scale.view(*per_block).reciprocal()).round()
    if zeros is not None:
        found = found + zeros.view(*per_block)
    low, high = limits(bound["output_dtype"], bound["quant_min"], bound["quant_max"])
    return found.clamp(low, high)


def _dequantize(builder: Builder, node: Node) -> Node | None:
    """Dequantizes activations; weights become plain arithmetic."""
    bound = bind(node)
    if builder.facts.constant(bound["input"]) is not None:
        return None
    shape, per_block, _ = in_blocks(shape_of(bound["input"]), bound["block_size"])
    values = _float32(builder, bound["input"]).view(*shape)
    if bound["zero_point"] is not None:
        values = values - _float32(builder, bound["zero_point"]).view(*per_block)
    return _result(values * _float32(builder, bound["scale"]).view(*per_block), node.meta["val"])


def _choose(builder: Builder, node: Node) -> list[Node] | None:
    found = parameters(builder, node)
    if found is None:
        return None
    return [_result(value, like) for value, like in zip(found, node.meta["val"], strict=True)]


def parameters(builder: Builder, node: Node) -> tuple[Value, Value] | None:
    """Returns what a call of `choose_qparams_affine` computes, in blocks: scales, and zero points in float32.

    Args:
        builder: emits the calls.
        node: the call.

    Returns:
        None for a kind of mapping that is unknown.
    """
    bound = bind(node)
    dtype = dtype_of(bound["input"])
    low, high = limits(bound["target_dtype"], bound["quant_min"], bound["quant_max"])
    shape, per_block, inside = in_blocks(shape_of(bound["input"]), bound["block_size"])
    blocks = _float32(builder, bound["input"]).view(*shape)

    def extreme(target: torch._ops.OpOverload) -> Value:
        found = builder.call(target, blocks.node, inside, True, val=builder.empty(per_block, torch.float32))
        return Value(builder, found)

    least, largest = extreme(aten.amin.default).clamp(high=0.0), extreme(aten.amax.default).clamp(low=0.0)
    smallest = torch.finfo(dtype).smallest_normal if bound["eps"] is None else bound["eps"]
    if bound["mapping_type"] == "ASYMMETRIC":
        scale = ((largest - least) / float(high - low)).clamp(low=smallest)
        return scale, (-((least / scale).round()) + low).clamp(low, high)
    if bound["mapping_type"] == "SYMMETRIC":
        scale = ((-least).maximum(largest) / (float(high - low) / 2)).clamp(low=smallest)
        return scale, full(builder, per_block, int((high + low + 1) / 2), torch.float32)
    return None


REWRITES: Final = tuple(
    Rewrite(getattr(AFFINE, name).default, rule, note="in floating point", preserved=True)
    for name, rule in (
        ("choose_qparams_affine", _choose),
        ("quantize_affine", _quantize),
        ("dequantize_affine", _dequantize),
    )
)
