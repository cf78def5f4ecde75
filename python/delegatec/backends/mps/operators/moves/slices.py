# SPDX-License-Identifier: Apache-2.0
"""Bounds of slices, with ATen's semantics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def slice_bounds(bound: Mapping[str, Any], size: int) -> tuple[int, int, int]:
    """Returns start, end and step of a slice: in range, not negative.

    Args:
        bound: arguments `start`, `end` and `step`; the first two may be None, negative or out of range.
        size: size of the dimension.
    """
    start, end, _ = slice(bound["start"], bound["end"]).indices(size)
    return start, max(start, end), bound["step"]
