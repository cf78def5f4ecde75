# SPDX-License-Identifier: Apache-2.0
"""Results of a program in eager mode, and how far from them another correct implementation may be.

The module is made from its source for each run: torch.export and the compiler have never seen it.

An ill-conditioned program amplifies the rounding of its first operations to any size, and a comparison
or a rounding turns a difference of one bit into another result. So a program is run several times with
each rounding replaced by a random one, of the dtype's own size: where results differ between these runs,
they may differ from eager mode. It is also run in float64, as eager mode's own kernels may be inexact.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tests.generated.attention import Attention
from tests.generated.examples import Call
from tests.generated.program import Program, module
from tests.generated.rounding import EPSILON32, RandomRounding

EAGER_ERRORS: Final = (RuntimeError, TypeError, ValueError, IndexError, ArithmeticError)
_RUNS: Final = 6


@dataclass(frozen=True)
class Value:
    """A result in eager mode.

    Attributes:
        value: the result.
        exact: the result of the program in float64, in the dtype of the result; None if there is none.
        tolerance: the largest permitted difference of each element, in float64.
        free: elements that may have any value, because a rounding decides between very different ones.
    """

    value: Any
    exact: Tensor | None
    tolerance: Tensor | None
    free: Tensor | None


@dataclass(frozen=True)
class Expected:
    """The results of the calls of a program.

    Attributes:
        calls: for each call, its results, then its inputs as they are after it.
        fits_float16: whether intermediate results, and their squares, fit in float16.
        is_finite: whether neither results nor intermediate ones contain NaN or an infinity.
        fits_int32: whether all integers fit in int32.
        maxima_finite: whether no max pool is minus infinity, and no softmax NaN.
        squares_fit: whether the sums of squares in standard deviations fit in float32.
        groups_finite: whether the operands of convolutions with groups are finite.
        sums_fit: whether sums of a hundred integers fit in int32.
        short_integers: whether float32 holds the integers in sums and extrema.
        scores_fit: whether the scores of attention fit in their dtype.
        is_normal: whether no result is subnormal in float32.
    """

    calls: list[list[Value]]
    fits_float16: bool
    is_finite: bool
    fits_int32: bool
    maxima_finite: bool
    squares_fit: bool
    groups_finite: bool
    sums_fit: bool
    short_integers: bool
    scores_fit: bool
    is_normal: bool


def expected(
    program: Program,
    buffers: Mapping[str, Tensor],
    calls: list[Call],
    least: float = 0.0,
) -> Expected:
    """Runs a program in eager mode.

    Args:
        program: the program.
        buffers: its constants and its initial state.
        calls: state lasts from one to the next.
        least: relative error of each operation, if it is more than that of the dtypes.
    """
    attention = Attention()
    plain = eager_results(program, buffers, calls, wide=False, attention=attention)
    wide = eager_results(program, buffers, calls, wide=True)
    coarse = least
    noisy, modes = [], []
    for seed in range(_RUNS):
        with RandomRounding(seed, least) as mode:
            # a delegate rounds its inputs, too
            rounded = partial(mode.rounded, least=least) if least else torch.clone
            own = {name: rounded(tensor) for name, tensor in buffers.items()}
            given = [call._replace(inputs=[rounded(tensor) for tensor in call.inputs]) for call in calls]
            noisy.append(eager_results(program, own, given, wide=False))
        coarse = max(coarse, EPSILON32 if mode.is_coarse else 0.0)
        # sums of dynamic sizes are computed in float32
        if any(each.dynamic for each in program.inputs):
            coarse = max(coarse, EPSILON32)
        assert noisy[-1] is not None
        modes.append(mode)
    assert plain is not None
    results = []
    for c, call in enumerate(plain):
        values = []
        for i, value in enumerate(call):
            exact = wide[c][i] if wide is not None and i < len(wide[c]) else None
            values.append(_value(value, exact, [run[c][i] for run in noisy if run is not None], coarse))
        results.append(values)
    return Expected(
        results,
        all(mode.largest < 150 and mode.smallest > 1e-4 for mode in modes),
        all(mode.is_finite for mode in modes),
        all(mode.fits_int32 for mode in modes),
        all(mode.maxima_finite for mode in modes),
        all(mode.squares_fit for mode in modes),
        all(mode.groups_finite for mode in modes),
        all(mode.sums_fit for mode in modes),
        all(mode.short_integers for mode in modes),
        attention.scores_fit,
        all(mode.is_normal for mode in modes),
    )


def eager_results(
    program: Program,
    buffers: Mapping[str, Tensor],
    calls: list[Call],
    wide: bool,
    attention: Attention | None = None,
) -> list[list[Any]] | None:
    """Returns the results of each call and its inputs after it; None if eager mode rejects float64."""
    widen = _widened if wide else torch.clone
    own = {name: widen(tensor) for name, tensor in buffers.items()}
    results = []
    try:
        torch.set_default_dtype(torch.float64 if wide else torch.float32)
        with torch.no_grad(), warnings.catch_warnings(), attention or Attention():
            warnings.simplefilter("ignore")
            made = module(program, own, wide)
            for call in calls:
                inputs = [widen(tensor) for tensor in call.inputs]
                out = pytree.tree_leaves(getattr(made, call.method)(*inputs))
                results.append([copied(leaf) for leaf in [*out, *inputs]])
    except EAGER_ERRORS:
        if not wide:
            raise
        return None
    finally:
        torch.set_default_dtype(torch.float32)
    return results


def accepted(program: Program, buffers: Mapping[str, Tensor], calls: list[Call]) -> list[Call]:
    """Returns the calls that eager mode does not reject."""
    kept: list[Call] = []
    for call in calls:
        try:
            eager_results(program, buffers, [*kept, call], wide=False)
        except EAGER_ERRORS:
            continue
        kept.append(call)
    return kept


def copied(leaf: Any) -> Any:
    """Returns a copy of a tensor, or the scalar."""
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def _widened(value: Tensor) -> Tensor:
    return value.to(torch.float64, copy=True) if value.is_floating_point() else value.clone()


def _value(value: Any, exact: Any, noisy: list[Any], least: float) -> Value:
    if not isinstance(value, Tensor):
        return Value(value, None, None, None)
    if isinstance(exact, Tensor) and exact.shape == value.shape:
        exact = exact.to(value.dtype) if exact.is_floating_point() or exact.dtype == value.dtype else None
    else:
        exact = None
    if not value.is_floating_point():
        free = torch.zeros_like(value, dtype=torch.bool)
        for run in noisy:
            free |= run != value
        if exact is not None:
            free |= exact != value
        return Value(value, exact, torch.zeros(value.shape, dtype=torch.float64), free)
    plain = value.double()
    spread = torch.zeros_like(plain)
    free = torch.zeros_like(plain, dtype=torch.bool)
    for run in [*noisy, *([exact] if exact is not None else [])]:
        other = run.double()
        both = other.isfinite() & plain.isfinite()
        free |= ~both & (other != plain) & ~(other.isnan() & plain.isnan())
        spread = torch.maximum(spread, torch.where(both, (other - plain).abs(), 0.0))
    finfo = torch.finfo(value.dtype)
    size = torch.where(plain.isfinite(), plain.abs(), 0.0)
    error = max(finfo.eps, least)
    mean = float(spread.mean()) if spread.numel() else 0.0
    tolerance = 16 * spread + 4 * mean + 8 * error * size + 8 * finfo.smallest_normal + 1e-7 * error
    if least:
        # such kernels lose the digits that the mean and the values have in common
        tolerance = tolerance + (1e-4 if value.dtype is torch.float64 else 1e-6)
    return Value(value, exact, tolerance, free | (tolerance > 0.5 * size + 0.5))


def difference(result: Any, wanted: Value) -> str:
    """Returns how a result differs from that of eager mode; "" if it does not."""
    value = wanted.value
    if not isinstance(value, Tensor) or not isinstance(result, Tensor):
        same = repr(result) == repr(value) if not isinstance(value, Tensor) else False
        return "" if same else f"{result!r} for {value!r}"
    if result.shape != value.shape:
        return f"shape {tuple(result.shape)} for {tuple(value.shape)}"
    if value.numel() == 0:
        return ""
    if result.dtype != value.dtype:
        return f"{result.dtype} for {value.dtype}"
    if not result.is_contiguous():
        return f"strides {result.stride()}"
    assert wanted.tolerance is not None and wanted.free is not None
    if value.is_floating_point():
        a, e = result.double(), value.double()
        near = (a - e).abs() <= wanted.tolerance
        same = (a == e) | (a.isnan() & e.isnan()) | (near & a.isfinite() & e.isfinite())
    else:
        same = result == value
    bad = ~(same | wanted.free)
    if not bool(bad.any()):
        return ""
    position = tuple(int(each) for each in bad.nonzero()[0])
    where = f"{int(bad.sum())} of {bad.numel()} elements, at {list(position)}"
    return f"{where} {result[position].item()!r} for {value[position].item()!r}"
