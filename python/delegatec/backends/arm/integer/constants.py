# SPDX-License-Identifier: Apache-2.0
"""Values computed from constants only."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.backends.arm.integer.conversion import MOVES, Conversion
from delegatec.backends.arm.integer.quantized_regions import is_bool, is_float
from delegatec.backends.arm.integer.values import Fixed, Quantized
from delegatec.edge.arguments import dtype_of, shape_of

_MOST_INTEGERS: Final = 1 << 20
"""Elements of a computed integer tensor, such as positions."""


def is_constant(conversion: Conversion, node: Node) -> bool:
    """Whether a call returns a tensor computed from constants only, of a dtype that connects regions."""
    is_masked = is_bool(node) and not conversion.arithmetic.bools
    return (is_float(node) or is_masked) and _is_computed(conversion, node)


def evaluated(conversion: Conversion, node: Node) -> Fixed:
    """Returns the result of a call in `is_constant`, computed when it is first used."""
    moved = constant_of(conversion, node.all_input_nodes[0]) if node.target in MOVES else None
    to = moved.parameters if isinstance(moved, Fixed) else None
    # the channels may have moved to another dimension
    parameters = to if to is not None and to.axis is None else None
    return Fixed(partial(_evaluated, conversion, node), shape_of(node), parameters)


def _is_computed(conversion: Conversion, node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.meta["val"], Tensor):
        return False
    if not isinstance(node.target, OpOverload) or torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    return all(constant_of(conversion, each) is not None for each in node.all_input_nodes)


def constant_of(conversion: Conversion, node: Node) -> Fixed | Tensor | None:
    """Returns a value computed from constants only; None for others."""
    found = conversion.quantities.get(node)
    if isinstance(found, Fixed):
        return found
    constant = conversion.constant(node)
    if constant is not None or conversion.arithmetic.bools:
        return constant
    if isinstance(found, Quantized):
        # a constant that is quantized, as a quantizer writes the operands of a mask
        quantized = conversion.constant(found.node)
        return Fixed(found.of(quantized)) if quantized is not None and found.is_narrow else None
    is_small = found is None and not is_float(node) and not is_bool(node)
    if is_small and _is_computed(conversion, node) and node.meta["val"].numel() <= _MOST_INTEGERS:
        return _evaluated(conversion, node)
    return None


def _evaluated(conversion: Conversion, node: Node) -> Tensor:
    def value(operand: Node) -> Any:
        found = constant_of(conversion, operand)
        values = found.values if isinstance(found, Fixed) else found
        assert values is not None
        return values.to(torch.bool) if dtype_of(operand) == torch.bool else values

    args: Any = map_arg(node.args, value)
    kwargs: Any = map_arg(node.kwargs, value)
    target: Any = node.target
    result: Tensor = target(*args, **kwargs)
    return result.to(torch.float64) if result.dtype == torch.bool else result
