# SPDX-License-Identifier: Apache-2.0
"""Whether a value can be minus infinity."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Operators whose result has only elements of the operands at these positions.
_SELECTS: Final[dict[Any, tuple[int, ...]]] = {
    aten.alias.default: (0,),
    aten.clone.default: (0,),
    aten.contiguous.default: (0,),
    aten.detach.default: (0,),
    aten.expand.default: (0,),
    aten.masked_fill.Scalar: (0, 2),
    aten.permute.default: (0,),
    aten.reshape.default: (0,),
    aten.select.int: (0,),
    aten.slice.Tensor: (0,),
    aten.squeeze.dim: (0,),
    aten.squeeze.dims: (0,),
    aten.transpose.int: (0,),
    aten.unsqueeze.default: (0,),
    aten.view.default: (0,),
    aten.where.ScalarOther: (1, 2),
    aten.where.ScalarSelf: (1, 2),
    aten.where.Scalar: (1, 2),
    aten.where.self: (1, 2),
    aten.full.default: (1,),
    aten.full_like.default: (1,),
    aten.scalar_tensor.default: (0,),
}

# Operators that give finite results whatever they are given.
_BOUNDED: Final[frozenset[Any]] = frozenset(
    {
        aten.cos.default,
        aten.hardtanh.default,
        aten.sigmoid.default,
        aten.sin.default,
        aten.tanh.default,
        aten.zeros.default,
        aten.zeros_like.default,
        aten.ones.default,
        aten.ones_like.default,
        aten.new_zeros.default,
        aten.new_ones.default,
    }
)

# Conversions keep a small number small.
_CONVERTS: Final[frozenset[Any]] = frozenset(
    {aten._to_copy.default, aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.type_as.default}
)


def never_minus_infinity(program: EdgeProgram, value: Any) -> bool:
    """True where no element of `value` can be minus infinity (or NaN), whatever the inputs of the program.

    The answer is False where the analysis does not see through an operator.

    Args:
        program: the program whose node `value` is.
        value: a node of it, or a Python number.
    """
    return _check(program.fixed_constants(), value, sys.float_info.max)


def _check(constants: Mapping[str, torch.Tensor], value: Any, largest: float) -> bool:
    """The answer for one value; `largest` is that of the dtype which a number is about to become."""
    if not isinstance(value, Node):
        return bool(value >= -largest)
    if _is_integral(value):
        return True
    if value.name in constants:
        constant = constants[value.name]
        return constant.numel() == 0 or float(constant.min()) > -math.inf
    if value.op != "call_function":
        return False
    if value.target in _BOUNDED:
        return True
    if value.target in _SELECTS:
        return all(_check(constants, value.args[i], _width(value)) for i in _SELECTS[value.target])
    if value.target in _CONVERTS:
        source = value.args[0]
        # a narrower dtype could overflow, unless the source is integral or no wider
        return isinstance(source, Node) and (
            _is_integral(source) or (_width(source) <= _width(value) and _check(constants, source, largest))
        )
    return _is_scaled_complement(value)


def _is_scaled_complement(node: Node) -> bool:
    """Recognises `(1 - mask) * lowest` with a mask of zeros and ones, the classic additive mask."""
    if node.target not in (aten.mul.Tensor, aten.mul.Scalar):
        return False
    base, factor = node.args[0], node.args[1]
    if not isinstance(base, Node) or not isinstance(factor, (int, float)):
        return False
    # a number can be beyond the range of the mask's dtype
    return factor >= -_width(node) and _is_zero_or_one(base)


def _is_zero_or_one(value: Any) -> bool:
    """True where every element is 0 or 1."""
    if not isinstance(value, Node):
        return value in (0, 1)
    if value.meta["val"].dtype is torch.bool:
        return True
    if value.target in (aten.rsub.Scalar, aten.sub.Tensor) and len(value.args) == 2:
        one, other = value.args if value.target is aten.sub.Tensor else value.args[::-1]
        return isinstance(one, (int, float)) and one == 1 and _is_zero_or_one(other)
    if value.target in _CONVERTS or value.target in _SELECTS:
        positions = _SELECTS.get(value.target, (0,))
        return all(_is_zero_or_one(value.args[i]) for i in positions)
    return False


def _is_integral(node: Node) -> bool:
    val = node.meta["val"]
    return isinstance(val, torch.Tensor) and not val.dtype.is_floating_point and not val.dtype.is_complex


def _width(node: Node) -> float:
    # by range: bfloat16 reaches as far as float32
    return torch.finfo(node.meta["val"].dtype).max
