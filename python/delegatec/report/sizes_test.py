# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from delegatec.report.sizes import human_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9994, "9.99 kB"),
        (9996, "10.0 kB"),
        (99960, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (8_900_000, "8.90 MB"),
        (2 * 10**12, "2.00 TB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_three_digits(count: int, text: str) -> None:
    assert human_bytes(count) == text
