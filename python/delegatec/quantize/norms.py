# SPDX-License-Identifier: Apache-2.0
"""Batch norms that follow no layer, as a product and a sum with constants."""

from __future__ import annotations

import operator as python
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from delegatec.quantize.constants import store, tensor_of, unused_name

aten = torch.ops.aten


def replace_batch_norms(model: GraphModule) -> None:
    """Replaces the batch norms of a graph, in place."""
    for node in list(model.graph.nodes):
        if node.target is aten._native_batch_norm_legit_no_training.default:
            _replace(model, node)
    model.graph.eliminate_dead_code()
    model.recompile()


def _replace(model: GraphModule, norm: Node) -> None:
    x, *parts, _, eps = cast(list[Any], norm.args)
    weight, bias, mean, variance = (_constant(model, part) for part in parts)
    results = [user for user in norm.users if user.target is python.getitem and user.args[1] == 0]
    if mean is None or variance is None or not isinstance(x, Node) or not results:
        return
    scale = torch.rsqrt(variance + eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = [1, -1, *[1] * (x.meta["val"].dim() - 2)]
    owner = str(parts[2].target).rpartition(".")[0]
    factor, term = (
        store(model, norm, unused_name(model, f"{owner}.{name}".lstrip(".")), value.reshape(shape))
        for name, value in (("scale", scale), ("shift", shift))
    )
    with model.graph.inserting_before(norm):
        total = _call(results[0], aten.add.Tensor, _call(results[0], aten.mul.Tensor, x, factor), term)
    for result in results:
        result.replace_all_uses_with(total)


def _constant(model: GraphModule, node: Any) -> Tensor | None:
    is_constant = isinstance(node, Node) and node.op == "get_attr"
    return tensor_of(model, node).detach() if is_constant else None


def _call(norm: Node, operator: Any, *arguments: Node) -> Node:
    node = norm.graph.call_function(operator, arguments)
    node.meta = dict(norm.meta)
    return node
