# SPDX-License-Identifier: Apache-2.0
"""Folds batch norm at inference into the convolution or linear layer before it, or the one that reads it.

A layer that reads a norm multiplies the norm's offset by its weights: a new bias. In convolutions that pad
with zeros, and in transposed ones, results near the border have fewer terms: those stay.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Collection
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.passes.fold_batch_norm_into_next_layer import (
    LAYERS,
    PARAMETERS,
    affine_map,
    fold_into_layer,
    next_layer,
    replace_weights,
)
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram
from delegatec.edge.scaled import ScaledTensor

aten = torch.ops.aten


def fold_batch_norm(program: EdgeProgram, kept: Collection[str] = ()) -> bool:
    """Scales the weights of layers, computed in float64 and rounded once, instead of their results.

    A layer stays where its operand, its result or one of its weights has other uses, in bodies of control
    flow too, where a scale is not finite, and where a weight has to keep its name and value.

    Args:
        program: edited in place, bodies included.
        kept: fully qualified names of weights that must stay as they are in the model.

    Returns:
        Whether a layer was folded.
    """
    uses = Counter(tensor.data_ptr() for part in program.walk() for tensor in part.constants.values())
    folded = [_fold_all(part, kept, uses) for part in program.walk()]
    return any(folded)


def _fold_all(program: EdgeProgram, kept: Collection[str], uses: Counter[int]) -> bool:
    norms = [
        node
        for node in program.graph.nodes
        if node.target is aten._native_batch_norm_legit_no_training.default
        and all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)
    ]
    if not norms:
        return False
    fixed = program.fixed_constants()
    made = NewConstants(program)

    def is_own(node: Any) -> bool:
        """Whether a weight may be replaced: no other node reads it, under any name."""
        return (
            node.name in fixed
            and len(node.users) == 1
            and uses[fixed[node.name].data_ptr()] == 1
            and made.names.get(node.name) not in kept
        )

    def is_free(layer: Node) -> bool:
        """Whether the weights of a layer may be replaced."""
        weights = [node for node in (bind(layer)["weight"], bind(layer)["bias"]) if node is not None]
        return all(map(is_own, weights))

    def is_constant(norm: Node) -> bool:
        """Whether a norm has all parameters, as constants; later passes add those that are None."""
        parameters = [bind(norm)[name] for name in PARAMETERS]
        return all(each is not None and each.name in fixed for each in parameters)

    norms = list(filter(is_constant, norms))
    before = {norm: layer for norm in norms if (layer := _layer_before(norm)) and is_free(layer)}
    behind = {
        norm: layer
        for norm in norms
        if norm not in before
        and (layer := next_layer(norm))
        and is_free(layer)
        # The weights of a layer between two norms are scaled once.
        and layer not in before.values()
    }
    for norm, layer in before.items():
        _fold(program, layer, norm, made)
    for norm, layer in behind.items():
        fold_into_layer(program, layer, norm, made)
    folded = made.declare()
    program.erase_unused_placeholders()
    return folded


def _layer_before(norm: Node) -> Node | None:
    """Returns the layer whose result is the operand of a norm, and nothing else."""
    layer: Any = norm.args[0]
    if layer.target not in LAYERS or len(layer.users) > 1:
        return None
    return None if layer.target is aten.linear.default and layer.meta["val"].dim() != 2 else layer


def _fold(program: EdgeProgram, layer: Node, norm: Node, made: NewConstants) -> None:
    arguments = bind(layer)
    scale, offset = affine_map(program, norm)
    bias = arguments["bias"]
    if bias is not None:
        offset = offset + program.constants[bias.name].detach().double() * scale
    if not math.isfinite((scale + offset).sum()):
        return
    weight = arguments["weight"]
    value = program.constants[weight.name].detach()
    if arguments.get("transposed"):
        # a channel is an index of the second dimension in each group
        scales = scale.view(arguments["groups"], 1, -1).expand(-1, len(value) // arguments["groups"], -1)
        scaled = ScaledTensor(value, scales.reshape(-1))
    else:
        scaled = ScaledTensor(value, scale)
    replace_weights(layer, scaled, offset, bind(norm)["running_mean"], made)
    # It computes the value that the norm did, which tools look up by handle and line.
    if "debug_handle" in norm.meta:
        layer.meta["debug_handle"] = norm.meta["debug_handle"]
    for user in list(norm.users):
        user.replace_all_uses_with(layer)
        program.graph.erase_node(user)
    program.graph.erase_node(norm)
