# SPDX-License-Identifier: Apache-2.0
"""1-d interpolation by the 2-d kernels, bicubic as weighted rows; cosine similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import FunctionTable, Rule, RuleTable

aten = torch.ops.aten


def _as_image(target: OpOverload) -> Rule:
    """Returns a rule that interpolates a row as an image."""

    def rule(b: Builder, node: Node) -> Node:
        a = bind(node)
        x = b.call(aten.unsqueeze.default, a.pop("input"), 2)
        sizes, scales = a["output_size"], a["scale_factors"]
        a["output_size"] = None if sizes is None else [1, *sizes]
        a["scale_factors"] = None if scales is None else [1.0, *scales]
        batch, channels, width = shape_of(node)
        val = b.empty([batch, channels, 1, width], dtype_of(node))
        return b.call(aten.squeeze.dims, b.call(target, x, *a.values(), val=val), [2], val=node.meta["val"])

    return rule


def _bicubic2d(
    x: Tensor,
    output_size: Sequence[Any] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> Tensor:
    for axis in (0, 1):
        dim, scale = axis - 2, None if scale_factors is None else scale_factors[axis]
        size = x.shape[dim]
        outputs = output_size[axis] if output_size is not None else int(size * scale)  # type: ignore[operator]
        x = _cubic(x, dim, outputs, align_corners, scale)
    return x


def _cubic(x: Tensor, dim: int, outputs: Any, align_corners: bool, scale: float | None) -> Tensor:
    """Computes each output as a weighted sum of the four nearest elements."""
    # Eager mode computes places of float64 in float64, and of other dtypes in float32.
    size = x.shape[dim]
    place = torch.arange(outputs, dtype=torch.promote_types(x.dtype, torch.float32))
    if align_corners:
        place = place * ((size - 1) / torch.sym_max(outputs - 1, 1))  # type: ignore[no-untyped-call]
    else:
        place = (place + 0.5) * (size / outputs if scale is None else 1 / scale) - 0.5
    start = torch.floor(place)
    t = place - start
    form = [-1] + [1] * (-1 - dim)
    total = None
    for offset, weight in zip(range(-1, 3), _cubic_weights(t), strict=True):
        index = torch.clamp((start + offset).to(torch.int64), min=0)
        index = torch.minimum(index, torch.full([], size - 1, dtype=torch.int64))
        part = torch.index_select(x, dim, index) * weight.reshape(form).to(x.dtype)
        total = part if total is None else total + part
    assert total is not None
    return total


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """Returns the weights of Keys' kernel with a = -0.75, at distances 1 + t, t, 1 - t and 2 - t."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


def _cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    # in which 0-d tensors count
    dtype = torch.promote_types(x.dtype, y.dtype)
    # a vector of one element is broadcast before its norm is computed
    x, y = torch.broadcast_tensors(x.to(dtype), y.to(dtype))  # type: ignore[no-untyped-call]
    norms = [torch.linalg.vector_norm(each, 2, [dim], keepdim=True).clamp(min=eps) for each in (x, y)]
    similarity: Tensor = ((x / norms[0]) * (y / norms[1])).sum(dim)
    return similarity


FUNCTIONS: FunctionTable = {
    aten.cosine_similarity.default: _cosine_similarity,
    aten.upsample_bicubic2d.vec: _bicubic2d,
}

RULES: RuleTable = {
    aten.upsample_linear1d.vec: _as_image(aten.upsample_bilinear2d.vec),
    aten.upsample_nearest1d.vec: _as_image(aten.upsample_nearest2d.vec),
}
