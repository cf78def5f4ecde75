# SPDX-License-Identifier: Apache-2.0
"""Signal to noise over several calls, and outputs without one."""

from __future__ import annotations

import pytest
import torch

from delegatec.samples.accuracy import MOST_DB, ErrorSums, OutputAccuracy, accuracy_text


def _of(*pairs: tuple[list[float], list[float]]) -> OutputAccuracy:
    sums = ErrorSums()
    for found, expected in pairs:
        sums.add(torch.tensor(found), torch.tensor(expected))
    return sums.accuracy("forward", "['y']", "module")


def test_errors_of_all_calls_count() -> None:
    """Powers are summed: 100 + 0 over 1 + 0, not the mean of two ratios."""
    found = _of(([11.0], [10.0]), ([0.0], [0.0]))
    assert (found.snr_db, found.max_error, found.calls) == (20.0, 1.0, 2)
    assert accuracy_text(found) == "['y']: 20.0 dB, largest error 1, 2 calls (module)"


@pytest.mark.parametrize(
    ("found", "expected", "ratio", "largest"),
    [
        ([1.0, torch.inf, torch.nan], [1.0, torch.inf, torch.nan], MOST_DB, 0.0),
        ([1.0, torch.nan], [1.0, 2.0], -MOST_DB, 0.0),
        ([1.0, torch.inf], [1.0, -torch.inf], -MOST_DB, 0.0),
        ([1.0, 0.0], [0.0, 0.0], -MOST_DB, 1.0),
        ([0.0, -torch.inf], [1.0, -torch.inf], 0.0, 1.0),
        ([], [], MOST_DB, 0.0),
    ],
)
def test_nonfinite_values(found: list[float], expected: list[float], ratio: float, largest: float) -> None:
    accuracy = _of((found, expected))
    assert (accuracy.snr_db, accuracy.max_error) == (ratio, largest)
