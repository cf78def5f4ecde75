# SPDX-License-Identifier: Apache-2.0
"""Samples of elementwise operators."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.operators.sample import Maker, Sample, Samples, call, turned

RANKS = ((), (5,), (2, 3), (2, 1, 3), (1, 2, 3, 2), (2, 1, 2, 1, 3))
# operands that a tensor is promoted with
PARTNERS = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool)


def unary(low: float = -4, high: float = 4, *rest: object, **options: object) -> Samples:
    """One tensor of every rank, an empty one, a transposed one, and extreme values."""

    def samples(make: Maker) -> Iterator[Sample]:
        for sizes in (*RANKS, (0, 3)):
            yield call(make(*sizes, low=low, high=high), *rest, **options)
        yield call(turned(make(3, 2, 4, low=low, high=high)), *rest, **options)
        yield call(make.ends(), *rest, **options)

    return samples


def binary(
    low: float = -4, high: float = 4, other: tuple[float, float] | None = None, **options: object
) -> Samples:
    """Two tensors: broadcast every way, of two dtypes, of 0 dims, empty, transposed."""
    bounds = {"low": low, "high": high}
    others = bounds if other is None else {"low": other[0], "high": other[1]}

    def samples(make: Maker) -> Iterator[Sample]:
        for a, b in (
            *((sizes, sizes) for sizes in RANKS),
            *(((2, 3), (3,)), ((2, 1, 3), (1, 4, 1)), ((), (4,)), ((3,), (2, 2, 2, 3)), ((0, 3), (1, 3))),
            ((2, 1, 1, 3, 1), (2, 1, 2)),
        ):
            yield call(make(*a, **bounds), make(*b, **others), **options)
        yield call(turned(make(3, 4, **bounds)), make(3, 4, **others), **options)
        for partner in PARTNERS:
            yield call(make(2, 3, **bounds), make(2, 3, dtype=partner, **others), **options)
            yield call(make(2, 3, **bounds), make(dtype=partner, **others), **options)
        yield call(make(dtype=torch.float32, **bounds), make(4, **others), **options)
        if other is None and low < 0:
            ends = make.ends()
            yield call(ends.repeat_interleave(len(ends)), ends.repeat(len(ends)), **options)

    return samples


def divided(**options: object) -> Samples:
    """Dividends and divisors of both signs, and integers that float32 does not represent."""

    def samples(make: Maker) -> Iterator[Sample]:
        if make.dtype in (torch.bool, torch.uint8):
            return
        dividends, divisors = make(8, low=-9, high=9), make(8, low=1, high=3)
        yield call(dividends, divisors, **options)
        yield call(dividends, -divisors, **options)
        if make.dtype is torch.int64:
            yield call(torch.tensor([2**40 + 1, -(2**40) - 1, 2**62]), torch.tensor([3, -7, -2]), **options)

    return samples


def with_number(scalars: tuple[float, ...], low: float = -4, high: float = 4, **options: object) -> Samples:
    """A tensor and a scalar of each kind."""

    def samples(make: Maker) -> Iterator[Sample]:
        for scalar in scalars:
            yield call(make(2, 3, low=low, high=high), scalar, **options)
            yield call(make(low=low, high=high), scalar, **options)
        for sizes in (*RANKS, (0, 2)):
            yield call(make(*sizes, low=low, high=high), scalars[0], **options)
        yield call(turned(make(3, 4, low=low, high=high)), scalars[0], **options)

    return samples


def both(*groups: Samples) -> Samples:
    """The samples of several."""
    return lambda make: (sample for group in groups for sample in group(make))


def _clamp(make: Maker) -> Iterator[Sample]:
    for sizes in (*RANKS, (0, 3)):
        yield call(make(*sizes), -1, 2)
    for low, high in ((None, 1), (0, None), (-1.5, 1.5), (1, 2.5), (2, -2)):
        yield call(turned(make(3, 4)), low, high)
    yield call(make.ends(), 0, 1)


def _clamp_tensor(make: Maker) -> Iterator[Sample]:
    yield call(make(2, 3), make(2, 3, low=-2, high=0), make(2, 3, low=0, high=2))
    yield call(make(2, 3), make(3, low=-2, high=0), make(2, 1, low=0, high=2))
    yield call(turned(make(2, 3, 2)), None, make())
    yield call(make(4), make(2, 4), None)
    yield call(make(4), make(4, dtype=torch.float32), None)
    yield call(make.ends(), make(1), make(1))


def from_number(scalars: tuple[float, ...], low: float = -4, high: float = 4) -> Samples:
    """A scalar and a tensor."""

    def samples(make: Maker) -> Iterator[Sample]:
        for scalar in scalars:
            yield call(scalar, make(2, 3, low=low, high=high))
        for sizes in (*RANKS, (0, 3)):
            yield call(scalars[0], make(*sizes, low=low, high=high))

    return samples


def _prelu(make: Maker) -> Iterator[Sample]:
    yield call(make(2, 3), make(1))
    for sizes in ((2, 3), (2, 3, 4), (2, 3, 4, 2)):
        yield call(make(*sizes), make(3))
    yield call(turned(make(4, 3, 2)), make(3))


def _where(make: Maker) -> Iterator[Sample]:
    boolean = torch.bool
    for sizes in (*RANKS, (0, 3)):
        yield call(make(*sizes, dtype=boolean), make(*sizes), make(*sizes))
    yield call(make(3, dtype=boolean), make(2, 1), make())
    yield call(turned(make(3, 4, dtype=boolean)), turned(make(3, 4)), make(4))
    yield call(make(dtype=boolean), make.ends(), make(1))
    for partner in (torch.float32, torch.int64, torch.bool):
        yield call(make(2, 3, dtype=boolean), make(2, 3), make(2, 3, dtype=partner))


def _masked_fill(make: Maker) -> Iterator[Sample]:
    for sizes in (*RANKS, (0, 3)):
        yield call(make(*sizes), make(*sizes, dtype=torch.bool), 1)
    yield call(make(2, 3), make(3, dtype=torch.bool), 2)
    yield call(turned(make(2, 3)), make(2, 1, dtype=torch.bool), True)
    if make.dtype.is_floating_point:
        yield call(make(2, 3), make(2, 3, dtype=torch.bool), -float("inf"))


def _to_copy(make: Maker) -> Iterator[Sample]:
    for sizes in (*RANKS, (0, 3)):
        yield call(make(*sizes), dtype=torch.float32)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16):
        yield call(make(2, 3), dtype=dtype)
    for dtype in (torch.int8, torch.uint8, torch.bool):
        yield call(turned(make(3, 4, low=0)), dtype=dtype)
    yield call(make(2, 3))


def _curve(make: Maker) -> Iterator[Sample]:
    """Ties of rounding, tiny and large fractions, and a curve's whole range."""
    if make.dtype.is_floating_point:
        points = [0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.001, -0.001, 100.25, -513.5]
        yield call(torch.cat([torch.linspace(-8, 8, 81), torch.tensor(points)]).to(make.dtype))


_NUMBERS = (2, -1.5, True, 0)
_SHIFTS = binary(0, 20, other=(0, 5))
_BITS = both(binary(-100, 100), lambda make: [call(make.ends(), make.ends().flip(0))])

_UNARY = (
    "_conj_physical abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp"
    " expm1 floor gelu isinf isnan leaky_relu log log10 log1p log2 logical_not neg"
    " reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc elu hardtanh"
    " exp2 hardshrink hardsigmoid hardswish sgn silu"
    " alias alias_copy clone detach detach_copy lift_fresh_copy"
)
_BINARY = (
    "add.Tensor atan2.default eq.Tensor ge.Tensor gt.Tensor le.Tensor logical_and.default"
    " fmax.default fmin.default logical_or.default logical_xor.default lt.Tensor maximum.default"
    " minimum.default mul.Tensor ne.Tensor sub.Tensor"
)

ELEMENTWISE: dict[str, Samples] = {
    **dict.fromkeys((f"{name}.default" for name in _UNARY.split()), both(unary(), _curve)),
    "gelu.default": both(unary(), unary(approximate="tanh"), _curve),
    "elu.default": both(unary(), unary(-4, 4, 0.5, 2, 3), _curve),
    "leaky_relu.default": both(unary(), unary(-4, 4, 0.25), unary(-4, 4, 1.5), _curve),
    "hardtanh.default": both(unary(), unary(-4, 4, -2, 3), _curve),
    "hardshrink.default": both(unary(), unary(-4, 4, 1.5), _curve),
    "prelu.default": _prelu,
    "logit.default": both(unary(0, 1), unary(0, 1, 0.25)),
    "clamp.default": _clamp,
    "clamp.Tensor": _clamp_tensor,
    "_to_copy.default": _to_copy,
    "masked_fill.Scalar": _masked_fill,
    "where.self": _where,
    **dict.fromkeys(
        _BINARY.split(),
        binary(),
    ),
    "add.Tensor": both(binary(), binary(alpha=2), with_number(_NUMBERS)),
    "sub.Tensor": both(binary(), binary(alpha=3), with_number(_NUMBERS)),
    "mul.Tensor": both(binary(), with_number(_NUMBERS)),
    "div.Tensor": both(binary(other=(1, 3)), with_number((2, 0.5, True))),
    "div.Tensor_mode": both(
        *(binary(-20, 20, other=(1, 3), rounding_mode=mode) for mode in ("floor", "trunc", None)),
        *(divided(rounding_mode=mode) for mode in ("floor", "trunc")),
        with_number((3, -2, 0.75), -20, 20, rounding_mode="floor"),
    ),
    **dict.fromkeys(
        ["floor_divide.default", "fmod.Tensor", "remainder.Tensor"],
        both(binary(-20, 20, other=(1, 3)), divided()),
    ),
    "pow.Tensor_Tensor": binary(1, 3, other=(0, 3)),
    "bitwise_and.Tensor": _BITS,
    "bitwise_or.Tensor": _BITS,
    "bitwise_xor.Tensor": _BITS,
    "bitwise_left_shift.Tensor": _SHIFTS,
    "bitwise_right_shift.Tensor": _SHIFTS,
    "bitwise_left_shift.Tensor_Scalar": with_number((0, 2, 5), 0, 20),
    "bitwise_right_shift.Tensor_Scalar": with_number((0, 2, 5), 0, 20),
    "bitwise_and.Scalar": with_number((6, 1, True, 0), 0, 100),
    "bitwise_or.Scalar": with_number((6, 1, True, 0), 0, 100),
    "bitwise_xor.Scalar": with_number((6, 1, True, 0), 0, 100),
    "add.Scalar": both(with_number(_NUMBERS), with_number((2,), alpha=3)),
    "sub.Scalar": both(with_number(_NUMBERS), with_number((2,), alpha=3)),
    "rsub.Scalar": both(with_number(_NUMBERS), with_number((2,), alpha=3)),
    "mul.Scalar": with_number(_NUMBERS),
    "div.Scalar": with_number((2, 0.5, True)),
    "div.Scalar_mode": both(
        *(with_number((3, -2, 0.75), -20, 20, rounding_mode=mode) for mode in ("floor", "trunc", None))
    ),
    **dict.fromkeys(
        ["eq.Scalar", "ge.Scalar", "gt.Scalar", "le.Scalar", "lt.Scalar", "ne.Scalar"], with_number(_NUMBERS)
    ),
    "fmod.Scalar": with_number((3, -2, 0.75, 0.3), -20, 20),
    "remainder.Scalar": with_number((3, -2, 0.75, 0.3, -0.3), -20, 20),
    "bitwise_left_shift.Scalar_Tensor": from_number((5, 1, 0), 0, 5),
    "bitwise_right_shift.Scalar_Tensor": from_number((100, 1, 0), 0, 5),
    "remainder.Scalar_Tensor": from_number((7, -7.5, 2), 1, 3),
    "xlogy.Scalar_Other": with_number((2, 0.5, 3), 0, 4),
    "xlogy.Scalar_Self": from_number((2, 0, -1.5), 0, 4),
    "pow.Scalar": lambda make: (
        call(base, make(*sizes, low=0, high=3)) for base in (2, 0.5, True) for sizes in (*RANKS, (0, 3))
    ),
    "pow.Tensor_Scalar": with_number((2, 0.5, 3, 0, 1.0, 7, -1, -2, -0.5, 0.3, -1.7), 0.25, 3),
}
