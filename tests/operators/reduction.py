# SPDX-License-Identifier: Apache-2.0
"""Samples of reductions, scans, searches, and products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.operators.elementwise import RANKS, both
from tests.operators.sample import Maker, Sample, Samples, call, turned


def whole(**options: Any) -> Samples:
    """A tensor of every rank, an empty one, a transposed one; reduced to one element."""

    def samples(make: Maker) -> Iterator[Sample]:
        for sizes in (*RANKS, (0, 3)):
            yield call(make(*sizes, low=-2, high=2), **options)
        yield call(turned(make(3, 4, low=-2, high=2)), **options)
        yield call(make.ends(), **options)

    return samples


def dims(*required: Any, **options: Any) -> Samples:
    """Lists of dimensions: none, one, several, negative; kept or not."""

    def samples(make: Maker) -> Iterator[Sample]:
        tensor = make(2, 3, 4, low=-2, high=2)
        for chosen in ([0], [-1], [0, 2], [-1, -3], [0, 1, 2], []):
            for keepdim in (False, True):
                yield call(tensor, chosen, *required, keepdim, **options)
        for sizes in ((5,), (2, 3), (1, 2, 3, 2), (2, 1, 2, 1, 3)):
            yield call(make(*sizes, low=-2, high=2), [-1], *required, **options)
        yield call(make(low=-2, high=2), [0], *required, **options)
        yield call(make(2, 0, 3), [0], *required, **options)
        yield call(make(2, 0, 3), [1], *required, **options)
        yield call(turned(make(2, 3, 4, low=-2, high=2)), [1], *required, **options)
        for chosen in range(4):
            yield call(make(2, 5, 4, 8, low=-2, high=2), [chosen], *required, chosen > 1, **options)
        if make.dtype is not torch.int64:
            yield call(make.ends(), [0], *required, **options)

    return samples


def dim(*, distinct: bool = False, none: bool = False) -> Samples:
    """One dimension."""

    def samples(make: Maker) -> Iterator[Sample]:
        def some(*sizes: int) -> torch.Tensor:
            return make.distinct(*sizes) if distinct else make(*sizes, low=-2, high=2)

        for chosen in (0, 1, -1):
            for keepdim in (False, True):
                yield call(some(2, 3, 4), chosen, keepdim)
        for sizes in ((5,), (2, 3), (1, 2, 3, 2), (2, 1, 2, 1, 3)):
            yield call(some(*sizes), -1)
        yield call(some(), 0)
        yield call(some(0, 3), 1)
        yield call(turned(some(2, 3, 4)), 1, True)
        if make.dtype.is_floating_point:
            yield call(make.ends(), 0)
        if none:
            for sizes in RANKS:
                yield call(some(*sizes))
            yield call(turned(some(3, 4)), None, True)

    return samples


def scan(make: Maker) -> Iterator[Sample]:
    """Running sums; those of scalars are none in normal form."""
    for chosen in (0, 1, -1):
        yield call(make(2, 3, 4), chosen)
    for sizes in ((5,), (1, 2, 3, 2), (2, 1, 2, 1, 3), (2, 0)):
        yield call(make(*sizes), -1)
    yield call(turned(make(3, 4)), 0)
    yield call(make(3, 4), 0, dtype=torch.float32)
    yield call(make.ends(), 0)


def _many_digits(make: Maker) -> Iterator[Sample]:
    if make.dtype in (torch.int64, torch.int32):
        yield call(torch.tensor([[2**24 + 1, 1], [3, 2**30]], dtype=make.dtype), [1])
        yield call(torch.tensor([2**24 + 1, 1, 1], dtype=make.dtype), [0], True)


def _dtype(make: Maker) -> Iterator[Sample]:
    for dtype in (torch.float32, torch.float64, torch.int64):
        yield call(make(2, 3, low=-2, high=2), [1], dtype=dtype)


def _softmax(make: Maker) -> Iterator[Sample]:
    if not make.dtype.is_floating_point:
        return
    for chosen in (0, 1, -1):
        yield call(make(2, 3, 4), chosen, False)
    for sizes in ((), (5,), (1, 2, 3, 2), (2, 1, 2, 1, 3), (0, 3)):
        yield call(make(*sizes), -1, False)
    yield call(turned(make(3, 4)), 0, False)
    yield call(torch.tensor([1, -float("inf"), 0], dtype=make.dtype), 0, False)
    yield call(torch.tensor([1, float("nan"), 0], dtype=make.dtype), 0, False)
    for chosen in range(4):
        yield call(make(2, 5, 4, 8), chosen, False)


def _topk(make: Maker) -> Iterator[Sample]:
    for k, chosen in ((2, 0), (3, 1), (1, -1)):
        for largest in (True, False):
            yield call(make.distinct(3, 4, 2), k if chosen != -1 else 1, chosen, largest)
    yield call(make.distinct(7), 3)
    yield call(make.distinct(7), 7)
    yield call(make.distinct(), 1)
    yield call(turned(make.distinct(4, 5)), 2, 0)
    yield call(make.distinct(1, 2, 1, 3, 2), 2, -2)
    if make.dtype.is_floating_point:
        yield call(torch.tensor([1, float("nan"), float("inf"), -float("inf")], dtype=make.dtype), 3)


def _variance(make: Maker) -> Iterator[Sample]:
    tensor = make(2, 3, 4)
    for chosen in ([0], [-1], [0, 2], None):
        for correction in (0, 1, None):
            yield call(tensor, chosen, correction=correction)
    yield call(tensor, [1], correction=1, keepdim=True)
    yield call(turned(make(3, 4, 2)), [-2], correction=1)
    yield call(make(5), [0], correction=1)
    yield call(make(2, 1, 2, 1, 3), [2, 4], correction=0)


def _variance_flag(make: Maker) -> Iterator[Sample]:
    for chosen in ([0], [-1], [0, 2]):
        for unbiased in (True, False):
            yield call(make(2, 3, 4), chosen, unbiased, unbiased)
    yield call(make(5), [0])
    yield call(turned(make(3, 4)), [1])


def _mm(make: Maker) -> Iterator[Sample]:
    if make.dtype is torch.bool:
        return
    for m, k, n in ((2, 3, 4), (1, 5, 1), (3, 0, 2), (0, 3, 2)):
        yield call(make(m, k), make(k, n))
    yield call(turned(make(3, 4)), turned(make(4, 2)))


def _bmm(make: Maker) -> Iterator[Sample]:
    if make.dtype is torch.bool:
        return
    for batch, m, k, n in ((2, 2, 3, 4), (1, 1, 5, 1), (2, 3, 0, 2), (0, 2, 3, 2)):
        yield call(make(batch, m, k), make(batch, k, n))
    yield call(make(2, 4, 3).transpose(1, 2), make(2, 2, 4).transpose(1, 2))


def _addmm(make: Maker) -> Iterator[Sample]:
    for bias in ((2, 4), (4,), (1, 4), (2, 1), ()):
        yield call(make(*bias), make(2, 3), make(3, 4))
    yield call(make(4), make(2, 3), turned(make(3, 4)), beta=2, alpha=3)
    yield call(make(2), make(3, 0), make(0, 2))
    yield call(make(2, 4), make(2, 3), make(3, 4), beta=3, alpha=2)


def _matmul(make: Maker) -> Iterator[Sample]:
    for a, b in (
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((2, 2, 3), (3, 4)),
        ((2, 2, 3), (2, 3, 4)),
        ((1, 2, 2, 3), (2, 1, 3, 4)),
    ):
        yield call(make(*a), make(*b))
    yield call(turned(make(3, 2)).T, turned(make(3, 4)))


def _linear(make: Maker) -> Iterator[Sample]:
    for sizes in ((3,), (2, 3), (2, 2, 3), (1, 2, 2, 3), (1, 2, 1, 2, 3), (0, 3)):
        yield call(make(*sizes), make(4, 3))
        yield call(make(*sizes), make(4, 3), make(4))
    yield call(turned(make(2, 3)), turned(make(4, 3)), make(4))


def _cdist(make: Maker) -> Iterator[Sample]:
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        yield call(make(3, 4), make(2, 4), p, None)
    yield call(make(2, 3, 4), make(2, 2, 4), 2.0, None)


def _pdist(make: Maker) -> Iterator[Sample]:
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        yield call(make(4, 3), p)


def _embedding(make: Maker) -> Iterator[Sample]:
    for dtype in (torch.int64, torch.int32):
        for sizes in ((), (3,), (2, 3), (2, 1, 2, 2)):
            yield call(make(5, 4), make(*sizes, low=0, high=4, dtype=dtype))
    yield call(turned(make(5, 4)), make(0, low=0, high=4, dtype=torch.int64))


REDUCTION: dict[str, Samples] = {
    "_log_softmax.default": _softmax,
    "_softmax.default": _softmax,
    "_cdist_forward.default": _cdist,
    "_pdist_forward.default": _pdist,
    "addmm.default": _addmm,
    "amax.default": both(dims(), lambda make: [call(make(2, 3))]),
    "amin.default": both(dims(), lambda make: [call(make(2, 3))]),
    "any.default": whole(),
    "any.dim": dim(),
    "any.dims": dims(),
    "argmax.default": dim(distinct=True, none=True),
    "argmin.default": dim(distinct=True, none=True),
    "bmm.default": _bmm,
    "cumsum.default": scan,
    "embedding.default": _embedding,
    "linear.default": _linear,
    "matmul.default": _matmul,
    "max.default": whole(),
    "max.dim": dim(distinct=True),
    "mean.default": both(whole(), whole(dtype=torch.float32)),
    "mean.dim": both(dims(), _dtype),
    "min.default": whole(),
    "min.dim": dim(distinct=True),
    "mm.default": _mm,
    "prod.default": both(whole(), whole(dtype=torch.float32)),
    "prod.dim_int": dim(),
    "sum.default": both(whole(), whole(dtype=torch.float32)),
    "sum.dim_IntList": both(dims(), _dtype, _many_digits),
    "topk.default": _topk,
    "var.correction": _variance,
    "var.dim": _variance_flag,
    "var_mean.correction": _variance,
}
