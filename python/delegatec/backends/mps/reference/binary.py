# SPDX-License-Identifier: Apache-2.0
"""Elementwise binary operations (the runtime's BinaryOps).

Operands of two dtypes are promoted as in ATen, but the runtime casts to float types only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.reference.run import Run, Semantics, reject, wide
from delegatec.backends.mps.reference.unary import pick
from delegatec.edge.arguments import short_name

Tensor = torch.Tensor
Function = Callable[[Tensor, Tensor], Tensor]


def _common(run: Run, op: Any, name: str) -> tuple[Tensor, Tensor]:
    first, second = run[op.input1Id], run[op.input2Id]
    run.broadcast(name, first, second)
    dtype = torch.promote_types(first.dtype, second.dtype)
    if first.dtype != second.dtype and dtype not in FLOATS:
        reject(f"it does not promote {short_name(first.dtype)} and {short_name(second.dtype)}")
    return first.to(dtype), second.to(dtype)


def _arithmetic(run: Run, function: Function, first: Tensor, second: Tensor, name: str) -> Tensor:
    """Computes in the common dtype of the operands."""
    if first.dtype == torch.bool:
        choice = run.unspecified.choose("booleans", lambda: True, f"{name} of bool")
        result = function(first.to(torch.int8), second.to(torch.int8))
        return result != 0 if choice == "logical" else (result & 1) != 0
    return function(wide(first), wide(second)).to(first.dtype)


def _plain(name: str, function: Function) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        run[op.outputId] = _arithmetic(run, function, *_common(run, op, name), name)

    return apply


def _scaled(name: str, function: Function) -> Semantics:
    """`alpha` becomes a constant of the common dtype, and its product with the second operand is rounded."""

    def apply(run: Run, op: Any, _: NodeT) -> None:
        first, second = _common(run, op, name)
        if op.alpha != 1.0:
            alpha = run.scalar_tensor(op.alpha, first.dtype)
            second = _arithmetic(run, torch.mul, second, alpha, f"{name}'s alpha")
        run[op.outputId] = _arithmetic(run, function, first, second, name)

    return apply


def _comparison(name: str, function: Function) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        run[op.outputId] = function(*_common(run, op, name))

    return apply


def _minimum(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = pick(run, *_common(run, op, "Minimum"), False, "Minimum")


def _bitwise(name: str, function: Function) -> Semantics:
    """Logical for bool."""

    def apply(run: Run, op: Any, _: NodeT) -> None:
        first, second = _common(run, op, name)
        if first.dtype in FLOATS:
            reject(f"{name} of {short_name(first.dtype)}")
        run[op.outputId] = function(first, second)

    return apply


def _integer_quotient(run: Run, first: Tensor, second: Tensor) -> Tensor:
    by_zero = second == 0
    choice = run.unspecified.choose("quotient", lambda: by_zero, "an integer divided by zero")
    quotient = torch.div(first, torch.where(by_zero, 1, second), rounding_mode="trunc")
    return torch.where(by_zero, 0 if choice == "zero" else -1, quotient)


def _division(name: str, default: str | None) -> Semantics:
    """Integers with a rounding mode are divided, and stay, in float32; without one the quotient is truncated.

    The check for float16 is of the first operand only, before promotion.
    """

    def apply(run: Run, op: Any, _: NodeT) -> None:
        mode = default if op.roundingMode is None else op.roundingMode.decode(errors="replace")
        if mode == "trunc" and run[op.input1Id].dtype == torch.float16:
            reject("it does not truncate in float16")
        first, second = _common(run, op, name)
        if first.dtype not in FLOATS and mode in ("trunc", "floor"):
            first, second = first.float(), second.float()
        dtype = first.dtype
        if dtype not in FLOATS:
            quotient = lambda a, b: _integer_quotient(run, a, b)  # noqa: E731
            run[op.outputId] = _arithmetic(run, quotient, first, second, name)
            return
        result = (wide(first) / wide(second)).to(dtype)
        if mode is not None:
            if mode not in ("trunc", "floor"):
                reject(f"{name} with the rounding mode {mode!r}")
            result = result.trunc() if mode == "trunc" else result.floor()
            if (name, mode) in (("Fmod", "trunc"), ("Remainder", "floor")):
                result = first - result * second
        run[op.outputId] = result

    return apply


SEMANTICS: Final[dict[str, Semantics]] = {
    "Add": _scaled("Add", torch.add),
    "Sub": _scaled("Sub", torch.sub),
    "Mul": _plain("Mul", torch.mul),
    "Pow": _plain("Pow", torch.pow),
    "Minimum": _minimum,
    "Div": _division("Div", None),
    "Fmod": _division("Fmod", "trunc"),
    "Remainder": _division("Remainder", "floor"),
    **{
        f"Bitwise{name}": _bitwise(f"Bitwise{name}", getattr(torch, f"bitwise_{name.lower()}"))
        for name in ("And", "Or", "Xor")
    },
    **{
        name: _comparison(name, getattr(torch, name.lower())) for name in ("Eq", "Ne", "Ge", "Gt", "Le", "Lt")
    },
}
