# SPDX-License-Identifier: Apache-2.0
"""Operations that compute element by element (ActivationOps, BinaryOps, ClampOps, UnaryOps)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.reference.run import Run, Semantics, one_dtype, refuse, wide

Tensor = torch.Tensor
_FLOATS: Final = (torch.float16, torch.float32)


def _unary(function: Callable[[Tensor], Tensor]) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        operand = run[op.input1Id]
        result = function(wide(operand))
        run[op.outputId] = result if result.dtype == torch.bool else result.to(operand.dtype)

    return apply


def _common(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The runtime's promotion: it casts to float types only."""
    dtype = torch.promote_types(first.dtype, second.dtype)
    if first.dtype != second.dtype and dtype not in _FLOATS:
        refuse(f"it does not promote {first.dtype} and {second.dtype}")
    return first.to(dtype), second.to(dtype)


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        first, second = _common(run[op.input1Id], run[op.input2Id])
        result = function(wide(first), wide(second))
        run[op.outputId] = result if result.dtype == torch.bool else result.to(first.dtype)

    return apply


def _scaled(function: Callable[[Tensor, Tensor], Tensor]) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        first, second = _common(run[op.input1Id], run[op.input2Id])
        if op.alpha != 1.0:
            second = second * torch.tensor(op.alpha).to(second.dtype)
        run[op.outputId] = function(first, second)

    return apply


def _bitwise(on_bits: Callable[[Tensor, Tensor], Tensor], name: str) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        first, second = _common(run[op.input1Id], run[op.input2Id])
        if first.dtype in _FLOATS:
            refuse(f"{name} of {first.dtype}")
        run[op.outputId] = on_bits(first, second)

    return apply


def _division(name: str, default: str) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        mode = default if op.roundingMode is None else op.roundingMode.decode()
        if mode == "trunc" and run[op.input1Id].dtype == torch.float16:
            refuse("it does not truncate in float16")
        first, second = _common(run[op.input1Id], run[op.input2Id])
        if first.dtype not in _FLOATS and mode:
            first, second = first.float(), second.float()
        dtype = first.dtype
        if dtype not in _FLOATS:
            run[op.outputId] = torch.div(first, second, rounding_mode="trunc")
            return
        quotient = (wide(first) / wide(second)).to(dtype)
        rounded = {"": quotient, "trunc": quotient.trunc(), "floor": quotient.floor()}[mode]
        if (name, mode) in (("Fmod", "trunc"), ("Remainder", "floor")):
            rounded = first - rounded * second
        run[op.outputId] = rounded

    return apply


def _hard_tanh(run: Run, op: Any, _: NodeT) -> None:
    operand = run[op.input1Id]
    low, high = (torch.tensor(v).to(operand.dtype) for v in (op.minValue, op.maxValue))
    run[op.outputId] = torch.where(operand > high, high, torch.where(operand < low, low, operand))


def _gelu(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    if op.approximate is not None and op.approximate.decode() == "tanh":
        run[op.outputId] = x.tanh() * x
        return
    half, one, root = (torch.tensor(v).to(x.dtype) for v in (0.5, 1.0, math.sqrt(0.5)))
    run[op.outputId] = (wide(x * root).erf().to(x.dtype) + one) * half * x


def _leaky_relu(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    run[op.outputId] = torch.nn.functional.leaky_relu(wide(x), op.negativeSlope).to(x.dtype)


def _softmax(logarithm: bool) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        if op.halfToFloat:
            refuse("softmax from float16 to float32")
        x = run[op.input1Id]
        result = wide(x).softmax(op.dim).to(x.dtype)
        run[op.outputId] = result.log() if logarithm else result

    return apply


def _clamp(run: Run, op: Any, node: NodeT) -> None:
    operand = run[op.input1Id]
    low, high = (-math.inf, math.inf) if node.minMax is None else (node.minMax.minValue, node.minMax.maxValue)
    if (low, high) == (-math.inf, math.inf):
        return  # The result keeps no value: whoever reads it is refused.
    result = operand
    if low != -math.inf:
        result = result.maximum(torch.tensor(low).to(operand.dtype))
    if high != math.inf:
        result = result.minimum(torch.tensor(high).to(operand.dtype))
    run[op.outputId] = result


def _where(run: Run, op: Any, _: NodeT) -> None:
    first, second = run[op.input2Id], run[op.input3Id]
    one_dtype(first, second)
    run[op.outputId] = torch.where(run[op.input1Id] != 0, first, second)


def _logical_not(operand: Tensor) -> Tensor:
    if operand.dtype != torch.bool:
        refuse(f"LogicalNot of {operand.dtype}")
    return ~operand


SEMANTICS: Final[dict[str, Semantics]] = {
    "Relu": _unary(torch.relu),
    "Exp": _unary(torch.exp),
    "Exp2": _unary(torch.exp2),
    "Reciprocal": _unary(torch.reciprocal),
    "Sqrt": _unary(torch.sqrt),
    "Neg": _unary(torch.neg),
    "Log": _unary(torch.log),
    "Log10": _unary(torch.log10),
    "Log2": _unary(torch.log2),
    "Erf": _unary(torch.erf),
    "Floor": _unary(torch.floor),
    "Ceil": _unary(torch.ceil),
    "Rsqrt": _unary(torch.rsqrt),
    "Sigmoid": _unary(torch.sigmoid),
    "Sin": _unary(torch.sin),
    "Sign": _unary(torch.sign),
    "Cos": _unary(torch.cos),
    "Tan": _unary(torch.tan),
    "Abs": _unary(torch.abs),
    "Asin": _unary(torch.asin),
    "Acos": _unary(torch.acos),
    "Atan": _unary(torch.atan),
    "Sinh": _unary(torch.sinh),
    "Cosh": _unary(torch.cosh),
    "Tanh": _unary(torch.tanh),
    "Asinh": _unary(torch.asinh),
    "Acosh": _unary(torch.acosh),
    "Atanh": _unary(torch.atanh),
    "BitwiseNot": _unary(torch.bitwise_not),
    "Isnan": _unary(torch.isnan),
    "Isinf": _unary(torch.isinf),
    # Metal rounds halves away from zero, ATen to even.
    "Round": _unary(lambda x: x.abs().add(0.5).floor().copysign(x)),
    "LogicalNot": _unary(_logical_not),
    "Add": _scaled(torch.add),
    "Sub": _scaled(torch.sub),
    "Mul": _binary(torch.mul),
    "Pow": _binary(torch.pow),
    "Minimum": _binary(torch.minimum),
    "Div": _division("Div", ""),
    "Fmod": _division("Fmod", "trunc"),
    "Remainder": _division("Remainder", "floor"),
    "BitwiseAnd": _bitwise(torch.bitwise_and, "BitwiseAnd"),
    "BitwiseOr": _bitwise(torch.bitwise_or, "BitwiseOr"),
    "BitwiseXor": _bitwise(torch.bitwise_xor, "BitwiseXor"),
    "Eq": _binary(torch.eq),
    "Ne": _binary(torch.ne),
    "Ge": _binary(torch.ge),
    "Gt": _binary(torch.gt),
    "Le": _binary(torch.le),
    "Lt": _binary(torch.lt),
    "HardTanh": _hard_tanh,
    "Gelu": _gelu,
    "LeakyRelu": _leaky_relu,
    "Softmax": _softmax(logarithm=False),
    "LogSoftmax": _softmax(logarithm=True),
    "Clamp": _clamp,
    "Where": _where,
}
