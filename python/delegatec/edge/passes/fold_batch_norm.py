# SPDX-License-Identifier: Apache-2.0
"""Folds batch norm at inference into the convolution or linear layer before it."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram
from delegatec.edge.scaled import ScaledTensor

aten = torch.ops.aten

_LAYERS: Final = (aten.convolution.default, aten.linear.default)
_PARAMETERS: Final = ("weight", "bias", "running_mean", "running_var")


def fold_batch_norm(program: EdgeProgram, kept: Collection[str] = ()) -> bool:
    """Scale the weights of layers, computed in float64 and rounded once, instead of their results.

    A layer stays where its result or one of its weights has other uses, in bodies of control flow too, where
    a scale is not finite, and where a weight has to keep its name and value.

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
        """Whether a weight may be replaced: no other node reads it, under no other name either."""
        return (
            node.name in fixed
            and len(node.users) == 1
            and uses[fixed[node.name].data_ptr()] == 1
            and made.names.get(node.name) not in kept
        )

    pairs = []
    for norm in norms:
        layer = norm.args[0]
        parameters = bind(norm)
        if layer.target not in _LAYERS or len(layer.users) > 1:
            continue
        if layer.target is aten.linear.default and layer.meta["val"].dim() != 2:
            continue
        weights = [node for node in (bind(layer)["weight"], bind(layer)["bias"]) if node is not None]
        if all(map(is_own, weights)) and all(parameters[name].name in fixed for name in _PARAMETERS):
            pairs.append((layer, norm))
    for layer, norm in pairs:
        _fold(program, layer, norm, made)
    folded = made.declare()
    program.erase_unused_placeholders()
    return folded


def _fold(program: EdgeProgram, layer: Node, norm: Node, made: NewConstants) -> None:
    arguments, parameters = bind(layer), bind(norm)
    gain, shift, mean, variance = (
        program.constants[parameters[name].name].detach().double() for name in _PARAMETERS
    )
    scale = gain / torch.sqrt(variance + parameters["eps"])
    bias = arguments["bias"]
    offset = -mean if bias is None else program.constants[bias.name].detach().double() - mean
    offset = shift + offset * scale
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
    place = weight if bias is None else bias
    new = {
        "weight": made.add(f"{made.names[weight.name]}.folded", scaled, weight),
        "bias": made.add(
            f"{made.names[place.name]}.offset", offset.to(value.dtype), parameters["running_mean"]
        ),
    }
    new["bias"].meta["val"] = new["bias"].meta["val"].to(value.dtype)
    layer.args = tuple(new.get(name, argument) for name, argument in arguments.items())
    layer.kwargs = {}
    # It computes the value that the norm did, which tools look up by handle and line.
    if "debug_handle" in norm.meta:
        layer.meta["debug_handle"] = norm.meta["debug_handle"]
    for user in list(norm.users):
        user.replace_all_uses_with(layer)
        program.graph.erase_node(user)
    program.graph.erase_node(norm)
