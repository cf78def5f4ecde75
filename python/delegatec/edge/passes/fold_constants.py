# SPDX-License-Identifier: Apache-2.0
"""Constant folding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.analysis.constant_calls import constant_calls, early_calls
from delegatec.edge.arguments import bytes_of
from delegatec.edge.passes.constant_values import ConstantValues
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import QUANTIZING

# Quantized weights are small on purpose: dequantization of more elements than this is not folded.
_FEW: Final = 64
_QUANTIZED: Final = frozenset({torch.int8, torch.uint8})
# Libraries of operators that a backend has requested undecomposed; all others are decomposed before.
_PRESERVED: Final = frozenset({"quantized_decomposed", "delegatec"})


def fold_constants(program: EdgeProgram) -> bool:
    """Replaces calls on constants by their results, where storing these costs less; see `early_calls`."""
    calls = constant_calls(program, lambda node: _is_foldable(node) and not _dequantizes(node))
    return _fold(program, early_calls(program, calls) if calls else ())


def fold_own_constants(program: EdgeProgram, kept: Collection[str] = ()) -> bool:
    """Replaces calls on large constants, such as transposes, if the constants are not needed any more.

    They stay where a constant has other uses, in bodies of control flow or by another name too, or has to
    keep its name and value.

    Args:
        program: edited in place, bodies included.
        kept: fully qualified names of weights that must stay as they are in the model.

    Returns:
        Whether a call was folded.
    """
    uses = Counter(tensor.data_ptr() for part in program.walk() for tensor in part.constants.values())

    def fold(part: EdgeProgram) -> bool:
        names, chosen = part.names_in_model(), set[Node]()

        def is_own(operand: Node) -> bool:
            if operand in chosen:
                return len(operand.users) == 1
            is_alone = len(operand.users) == 1 and uses[part.constants[operand.name].data_ptr()] <= 1
            return is_alone and names[operand.name] not in kept

        def is_worthwhile(node: Node) -> bool:
            val = node.meta["val"]
            if not _is_foldable(node) or not isinstance(val, torch.Tensor):
                return False
            own = sum(bytes_of(operand.meta["val"]) for operand in node.all_input_nodes if is_own(operand))
            if bytes_of(val) > own:
                return False
            chosen.add(node)
            return True

        return _fold(part, constant_calls(part, is_worthwhile))

    folded = [fold(part) for part in program.walk()]
    return any(folded)


def fold_quantized_constants(program: EdgeProgram) -> bool:
    """Replaces quantization of constants, in graphs that simulate quantized weights, by its results."""
    if not any(node.target in QUANTIZING for node in program.graph.nodes):
        return False
    return _fold(program, constant_calls(program, lambda node: node.target in QUANTIZING))


def _is_foldable(node: Node) -> bool:
    """Whether a call on constants can be computed in lowering."""
    return (
        isinstance(node.target, OpOverload)
        and node.target.namespace not in _PRESERVED
        and torch.Tag.nondeterministic_seeded not in node.target.tags
        and _is_static(node.meta["val"])
    )


def _is_static(val: Any) -> bool:
    several = val if isinstance(val, (tuple, list)) else (val,)
    return all(
        isinstance(each, torch.Tensor) and all(isinstance(size, int) for size in each.shape)
        for each in several
    )


def _dequantizes(node: Node) -> bool:
    """Whether a call dequantizes the values of a weight, which are fewer bytes on purpose."""
    val = node.meta["val"]
    several = val if isinstance(val, (tuple, list)) else (val,)
    sources = {getattr(operand.meta["val"], "dtype", None) for operand in node.all_input_nodes}
    return (
        bool(sources & _QUANTIZED)
        and any(each.dtype.is_floating_point for each in several)
        and sum(math.prod(each.shape) for each in several) > _FEW
    )


def _fold(program: EdgeProgram, chosen: Collection[Node]) -> bool:
    """Computes calls on constants, and replaces those that others read by constants.

    Args:
        program: edited in place.
        chosen: the calls; their operands are constants or among them.
    """
    if not chosen:
        return False
    made, values = NewConstants(program), ConstantValues(program, chosen)
    computed = set(values.calls)
    for node in values.results:
        constant = made.add(values.origin(made.names, node), values.take(node), node)
        node.replace_all_uses_with(constant, delete_user_cb=lambda user: user not in computed)
    for node in reversed(values.calls):
        program.graph.erase_node(node)
    made.declare()
    program.erase_unused_placeholders()
    return True
