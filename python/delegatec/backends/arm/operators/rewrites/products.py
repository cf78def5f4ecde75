# SPDX-License-Identifier: Apache-2.0
"""Products of matrices with a sum, and by constant weights."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.images import emit
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _sum(builder: Builder, node: Node) -> Node:
    """Computes beta self + alpha (mat1 mat2); ignores an operand whose factor is zero, as eager mode does."""
    bound, dtype = bind(node), dtype_of(node)
    first, second = (value_of(builder, bound[name]) for name in ("mat1", "mat2"))
    product = _scaled(first @ second, bound["alpha"]) if bound["alpha"] else None
    term = _scaled(value_of(builder, bound["self"], dtype), bound["beta"]) if bound["beta"] else None
    if product is None or term is None:
        rest = product or term or value_of(builder, 0.0, dtype)
        shape = shape_of(node)
        return rest.view(*(1,) * (len(shape) - rest.rank), *rest.shape).expand(*shape).node
    return (product + term).node


def _scaled(x: Value, factor: float) -> Value:
    return x if factor == 1 else x * factor


def _linear(builder: Builder, node: Node) -> Node | None:
    """Convolves rows of pixels by a constant weight, whose order a convolution has."""
    bound = bind(node)
    x, weight, bias = value_of(builder, bound["input"]), bound["weight"], bound["bias"]
    constant = builder.facts.constant(weight)
    if constant is None or constant.dim() != 2 or (bias is not None and len(shape_of(bias)) != 1):
        return None
    outputs, inputs = shape_of(weight)
    kernel = Value(builder, builder.derived(weight, constant.detach().view(outputs, 1, 1, inputs)))
    rows = x.numel // inputs
    image = x.view(1, rows, 1, inputs)
    result = emit(
        NHWC.conv2d.default,
        *(image, kernel, bias, [1, 1], [0, 0, 0, 0], [1, 1], 1),
        shape=(1, rows, 1, outputs),
    )
    return result.view(*shape_of(node)).node


def _variable_linear(builder: Builder, node: Node) -> Node | None:
    """Multiplies by a transposed weight that is not constant."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    rows = x.view(x.numel // x.shape[-1], x.shape[-1]) if x.rank != 2 else x
    matrix = weight.view(1, *weight.shape) if weight.rank == 1 else weight
    product = (rows @ matrix.permute(1, 0)).view(*shape_of(node))
    return (product if bound["bias"] is None else product + value_of(builder, bound["bias"])).node


REWRITES: Final = (
    Rewrite(aten.addmm.default, _sum),
    Rewrite(aten.linear.default, _linear, note="a convolution if the weight is constant", preserved=True),
    Rewrite(aten.linear.default, _variable_linear),
)
