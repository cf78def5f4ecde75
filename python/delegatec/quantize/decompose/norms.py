# SPDX-License-Identifier: Apache-2.0
"""Batch norms: folded into the layers before them, or a product and a sum with constants."""

from __future__ import annotations

import operator as python
from collections import Counter
from collections.abc import Collection
from typing import Any, Final, cast

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.utils import _fuse_conv_bn_, _fuse_linear_bn_

from delegatec.quantize.graph.constants import store, tensor_of, unused_name, written_constants

aten = torch.ops.aten

_NORMS: Final = (aten.batch_norm.default, aten._native_batch_norm_legit_no_training.default)


def fold_batch_norms(model: GraphModule, state: Collection[str]) -> None:
    """Folds batch norms into the layers before them, in place.

    torchao does so even if another call reads the layer's result, another layer has its weight, the norm's
    weights are computed, or the model writes to them: such norms are hidden from it. The last two stay
    hidden, also from `prepare_pt2e`.

    Args:
        model: the graph of one method.
        state: names of the state that any method writes to.
    """
    graph = model.graph
    uses = Counter(str(node.target) for node in graph.nodes if node.op == "get_attr" for _ in node.users)
    written = written_constants(model, state)
    hidden: dict[Node, Node] = {}
    for norm in [node for node in graph.nodes if node.target in _NORMS]:
        layer = norm.args[0]
        own = {str(each.target) for each in layer.all_input_nodes if each.op == "get_attr"}
        parts = {str(each.target) for each in norm.all_input_nodes if each.op == "get_attr"}
        shared = any(uses[name] > 1 for name in own)
        varies = bool((own | parts) & written) or _is_computed(norm) or _has_computed_weights(layer)
        if len(layer.users) > 1 or shared or varies:
            with graph.inserting_before(norm):
                alias = graph.call_function(aten.alias.default, (layer,))
                alias.meta["val"] = layer.meta["val"]
            norm.replace_input_with(layer, alias)
            if not varies:
                hidden[alias] = layer
        else:
            _make_parameters(model, own)
    _fuse_conv_bn_(model)
    _fuse_linear_bn_(model)
    for alias, layer in hidden.items():
        alias.replace_all_uses_with(layer)
        graph.erase_node(alias)
    model.recompile()


def _has_computed_weights(layer: Node) -> bool:
    return any(isinstance(each, Node) and each.op != "get_attr" for each in layer.args[1:3])


def _make_parameters(model: GraphModule, names: Collection[str]) -> None:
    """Turns buffers and plain tensors into parameters, as which torchao stores folded weights."""
    for name in names:
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        if last not in module._parameters:
            value = getattr(module, last)
            delattr(module, last)
            module.register_parameter(last, torch.nn.Parameter(value, requires_grad=False))


def replace_batch_norms(model: GraphModule, state: Collection[str]) -> None:
    """Replaces the batch norms of a graph, in place, but for those of `state`."""
    written = written_constants(model, state)
    for node in list(model.graph.nodes):
        is_norm = node.target is aten._native_batch_norm_legit_no_training.default
        if is_norm and not any(str(part.target) in written for part in node.all_input_nodes):
            _replace(model, node)
    model.graph.eliminate_dead_code()
    model.recompile()


def _replace(model: GraphModule, norm: Node) -> None:
    x, *parts, _, eps = cast(list[Any], norm.args)
    results = [user for user in norm.users if user.target is python.getitem and user.args[1] == 0]
    if _is_computed(norm) or not isinstance(x, Node) or not results:
        return
    weight, bias, mean, variance = (part and tensor_of(model, part).detach() for part in parts)
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


def _is_computed(norm: Node) -> bool:
    """Whether a norm's mean, variance, weight or bias comes from an input or a call."""
    return any(isinstance(part, Node) and part.op != "get_attr" for part in norm.args[1:5])


def _call(norm: Node, operator: Any, *arguments: Node) -> Node:
    node = norm.graph.call_function(operator, arguments)
    node.meta = dict(norm.meta)
    return node
