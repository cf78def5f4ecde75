# SPDX-License-Identifier: Apache-2.0
"""Copies of views become views: values of a program do not share memory."""

from __future__ import annotations

import operator
from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable

aten = torch.ops.aten

_VIEWS: Final[dict[OpOverload, OpOverload]] = {
    aten.alias_copy.default: aten.alias.default,
    aten.as_strided_copy.default: aten.as_strided.default,
    aten.detach_copy.default: aten.detach.default,
    aten.diagonal_copy.default: aten.diagonal.default,
    aten.expand_copy.default: aten.expand.default,
    aten.permute_copy.default: aten.permute.default,
    aten.select_copy.int: aten.select.int,
    aten.slice_copy.Tensor: aten.slice.Tensor,
    aten.split_copy.Tensor: aten.split.Tensor,
    aten.split_with_sizes_copy.default: aten.split_with_sizes.default,
    aten.squeeze_copy.default: aten.squeeze.default,
    aten.squeeze_copy.dim: aten.squeeze.dim,
    aten.squeeze_copy.dims: aten.squeeze.dims,
    aten.t_copy.default: aten.t.default,
    aten.transpose_copy.int: aten.transpose.int,
    aten.unbind_copy.int: aten.unbind.int,
    aten.unfold_copy.default: aten.unfold.default,
    aten.unsqueeze_copy.default: aten.unsqueeze.default,
    aten.view_copy.default: aten.view.default,
}


def _as_view(b: Builder, node: Node) -> Node | list[Node]:
    target = node.target
    assert isinstance(target, OpOverload)
    copied = b.call(_VIEWS[target], *bind(node).values(), val=node.meta["val"])
    values = node.meta["val"]
    if not isinstance(values, (list, tuple)):
        return copied
    return [b.call(operator.getitem, copied, index) for index in range(len(values))]


RULES: RuleTable = dict.fromkeys(_VIEWS, _as_view)
