# SPDX-License-Identifier: Apache-2.0
"""Folds batch norms into the only layer that reads them: scales its weights, and adds to its bias."""

from __future__ import annotations

import math
import operator
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

LAYERS: Final = (aten.convolution.default, aten.linear.default)
PARAMETERS: Final = ("weight", "bias", "running_mean", "running_var")
_ROWS: Final = 256
"""Rows of a weight that are float64 at once."""


def next_layer(norm: Node) -> Node | None:
    """Returns the layer that alone reads a norm, maybe in a view that merges channels and pixels."""
    node, users = norm, list(norm.users)
    while len(users) == 1 and users[0].target in (operator.getitem, aten.view.default):
        node = users[0]
        users = list(node.users)
        if node.target is aten.view.default and not _joins_channels(node):
            return None
    if len(users) != 1 or users[0].target not in LAYERS:
        return None
    layer, bound = users[0], bind(users[0])
    if node is not bound["input"]:
        return None
    if layer.target is aten.linear.default:
        return layer if node.meta["val"].dim() == 2 else None
    is_plain = node.target is operator.getitem and not bound["transposed"] and not any(bound["padding"])
    return layer if is_plain else None


def _joins_channels(view: Node) -> bool:
    """Whether a view of [N, C, ..] is [N, C * ..], where only N varies."""
    source = view.args[0]
    assert isinstance(source, Node)
    old, new = (node.meta["val"].shape for node in (source, view))
    is_fixed = all(isinstance(size, int) for size in (*old[1:], *new[1:]))
    return is_fixed and len(new) == 2 and math.prod(old[1:]) == new[1]


def fold_into_layer(program: EdgeProgram, layer: Node, norm: Node, made: NewConstants) -> None:
    """Folds a norm into the layer of `next_layer`, which reads the operand of the norm then.

    The weights are computed: a factor for each of them would be as large.
    """
    bound = bind(layer)
    value, bias = program.constants[bound["weight"].name].detach(), bound["bias"]
    groups = bound.get("groups", 1)
    # [groups, inputs of a group]; a view may have merged the pixels of a channel
    scale, offset = (
        each.repeat_interleave(value.shape[1] * groups // len(each)).view(groups, -1)
        for each in affine_map(program, norm)
    )
    shift = torch.zeros(len(value), dtype=torch.float64)
    if bias is not None:
        shift += program.constants[bias.name].detach()
    group_of = torch.arange(len(value)) // (len(value) // groups)
    weight = torch.empty(value.shape, dtype=value.dtype)
    for start in range(0, len(value), _ROWS):
        rows = slice(start, start + _ROWS)
        part, group = (
            value[rows].double().flatten(2) if value.dim() > 2 else value[rows, :, None].double(),
            group_of[rows],
        )
        shift[rows] += (part.sum(2) * offset[group]).sum(1)
        weight[rows] = (part * scale[group, :, None]).view(weight[rows].shape)
    if not all(bool(each.isfinite().all()) for each in (weight, shift.to(weight.dtype))):
        return  # in float16, products of weights and scales may be infinite where results are not
    replace_weights(layer, weight, shift, bound["weight"], made)
    (result,) = norm.users
    source = norm.args[0]
    assert isinstance(source, Node)
    result.replace_all_uses_with(source)
    program.graph.erase_node(result)
    program.graph.erase_node(norm)


def affine_map(program: EdgeProgram, norm: Node) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the factor and the offset of each channel of a norm, float64."""
    bound = bind(norm)
    gain, shift, mean, variance = (
        program.constants[bound[name].name].detach().double() for name in PARAMETERS
    )
    scale = gain / torch.sqrt(variance + bound["eps"])
    return scale, shift - mean * scale


def replace_weights(
    layer: Node, weight: torch.Tensor, bias: torch.Tensor, like: Node, made: NewConstants
) -> None:
    """Replaces the weights of a layer.

    Args:
        layer: with or without a bias.
        weight: the new one.
        bias: the new one, float64.
        like: a constant, whose metadata it inherits.
        made: the new constants of the program.
    """
    arguments = bind(layer)
    old, named = arguments["weight"], arguments["weight"] if arguments["bias"] is None else arguments["bias"]
    bias = bias.to(weight.dtype)
    new = {
        "weight": made.add(f"{made.names[old.name]}.folded", weight, old),
        "bias": made.add(f"{made.names[named.name]}.offset", bias, like),
    }
    new["bias"].meta["val"] = old.meta["val"].new_empty(bias.shape)
    layer.args = tuple(new.get(name, argument) for name, argument in arguments.items())
    layer.kwargs = {}
