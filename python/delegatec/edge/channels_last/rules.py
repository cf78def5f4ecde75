# SPDX-License-Identifier: Apache-2.0
"""The calls of ATen that can be computed in other orders of dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import operand_nodes
from delegatec.edge.channels_last.dimension_rules import (
    along,
    cat,
    expand,
    flip,
    pad,
    pointwise,
    pool,
    position,
    reduction,
    repeat,
    select,
)
from delegatec.edge.channels_last.einsum_rules import (
    POOL,
    convolution,
    einsum,
    linear,
    transposed_convolution,
)
from delegatec.edge.channels_last.moves import Permute, View
from delegatec.edge.channels_last.operation import Fixed, Operation, OperationRule
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.pools.operators import POOLS

aten = torch.ops.aten

OperationRules = Mapping[OpOverload, OperationRule]


def operation_of(node: Node, rules: OperationRules) -> Operation:
    """Returns how a node can be computed."""
    rule = rules.get(node.target) if isinstance(node.target, OpOverload) else None
    if rule is None and is_pointwise(node):
        rule = pointwise
    values = [node.meta.get("val"), *(each.meta["val"] for each in operand_nodes(node))]
    # layouts do not describe empty tensors
    is_known = all(isinstance(each, torch.Tensor) and 0 not in each.shape for each in values)
    found = rule(node) if rule is not None and is_known else None
    return found or Fixed(node, operand_nodes(node))


def is_pointwise(node: Node) -> bool:
    """Whether torch tags a call as one that computes element by element."""
    tags = node.target.tags if isinstance(node.target, OpOverload) else ()
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


# Without torch's tag for elementwise operators.
_POINTWISE: Final = (
    aten._to_copy.default,
    aten.alias.default,
    aten.clone.default,
    aten.floor_divide.default,
    aten.hardswish.default,
    aten.where.ScalarOther,
    aten.where.ScalarSelf,
)

REDUCTIONS: Final[Iterable[OpOverload]] = (
    aten.all.dim,
    aten.all.dims,
    aten.amax.default,
    aten.amin.default,
    aten.any.dim,
    aten.any.dims,
    aten.mean.dim,
    aten.prod.dim_int,
    aten.sum.dim_IntList,
    aten.var.correction,
)

RULES: Final[OperationRules] = {
    aten.permute.default: Permute,
    **dict.fromkeys((aten.view.default, aten.squeeze.dims, aten.unsqueeze.default), View),
    **dict.fromkeys(_POINTWISE, pointwise),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys((aten.argmax.default, aten.argmin.default), position),
    **dict.fromkeys(
        (
            aten._log_softmax.default,
            aten._softmax.default,
            aten.cumsum.default,
            aten.index_select.default,
            aten.slice.Tensor,
        ),
        along("dim"),
    ),
    aten.select.int: select,
    aten.constant_pad_nd.default: pad,
    aten.flip.default: flip,
    aten.expand.default: expand,
    aten.repeat.default: repeat,
    aten.cat.default: cat,
    aten.addmm.default: einsum("n,mk,kn->mn", "mkn", ("self", "mat1", "mat2")),
    aten.mm.default: einsum("mk,kn->mn", "mkn", ("self", "mat2")),
    aten.bmm.default: einsum("bmk,bkn->bmn", "bmkn", ("self", "mat2")),
    aten.linear.default: linear,
    **dict.fromkeys(
        (NHWC.conv1d.default, NHWC.conv2d.default, NHWC.conv3d.default, NHWC.conv_transpose1d.default),
        convolution,
    ),
    NHWC.conv_transpose2d.default: transposed_convolution,
    **dict.fromkeys((NHWC.max_pool2d.default, NHWC.avg_pool2d.default, NHWC.resize.default), POOL),
    **dict.fromkeys((POOLS.maxima.default, POOLS.averages.default), pool),
}
