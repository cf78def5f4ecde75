# SPDX-License-Identifier: Apache-2.0
"""The error of a quantized program: signal to noise of each output against the model in float."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

MOST_DB: Final = 200.0
"""The ratio of equal outputs; more than the precision of float64 is not a measurement."""


@dataclass(frozen=True)
class OutputAccuracy:
    """The error of one floating-point output, over all calls.

    Attributes:
        method: name of the method.
        output: path of the output in the result, such as "['logits']"; "" for a single tensor.
        snr_db: power of the output in float over that of the error, in dB, in steps of 0.01; `MOST_DB` if
            they are equal, -`MOST_DB` if only one has NaN or an infinity, or only the error is not zero.
        max_error: largest absolute difference, in four digits; of finite values.
        calls: number of calls.
        samples: the inputs: "module" for calls recorded from the module itself; "calibration" for
            calibration samples, and "example" for example inputs, of the exported program in float.
    """

    method: str
    output: str
    snr_db: float
    max_error: float
    calls: int
    samples: str


class ErrorSums:
    """Sums over the calls of an output."""

    def __init__(self) -> None:
        self._power = self._noise = self._largest = 0.0
        self._calls = 0
        self._is_lost = False

    def add(self, found: Tensor, expected: Tensor) -> None:
        """Adds an output of a call: two tensors of one shape."""
        a, e = found.detach().to(torch.float64), expected.detach().to(torch.float64)
        finite = a.isfinite() & e.isfinite()
        equal = (a == e) | (a.isnan() & e.isnan())
        self._is_lost |= bool((~finite & ~equal).any())
        error = (a - e)[finite]
        self._power += float(e[finite].square().sum())
        self._noise += float(error.square().sum())
        self._largest = max(self._largest, float(error.abs().max()) if error.numel() else 0.0)
        self._calls += 1

    def accuracy(self, method: str, output: str, samples: str) -> OutputAccuracy:
        """Returns the figures, with the names of their outputs."""
        return OutputAccuracy(
            method, output, round(self._decibels(), 2), float(f"{self._largest:.4g}"), self._calls, samples
        )

    @property
    def ratio(self) -> float:
        """Power of the error over that of the output in float; infinite where `snr_db` is -`MOST_DB`."""
        if self._is_lost or (self._noise > 0 and not self._power > 0):
            return math.inf
        return self._noise / self._power if self._noise else 0.0

    def _decibels(self) -> float:
        ratio = self.ratio
        if math.isinf(ratio):
            return -MOST_DB
        return max(-MOST_DB, min(MOST_DB, -10 * math.log10(ratio))) if ratio else MOST_DB


def accuracy_text(accuracy: OutputAccuracy) -> str:
    """Returns the figures in a line, without the method."""
    ratio = "equal" if accuracy.snr_db == MOST_DB else f"{accuracy.snr_db:.1f} dB"
    calls = f"{accuracy.calls} call{'s' * (accuracy.calls != 1)}"
    output = accuracy.output or "the output"
    return f"{output}: {ratio}, largest error {accuracy.max_error:g}, {calls} ({accuracy.samples})"
