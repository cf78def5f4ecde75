# SPDX-License-Identifier: Apache-2.0
"""Convolutions and `addmm` as matrix products, the fastest kernels that the runtime has.

`mm`, `bmm` and `linear` call a BLAS; `convolution` and `addmm` are plain loops. In the stock runtime of
ExecuTorch 1.4.1 these take 40 to 150 times as long, and depthwise convolutions 4 times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable
from delegatec.edge.legalize.rules.linear import addmm_by_mm
from delegatec.edge.legalize.value import Value, cat
from delegatec.program.kernels.limits import COMPUTED_IN

aten = torch.ops.aten

# Patches take the memory of the input several times over. If they take more than this many bytes, and more
# than half of the input and the output, the output is computed in strips. Measured: MobileNetV2 and ResNet-50
# need as much planned memory as with the kernel of convolutions, and are not slower than with larger strips.
_MAX_PATCH_BYTES: Final = 2 * 2**20


def _product_of_nothing(b: Builder, node: Node) -> Node | None:
    """The BLAS does not write sums without terms."""
    terms, val = shape_of(node.all_input_nodes[0])[-1], node.meta["val"]
    if not isinstance(terms, int) or terms:
        return None
    return b.call(aten.full.default, list(val.shape), 0, dtype=val.dtype, val=val)


def _addmm(b: Builder, node: Node) -> Node | None:
    """Computes the product by `mm`; the kernel multiplies infinities of an operand by a factor of zero."""
    a = bind(node)
    if a["alpha"] == 0 or a["beta"] == 0:
        return addmm_by_mm(b, node)
    if a["alpha"] != 1 or a["beta"] != 1 or _computed_in(node) != dtype_of(node):
        return None
    return addmm_by_mm(b, node)


def _convolution(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    for name in ("stride", "padding", "dilation"):
        # one integer represents all dimensions
        a[name] = list(a[name]) * (len(shape_of(node)) - 2) if len(a[name]) == 1 else a[name]
    sizes = [*shape_of(node), *shape_of(a["input"]), *shape_of(a["weight"])]
    if a["transposed"] or not all(isinstance(size, int) for size in sizes):
        return None
    wide = _computed_in(node)
    x, weight = Value(b, a["input"]).to(wide), Value(b, a["weight"]).to(wide)
    batch, channels, *outputs = shape_of(node)
    groups, taps = a["groups"], math.prod(weight.shape[1:])
    max_bytes = max(_MAX_PATCH_BYTES, (x.numel + math.prod(shape_of(node))) * wide.itemsize // 2)
    if batch > 1 and batch * weight.numel * wide.itemsize > max_bytes:
        return None  # each image reads a copy of the weight
    weight = weight.view(groups, channels // groups, taps)
    if batch > 1:
        weight = weight.view(1, *weight.shape).expand(batch, *weight.shape)
        weight = weight.view(batch * groups, channels // groups, taps)
    if any(a["padding"]):
        x = x.pad([pad for pad in reversed(a["padding"]) for _ in range(2)], 0.0)
    x_strides = [math.prod(x.shape[dim:]) for dim in range(1, x.rank + 1)]
    strides = [x_stride * stride for x_stride, stride in zip(x_strides[2:], a["stride"], strict=True)]
    dilations = [x_stride * dilation for x_stride, dilation in zip(x_strides[2:], a["dilation"], strict=True)]
    rows = max(1, max_bytes // max(1, batch * groups * taps * math.prod(outputs[1:]) * wide.itemsize))
    is_pointwise = list(x.shape[2:]) == outputs and strides == x_strides[2:]
    if is_pointwise:
        rows = outputs[0]
    products = []
    for first in range(0, outputs[0], rows):
        strip = [min(rows, outputs[0] - first), *outputs[1:]]
        sizes = [*x.shape[:2], *shape_of(a["weight"])[2:], *strip]
        offset = first * strides[0]
        patches = x if is_pointwise else x.strided(sizes, [*x_strides[:2], *dilations, *strides], offset)
        products.append(weight @ patches.view(batch * groups, taps, math.prod(strip)))
    result = cat(products, 2).view(batch, channels, math.prod(outputs))
    if a["bias"] is not None:
        result += Value(b, a["bias"]).to(wide).view(channels, 1)
    return result.view(*shape_of(node)).to(dtype_of(node)).node


def _computed_in(node: Node) -> torch.dtype:
    wider: Mapping[torch.dtype, torch.dtype] = COMPUTED_IN.get(node.target, {})  # type: ignore[call-overload]
    return wider.get(dtype_of(node), dtype_of(node))


RULES: RuleTable = {
    aten.addmm.default: _addmm,
    aten.bmm.default: _product_of_nothing,
    aten.convolution.default: _convolution,
    aten.mm.default: _product_of_nothing,
}
