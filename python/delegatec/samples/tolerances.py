# SPDX-License-Identifier: Apache-2.0
"""Tolerances of comparisons with eager mode, by dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch


@dataclass(frozen=True)
class Tolerance:
    """How far an element may be from eager mode: |difference| <= absolute + relative * |value|."""

    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"{self.absolute:g} + {self.relative:g} * |value|"


EXACT: Final = Tolerance(0.0, 0.0)

# Two to ten units in the last place (ULP) near 1; float32 has room for one sum in another order.
DEFAULTS: Final[Mapping[torch.dtype, Tolerance]] = {
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.float32: Tolerance(1e-5, 1e-5),
    torch.float16: Tolerance(2e-3, 2e-3),
    torch.bfloat16: Tolerance(1.6e-2, 1.6e-2),
}
# Names of dtypes that a tolerance may be given for.
DTYPES: Final[Mapping[str, torch.dtype]] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (*DEFAULTS, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
}


@dataclass(frozen=True)
class Tolerances:
    """The tolerance of each dtype.

    Attributes:
        atol: absolute tolerance of all floating-point dtypes; None for `DEFAULTS`.
        rtol: relative tolerance likewise.
        of_dtype: tolerances of single dtypes, which have precedence. Integers are exact without one.
        depth: number of sums in a row (`delegatec.samples.depth`). Their rounding errors are independent, so
            that they grow with its square root, and so do `DEFAULTS`.
    """

    atol: float | None = None
    rtol: float | None = None
    of_dtype: Mapping[torch.dtype, Tolerance] = field(default_factory=dict)
    depth: int = 1

    def of(self, dtype: torch.dtype) -> Tolerance:
        """Returns the tolerance of a dtype."""
        if dtype in self.of_dtype:
            return self.of_dtype[dtype]
        if not (dtype.is_floating_point or dtype.is_complex):
            return EXACT
        default, growth = DEFAULTS.get(dtype, DEFAULTS[torch.float32]), math.sqrt(max(1, self.depth))
        return Tolerance(
            default.absolute * growth if self.atol is None else self.atol,
            default.relative * growth if self.rtol is None else self.rtol,
        )


def parse_tolerance(text: str) -> tuple[torch.dtype, Tolerance]:
    """Parses `DTYPE=ATOL`, or `DTYPE=ATOL,RTOL`.

    Raises:
        ValueError: it has another form.
    """
    name, _, values = text.partition("=")
    absolute, _, relative = values.partition(",")
    if name not in DTYPES:
        raise ValueError(f"{text}: unknown dtype {name!r}; expected one of {', '.join(DTYPES)}")
    return DTYPES[name], Tolerance(parse_float(absolute), parse_float(relative or "0"))


def parse_float(text: str) -> float:
    """Parses a tolerance. No difference exceeds NaN or infinity: a test with either could not fail.

    Raises:
        ValueError: it is not a finite number of at least 0.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{text}: expected a finite number of at least 0")
    return value
