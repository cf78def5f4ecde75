# SPDX-License-Identifier: Apache-2.0
"""Human-readable sizes."""

from __future__ import annotations


def human_bytes(count: int) -> str:
    """Returns a size in decimal units with three digits: "8.90 MB"."""
    if count < 1000:
        return f"{count} B"
    value, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {units[0]}"
