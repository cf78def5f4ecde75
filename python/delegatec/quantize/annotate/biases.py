# SPDX-License-Identifier: Apache-2.0
"""Biases that are int32 constants: computed ones become sums, and int32 can represent those that are left."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize

from delegatec.quantize.annotate.observers import insert_observer
from delegatec.quantize.annotate.selection import Selection
from delegatec.quantize.graph.constants import store, tensor_of, unused_name
from delegatec.quantize.operators import Kind

aten = torch.ops.aten

_MATRICES: Final = frozenset({aten.addmm.default, aten.linear.default})
# Half of the range of int32: an accumulator adds products to the bias.
_MOST: Final = 2.0**30


def add_computed_biases(model: GraphModule, selection: Selection) -> None:
    """Adds biases other than rows of constants to the results of quantized layers without them, in place.

    A bias from an input or a call, and one that is a matrix or has a factor, has its own range, which is not
    that of an accumulator. Nor has a layer whose weight has no elements one: its operands have no range
    either, so that the product of their scales means nothing.

    Args:
        model: the graph of one method.
        selection: the calls that are quantized.
    """
    for layer in list(model.graph.nodes):
        bias = bias_of(layer) if selection.kind(layer) is Kind.LAYER else None
        if bias is None or _is_row(bias, layer):
            continue
        spatial = 0 if layer.target in _MATRICES else layer.args[1].meta["val"].dim() - 2
        factors = [layer.kwargs.get(name, 1) for name in ("alpha", "beta")]
        _remove_bias(model, layer)
        with model.graph.inserting_after(layer):
            total = model.graph.call_function(aten.add.Tensor)
        total.meta = dict(layer.meta)
        layer.replace_all_uses_with(total)
        if spatial:
            shape = [-1, *[1] * spatial]
            value = bias.meta["val"].view(shape)
            with model.graph.inserting_before(total):
                bias = model.graph.call_function(aten.view.default, (bias, shape))
            bias.meta = {**layer.meta, "val": value}
        terms = zip((layer, bias), factors, strict=True)
        total.args = tuple(_scaled(model, total, term, factor) for term, factor in terms)
    model.recompile()


def _is_row(bias: Node, layer: Node) -> bool:
    """Whether a bias is a row of constants that a layer adds to its accumulators."""
    has_factor = any(layer.kwargs.get(name, 1) != 1 for name in ("alpha", "beta"))
    if bias.op != "get_attr" or has_factor or _is_empty(operands_of(layer)[1]):
        return False
    return layer.target not in _MATRICES or list(bias.meta["val"].shape) == [layer.meta["val"].shape[-1]]


def _scaled(model: GraphModule, total: Node, term: Node, factor: float) -> Node:
    if factor == 1:
        return term
    with model.graph.inserting_before(total):
        scaled = model.graph.call_function(aten.mul.Tensor, (term, factor))
    scaled.meta = {**total.meta, "val": term.meta["val"]}
    return scaled


def _is_empty(node: Node) -> bool:
    return any(isinstance(size, int) and size == 0 for size in node.meta["val"].shape)


def bias_of(layer: Node) -> Node | None:
    """Returns the bias of a call of kind `Kind.LAYER`."""
    if layer.target is aten.addmm.default:
        bias = layer.args[0]
    else:
        bias = layer.args[2] if len(layer.args) > 2 else layer.kwargs.get("bias")
    return bias if isinstance(bias, Node) else None


def operands_of(layer: Node) -> tuple[Node, Node]:
    """Returns the activation and the weight of a call of kind `Kind.LAYER`."""
    x, weight = layer.args[1:3] if layer.target is aten.addmm.default else layer.args[:2]
    assert isinstance(x, Node) and isinstance(weight, Node)
    return x, weight


def _remove_bias(model: GraphModule, layer: Node) -> None:
    if layer.target is not aten.addmm.default:
        layer.args = (*layer.args[:2], None, *layer.args[3:])
        layer.kwargs = {name: value for name, value in layer.kwargs.items() if name != "bias"}
        return
    _, x, weight = layer.args
    layer.kwargs = {}
    assert isinstance(weight, Node)
    if weight.op == "get_attr":  # it stays a layer, whose weight may have scales per channel
        zeros = torch.zeros(weight.meta["val"].shape[1])
        layer.args = (store(model, layer, unused_name(model, f"{layer.name}_zeros"), zeros), x, weight)
    else:
        layer.target, layer.args = aten.mm.default, (x, weight)


def bind_biases(prepared: GraphModule) -> None:
    """Derives the scale of each bias from the observers that its layer has now, in place."""
    modules = dict(prepared.named_modules(remove_duplicate=False))
    for node in prepared.graph.nodes:
        observer = modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, DerivedObserverOrFakeQuantize):
            layer = next(iter(node.users))  # layers with one bias have one scale of it
            observer.obs_or_fqs = [modules[str(operand.target)] for operand in operands_of(layer)]


def widen_weights(prepared: GraphModule) -> None:
    """Raises the least scale of each weight with whose scale its bias would overflow, in place.

    Values that others read, too, keep their scale: a layer gets an observer of its weight alone.
    """
    modules: dict[str, Any] = dict(prepared.named_modules())
    for node in list(prepared.graph.nodes):
        observer = modules.get(str(node.target)) if node.op == "call_module" else None
        source = node.args[0] if isinstance(observer, DerivedObserverOrFakeQuantize) else None
        if observer is None or not isinstance(source, Node) or source.op != "get_attr":
            continue
        activation, weight = observer.obs_or_fqs
        least = _least_scale(activation, weight, tensor_of(prepared, source).detach())
        if not bool((least > weight.calculate_qparams()[0]).any()):
            continue
        layers = list(node.users)
        operand = operands_of(layers[0])[1]
        is_constant = operand.all_input_nodes[0].op == "get_attr"
        if not is_constant or any(user not in layers for user in operand.users):
            weight = deepcopy(weight)
            observer.obs_or_fqs = [activation, weight]
            for layer in layers:
                if operands_of(layer)[1] is operand:
                    insert_observer(prepared, operand, layer, weight)
        # the range stays as it is: a weight that is an input or a result has a histogram of it
        weight.eps = torch.maximum(weight.eps, least)


def _least_scale(activation: Any, weight: Any, bias: torch.Tensor) -> torch.Tensor:
    scale: torch.Tensor = activation.calculate_qparams()[0]
    least = bias.abs() / (scale * _MOST)
    return least if weight.max_val.dim() else least.max()
