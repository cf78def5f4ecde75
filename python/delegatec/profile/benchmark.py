# SPDX-License-Identifier: Apache-2.0
"""The figures of a benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from delegatec.profile.recording import Times

_SLOWEST_TENTH: Final = 0.9


def benchmark_json(method: str, times: Times) -> str:
    """Returns the figures as JSON: times in nanoseconds."""
    return json.dumps(_figures(method, times), indent=1) + "\n"


def format_benchmark(method: str, times: Times) -> str:
    """Returns the figures as text, with a final newline.

    Args:
        method: the method that ran.
        times: of a first run, which prepares memory, and of at least one more.
    """
    figures = _figures(method, times)
    lines = [f"method {method}: {len(figures['runs'])} runs after the first", ""]
    for label, name in (("median", "median"), ("90 %", "p90"), ("first run", "first"), ("load", "load")):
        lines.append(f"  {figures[name] / 1e6:>10.3f} ms  {label}")
    lines.append(f"  {times.peak_bytes / 1e6:>10.1f} MB  peak memory of the process")
    return "\n".join(lines) + "\n"


def _figures(method: str, times: Times) -> dict[str, Any]:
    first, *runs = times.runs
    return {
        "method": method,
        "median": median(runs),
        "p90": _percentile(runs, _SLOWEST_TENTH),
        "first": first,
        "load": times.load,
        "peak_bytes": times.peak_bytes,
        "runs": runs,
    }


def _percentile(values: Sequence[int], share: float) -> int:
    """Returns the least value that is not below a share of all."""
    return sorted(values)[math.ceil(share * len(values)) - 1]
