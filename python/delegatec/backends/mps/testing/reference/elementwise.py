# SPDX-License-Identifier: Apache-2.0
"""Cases of elementwise operations: node type -> tables, inputs, results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.mps_graph import (
    BinaryT,
    DivisionT,
    GeluT,
    HardTanhT,
    LeakyReluT,
    ScaledBinaryT,
    SoftmaxT,
    TernaryT,
    UnaryT,
)

from delegatec.backends.mps.testing.reference.synthetic import Case

Tensor = torch.Tensor

SMALL: Final = torch.tensor([[-0.9, -0.5, 0.0], [0.25, 0.7, 0.99]])
LARGE: Final = torch.tensor([[-7.5, -2.25, -0.5], [0.5, 1.5, 6.0]])
POSITIVE: Final = torch.tensor([[0.03125, 0.5, 1.0], [1.5, 20.0, 300.0]])
INTEGERS: Final = torch.tensor([[-7, -1, 0], [1, 5, 7]], dtype=torch.int32)
DIVISORS: Final = torch.tensor([[2, -3, 4], [-1, 2, -4]], dtype=torch.int32)
BOOLS: Final = torch.tensor([[True, False, True], [False, False, True]])
ODD: Final = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -1.0])

UNARY: Final = UnaryT(0, 10)
BINARY: Final = BinaryT(0, 1, 10)


def _unary(function: Callable[[Tensor], Tensor], *inputs: Tensor) -> list[Case]:
    return [Case(UNARY, (x,), function) for x in inputs]


def _erf(x: Tensor) -> Tensor:
    return torch.tensor([math.erf(value) for value in x.flatten().tolist()]).reshape(x.shape)


def _binary(
    function: Callable[[Tensor, Tensor], Tensor],
    *operands: tuple[Tensor, Tensor],
    dtypes: tuple[torch.dtype, ...] = (),
) -> list[Case]:
    return [Case(BINARY, pair, function, dtypes=dtypes) for pair in operands]


def _comparison(function: Callable[[Tensor, Tensor], Tensor]) -> list[Case]:
    pairs = ((LARGE, LARGE.flip(1)), (INTEGERS, DIVISORS), (ODD, ODD.flip(0)), (LARGE, INTEGERS))
    return _binary(function, *pairs, dtypes=(torch.bool,))


def _divided(
    function: Callable[[Tensor, Tensor], Tensor], mode: bytes | None, *, of_integers: bool
) -> list[Case]:
    table = DivisionT(0, 1, 10, mode)
    floats = Case(table, (LARGE, SMALL + 2.0), function, half=mode not in (b"trunc",))
    # With a rounding mode the runtime leaves integers in float32.
    dtype = torch.int32 if of_integers else torch.float32
    return [floats, Case(table, (INTEGERS, DIVISORS), function, dtypes=(dtype,))]


def _truncated(x: Tensor, y: Tensor) -> Tensor:
    return (x.double() / y.double()).trunc()


def _floored(x: Tensor, y: Tensor) -> Tensor:
    return (x.double() / y.double()).floor()


def _fmod(x: Tensor, y: Tensor) -> Tensor:
    return torch.tensor([math.fmod(a, b) for a, b in zip(x.flatten(), y.flatten(), strict=True)]).reshape(
        x.shape
    )


def _remainder(x: Tensor, y: Tensor) -> Tensor:
    return x.double() - _floored(x, y) * y.double()


def _gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + _erf(x / math.sqrt(2.0)).double())


def _softmax(x: Tensor) -> Tensor:
    weights = (x - x.max()).exp()
    return weights / weights.sum(0, keepdim=True)


def _clamped(low: float, high: float) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.tensor([min(max(v, low), high) for v in x.flatten().tolist()]).reshape(x.shape)


CASES: Final[dict[str, list[Case]]] = {
    "Exp": _unary(lambda x: math.e**x, SMALL, LARGE),
    "Exp2": _unary(lambda x: 2.0**x, LARGE),
    "Reciprocal": _unary(lambda x: 1.0 / x, LARGE),
    "Sqrt": _unary(lambda x: x**0.5, POSITIVE),
    "Rsqrt": _unary(lambda x: x**-0.5, POSITIVE),
    "Neg": _unary(lambda x: 0 - x, LARGE, INTEGERS),
    "Log": _unary(torch.log, POSITIVE),
    "Log10": _unary(lambda x: x.log() / math.log(10.0), POSITIVE),
    "Log2": _unary(lambda x: x.log() / math.log(2.0), POSITIVE),
    "Erf": _unary(_erf, LARGE),
    "Floor": _unary(lambda x: x - x % 1.0, LARGE),
    "Ceil": _unary(lambda x: x + -x % 1.0, LARGE),
    "Sigmoid": _unary(lambda x: 1.0 / (1.0 + (-x).exp()), LARGE),
    "Sin": _unary(lambda x: torch.special.sinc(x / math.pi) * x, LARGE),
    "Cos": _unary(lambda x: (x + math.pi / 2).sin(), LARGE),
    "Tan": _unary(lambda x: x.sin() / x.cos(), SMALL),
    "Asin": _unary(lambda x: torch.atan2(x, (1 - x * x).sqrt()), SMALL),
    "Acos": _unary(lambda x: torch.atan2((1 - x * x).sqrt(), x), SMALL),
    "Atan": _unary(lambda x: torch.atan2(x, torch.ones_like(x)), LARGE),
    "Sinh": _unary(lambda x: (x.exp() - (-x).exp()) / 2, SMALL),
    "Cosh": _unary(lambda x: (x.exp() + (-x).exp()) / 2, LARGE),
    "Tanh": _unary(lambda x: 1 - 2 / ((2 * x).exp() + 1), LARGE),
    "Asinh": _unary(lambda x: x.sign() * (x.abs() + (x * x + 1).sqrt()).log(), LARGE),
    "Acosh": _unary(lambda x: (x + (x * x - 1).sqrt()).log(), POSITIVE + 1),
    "Atanh": _unary(lambda x: ((1 + x) / (1 - x)).log() / 2, SMALL * 0.9),
    "Abs": _unary(lambda x: torch.where(x < 0, -x, x), LARGE, INTEGERS),
    "Sign": _unary(lambda x: (x > 0).long() - (x < 0).long(), LARGE, INTEGERS),
    "Isnan": _unary(lambda x: x != x, ODD),
    "Isinf": _unary(lambda x: x.abs() == math.inf, ODD),
    "Round": _unary(lambda x: (x + 0.5).floor(), SMALL + 0.001),
    "LogicalNot": _unary(lambda x: x.eq(False), BOOLS),
    "BitwiseNot": [*_unary(lambda x: -1 - x, INTEGERS), *_unary(lambda x: x.eq(False), BOOLS)],
    "Relu": [Case(BinaryT(0, 0, 10), (LARGE,), lambda x: x * (x > 0))],
    "Add": [
        Case(ScaledBinaryT(0, 1, 10, 1.0), (LARGE, SMALL[0]), lambda x, y: x + y),
        Case(ScaledBinaryT(0, 1, 10, 2.5), (LARGE, SMALL), lambda x, y: x + 2.5 * y),
        Case(ScaledBinaryT(0, 1, 10, 2.0), (INTEGERS, DIVISORS), lambda x, y: x + 2 * y),
    ],
    "Sub": [
        Case(ScaledBinaryT(0, 1, 10, 1.0), (LARGE[:, :1], SMALL), lambda x, y: x - y),
        Case(ScaledBinaryT(0, 1, 10, -3.0), (INTEGERS, DIVISORS), lambda x, y: x + 3 * y),
    ],
    "Mul": [
        *_binary(lambda x, y: x * y, (LARGE, SMALL), (INTEGERS, DIVISORS[0]), (SMALL[:, None], LARGE)),
        *_binary(lambda x, y: x * y, (BOOLS, LARGE)),
    ],
    "Pow": _binary(lambda x, y: (x.log() * y).exp(), (POSITIVE[:, :2], SMALL[:, :2])),
    "Minimum": _binary(lambda x, y: torch.where(x < y, x, y), (LARGE, SMALL), (INTEGERS, DIVISORS)),
    "Div": [
        *_divided(_truncated, None, of_integers=True)[1:],
        *_divided(lambda x, y: x / y, None, of_integers=True)[:1],
        *_divided(_truncated, b"trunc", of_integers=False),
        *_divided(_floored, b"floor", of_integers=False),
    ],
    "Fmod": [
        *_divided(_fmod, b"trunc", of_integers=False),
        *(case for case in _divided(_floored, b"floor", of_integers=False)),
    ],
    "Remainder": [
        *_divided(_remainder, None, of_integers=False),
        *_divided(_truncated, b"trunc", of_integers=False),
    ],
    "BitwiseAnd": _binary(lambda x, y: x & y, (INTEGERS, DIVISORS), (BOOLS, BOOLS.flip(1))),
    "BitwiseOr": _binary(lambda x, y: x | y, (INTEGERS, DIVISORS), (BOOLS, BOOLS.flip(1))),
    "BitwiseXor": _binary(lambda x, y: (x | y) & ~(x & y), (INTEGERS, DIVISORS), (BOOLS, BOOLS.flip(1))),
    "Eq": _comparison(lambda x, y: x == y),
    "Ne": _comparison(lambda x, y: ~(x == y)),
    "Ge": _comparison(lambda x, y: (x > y) | (x == y)),
    "Gt": _comparison(lambda x, y: y < x),
    "Le": _comparison(lambda x, y: (x < y) | (x == y)),
    "Lt": _comparison(lambda x, y: y > x),
    "HardTanh": [
        Case(HardTanhT(0, 10, -0.5, 2.0), (LARGE,), _clamped(-0.5, 2.0)),
        Case(HardTanhT(0, 10, -2.0, 3.0), (INTEGERS,), _clamped(-2, 3)),
        Case(
            HardTanhT(0, 10, -1.0, 1.0), (ODD,), lambda x: torch.where(x.isnan(), x, _clamped(-1.0, 1.0)(x))
        ),
    ],
    "Gelu": [
        Case(GeluT(0, 10, b"none"), (LARGE,), _gelu),
        Case(GeluT(0, 10, b"tanh"), (LARGE,), lambda x: x * x.tanh()),
    ],
    "LeakyRelu": [Case(LeakyReluT(0, 10, 0.125), (LARGE,), lambda x: x * torch.where(x < 0, 0.125, 1.0))],
    "Softmax": [
        Case(SoftmaxT(0, 10, 0, False), (LARGE,), _softmax),
        Case(SoftmaxT(0, 10, -1, False), (SMALL,), lambda x: _softmax(x.T).T),
    ],
    "LogSoftmax": [Case(SoftmaxT(0, 10, -2, False), (SMALL,), lambda x: _softmax(x).log())],
    "Clamp": [
        Case(UNARY, (LARGE,), _clamped(-0.5, 2.0), bounds=(-0.5, 2.0)),
        Case(UNARY, (LARGE,), _clamped(-0.5, math.inf), bounds=(-0.5, math.inf)),
        Case(UNARY, (INTEGERS,), _clamped(-math.inf, 3), bounds=(-math.inf, 3.0)),
    ],
    "Where": [
        Case(TernaryT(0, 1, 2, 10), (BOOLS, SMALL, LARGE[0]), lambda c, x, y: c * x + ~c * y),
        Case(
            TernaryT(0, 1, 2, 10), (INTEGERS, INTEGERS, DIVISORS), lambda c, x, y: (c != 0) * x + (c == 0) * y
        ),
    ],
}
