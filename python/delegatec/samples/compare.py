# SPDX-License-Identifier: Apache-2.0
"""Comparison of tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Comparison:
    """The difference of `actual` and `expected`, two tensors of one shape and dtype.

    Attributes:
        passed: every element is within tolerance.
        max_abs: largest absolute difference; inf if only one side is finite.
        max_rel: largest difference relative to the expected element, if not zero; inf likewise.
        cosine: cosine similarity; 1 for two zero vectors, NaN if only one side is finite.
        snr_db: power of `expected` over that of the difference, in dB; inf if they are equal.
        worst_index: the element that exceeds its tolerance most; None for empty tensors.
        worst_actual: its value.
        worst_expected: its expected value.
        vacuous: whether zeros would pass, too: the tolerance is too large to be meaningful.
        failures: number of elements out of tolerance.
        elements: number of elements.
    """

    passed: bool
    max_abs: float
    max_rel: float
    cosine: float
    snr_db: float
    worst_index: tuple[int, ...] | None
    worst_actual: float
    worst_expected: float
    vacuous: bool
    failures: int
    elements: int


def compare(actual: torch.Tensor, expected: torch.Tensor, *, atol: float, rtol: float) -> Comparison:
    """Compares element by element: |actual - expected| <= atol + rtol * |expected|.

    NaN equals NaN, and infinities equal themselves.

    Args:
        actual: the computed tensor.
        expected: the expected tensor, of the same shape and dtype.
        atol: absolute tolerance, in the unit of the tensors.
        rtol: relative tolerance.
    """
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    if expected.numel() == 0:
        return Comparison(True, 0.0, 0.0, 1.0, math.inf, None, 0.0, 0.0, False, 0, 0)
    a = actual.detach().flatten().to(torch.float64)
    e = expected.detach().flatten().to(torch.float64)
    equal = (actual == expected).flatten() | (a.isnan() & e.isnan())  # exact, also for integers beyond 2**53
    difference = torch.where(equal, 0.0, (a - e).abs()).nan_to_num(nan=math.inf, posinf=math.inf)
    allowed = torch.where(e.isfinite(), atol + rtol * e.abs(), 0.0)
    excess = difference - allowed
    bad = ~equal & (excess > 0)
    bad |= ~equal & (allowed == 0)
    worst = int(torch.where(equal, -math.inf, excess).argmax())
    finite = a.isfinite() & e.isfinite()
    lost = bool((~equal & ~finite).any())  # NaN or an infinity on one side only
    signal, error = e[finite], (a - e)[finite]
    nonzero = finite & (e != 0)
    relative = difference[nonzero] / e[nonzero].abs()
    noise, power = float(error.square().sum()), float(signal.square().sum())
    return Comparison(
        passed=not bool(bad.any()),
        max_abs=float(difference.max()),
        max_rel=math.inf if lost else float(relative.max()) if relative.numel() else 0.0,
        cosine=math.nan if lost else _cosine(a[finite], signal),
        snr_db=-math.inf if lost else _decibels(power, noise),
        worst_index=tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), expected.shape)),
        worst_actual=float(a[worst]),
        worst_expected=float(e[worst]),
        vacuous=bool((e.abs() <= allowed).all()) and power > 0,
        failures=int(bad.sum()),
        elements=expected.numel(),
    )


def _decibels(power: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(power / noise) if power > 0 else -math.inf


def _cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    norms = float(a.norm()) * float(b.norm())
    if norms == 0:
        return 1.0 if torch.equal(a, b) else 0.0
    return max(-1.0, min(1.0, float(a @ b) / norms))
