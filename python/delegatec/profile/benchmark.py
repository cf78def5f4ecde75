# SPDX-License-Identifier: Apache-2.0
"""The figures of a benchmark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from delegatec.profile.attribution import input_types
from delegatec.profile.ratio import Ratio, describe
from delegatec.profile.recording import Times
from delegatec.program.reader.model import Method

CLOCKS: Final = ("wall", "cpu")
_PERCENTILES: Final = (50, 90, 99)


@dataclass(frozen=True)
class Benchmark:
    """What runs of a method took, in nanoseconds.

    Attributes:
        method: its name.
        inputs: types of its inputs, such as "float32[1, 8]".
        clock: "wall", or "cpu" for the time that threads ran on CPUs.
        rounds: the durations of runs: those of each process, without its first.
        first: the first run of a process, which prepares memory: the median.
        load: time that loading the program takes, by the wall: the median.
        peak_bytes: the most memory of a process.
        item: what a call computes, such as "images".
        items_per_call: how many of them.
    """

    method: str
    inputs: tuple[str, ...]
    clock: str
    rounds: tuple[tuple[int, ...], ...]
    first: float
    load: float
    peak_bytes: int
    item: str = "calls"
    items_per_call: float = 1.0

    @property
    def medians(self) -> list[float]:
        """The median of the runs of each process."""
        return [median(runs) for runs in self.rounds]

    def figures(self) -> dict[str, float | int]:
        """Returns the percentiles, as "p50" and so on, the number of runs, and "items_per_second"."""
        durations = sorted(each for runs in self.rounds for each in runs)
        found: dict[str, float | int] = {
            f"p{percent}": percentile(durations, percent) for percent in _PERCENTILES
        }
        seconds = max(1, found["p50"]) / 1e9
        return {"runs": len(durations), **found, "items_per_second": self.items_per_call / seconds}


def benchmark_of(
    times: Sequence[Times], method: Method, clock: str, item: str = "calls", items_per_call: float = 1.0
) -> Benchmark:
    """Returns the figures of processes that each run a method at least twice.

    Args:
        times: of each process.
        method: the method.
        clock: one of `CLOCKS`.
        item: what a call computes.
        items_per_call: how many of them.
    """
    durations = [each.runs if clock == "wall" else each.cpu_runs for each in times]
    return Benchmark(
        method=method.name,
        inputs=input_types(method),
        clock=clock,
        rounds=tuple(runs[1:] for runs in durations),
        first=median(runs[0] for runs in durations),
        load=median(each.load for each in times),
        peak_bytes=max(each.peak_bytes for each in times),
        item=item,
        items_per_call=items_per_call,
    )


def format_benchmark(
    benchmark: Benchmark, baseline: Benchmark | None = None, ratio: Ratio | None = None
) -> str:
    """Returns the figures as text, with a final newline.

    Args:
        benchmark: of the program.
        baseline: of the baseline, if there is one.
        ratio: of the two.
    """
    columns = [_column(each) for each in (benchmark, baseline) if each is not None]
    runs = benchmark.figures()["runs"]
    clock = ", of time on CPUs" if benchmark.clock == "cpu" else ""
    each = "" if len(benchmark.rounds) == 1 else f" of each of {len(benchmark.rounds)} processes"
    lines = [f"method {benchmark.method}: {runs} runs after the first{each}{clock}", ""]
    if baseline is not None:
        lines.append(f"  {'program':>13}  {'baseline':>13}")
    for label in columns[0]:
        lines.append("".join(f"  {column.get(label, ''):>13}" for column in columns) + f"  {label}")
    if ratio is not None:
        lines += ["", f"ratio: {describe(ratio)}"]
    return "\n".join(lines) + "\n"


def percentile(values: Sequence[int], percent: int) -> int:
    """Returns the least of sorted values that is not below a share of all, in percent."""
    return values[math.ceil(percent * len(values) / 100) - 1]


def _column(benchmark: Benchmark) -> dict[str, str]:
    figures = benchmark.figures()
    times = {
        "median": figures["p50"],
        "90 %": figures["p90"],
        "99 %": figures["p99"],
        "first run": benchmark.first,
        "load": benchmark.load,
    }
    return {
        **{label: f"{time / 1e6:.3f} ms" for label, time in times.items()},
        f"{benchmark.item} a second": f"{figures['items_per_second']:.1f}   ",
        "peak memory of the process": f"{benchmark.peak_bytes / 1e6:.1f} MB",
    }
