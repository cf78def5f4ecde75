# SPDX-License-Identifier: Apache-2.0
"""Kernels of the runtime that torch lacks: scalars, views, and copies with a dim order."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from delegatec.verify.aten_kernels import Machine, check_overlap

Kernel = Callable[[Machine, Sequence[int]], None]


def _remainder(dividend: int, divisor: int) -> int:
    """Returns a remainder with the sign of the dividend, as C does."""
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def _quotient(dividend: float, divisor: float) -> float:
    """Divides as C does, also by zero."""
    if divisor:
        return dividend / divisor
    return math.copysign(math.inf, dividend) if dividend else math.nan


# The last argument of each is the result.
_SCALAR_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add.Scalar": operator.add,
    "sub.Scalar": operator.sub,
    "mul.Scalar": operator.mul,
    "floordiv.Scalar": operator.floordiv,
    "floordiv.int": operator.floordiv,
    "truediv.Scalar": _quotient,
    "mod.Scalar": _remainder,
    "mod.int": _remainder,
    "neg.Scalar": operator.neg,
    "eq.Scalar": operator.eq,
    "ge.Scalar": operator.ge,
    "gt.Scalar": operator.gt,
    "le.Scalar": operator.le,
    "lt.Scalar": operator.lt,
    "sym_float.Scalar": float,
    "sym_int.Scalar": int,
    "sym_max.Scalar": max,
    "sym_min.Scalar": min,
    "sym_not.Scalar": operator.not_,
    "sym_ite.Scalar": lambda condition, yes, no: yes if condition else no,
    "ceil.Scalar": math.ceil,
    "round.Scalar": round,
    "trunc.Scalar": math.trunc,
}


def _scalar_kernel(function: Callable[..., Any]) -> Kernel:
    def kernel(machine: Machine, args: Sequence[int]) -> None:
        machine.set_scalar(args[-1], function(*(machine.read(index) for index in args[:-1])))

    return kernel


def _view(machine: Machine, args: Sequence[int]) -> None:
    """et_view(self, size, out): `out` shares the memory of `self`. One size may be -1."""
    source, target = machine.slots(args[0])[0], machine.slots(args[2])[0]
    sizes = source.read().reshape(machine.read(args[1])).shape
    target.alias(source, tuple(sizes))


def _copy_index(machine: Machine, args: Sequence[int]) -> None:
    """et_copy_index(copy_to, copy_from, index): row `index` of `copy_to`, which grows to hold it."""
    target, source = machine.slots(args[0])[0], machine.read(args[1])
    index = machine.read(args[2])
    if target.sizes[1:] != tuple(source.shape):
        raise ValueError(f"a row of shape {list(source.shape)} for a tensor of shape {list(target.sizes)}")
    target.resize((index + 1, *source.shape))
    target.read()[index].copy_(source)


def _copy(machine: Machine, args: Sequence[int]) -> None:
    """Copies argument 0 to the last one, which keeps its strides and dtype."""
    source, target = machine.read(args[0]), machine.slots(args[-1])[0]
    target.write(source.to(target.dtype))
    check_overlap([source], target.read())


def _empty(machine: Machine, args: Sequence[int]) -> None:
    """empty(size, memory_format, out), _empty_dim_order(size, dim_order, out): set only the shape."""
    machine.slots(args[-1])[0].allocate(tuple(machine.read(args[0])))


PRIM_KERNELS: Final[dict[str, Kernel]] = {
    **{f"executorch_prim::{name}": _scalar_kernel(function) for name, function in _SCALAR_FUNCTIONS.items()},
    "executorch_prim::et_view.default": _view,
    "executorch_prim::et_copy_index.tensor": _copy_index,
    "dim_order_ops::_to_dim_order_copy.out": _copy,
    "dim_order_ops::_clone_dim_order.out": _copy,
    "dim_order_ops::_empty_dim_order.out": _empty,
    "aten::empty.out": _empty,
    "et_copy::_h2d_copy.out": _copy,
    "et_copy::_d2h_copy.out": _copy,
}
