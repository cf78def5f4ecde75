# SPDX-License-Identifier: Apache-2.0
"""Lowers the same exported programs for Vulkan by the peer and by us, and reports memory and transitions.

    bazel run //bench:vulkan -- --write

The time is that of the first lowering in a process that has lowered a small model before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Final

import page
from compare import trials
from tables import Trials, table
from trial import TOOLS, Outcome
from vulkan_models import VULKAN_MODELS

_BACKEND: Final = "vulkan fp32"

# Heading -> value.
_COLUMNS: Final[dict[str, Callable[[Outcome], float]]] = {
    "delegates": lambda o: o.delegates,
    "operators left": lambda o: o.operators,
    "calls": lambda o: o.device["calls"],
    "transitions": lambda o: o.device["transitions"],
    "bytes moved": lambda o: o.device["moved"],
    "device memory, bytes": lambda o: o.device["memory"],
    "file bytes": lambda o: o.file,
    "CPU s": lambda o: o.first,
}


def vulkan_table(results: Trials) -> str:
    """Returns a table with a row per model and tool, and the sums of the models that both lower."""
    rows = [
        _row(name, tool, outcome) for (name, _), pair in results.items() for tool, outcome in pair.items()
    ]
    both = [pair for pair in results.values() if not any(outcome.error for outcome in pair.values())]
    for tool in TOOLS:
        sums = [sum(column(pair[tool]) for pair in both) for column in _COLUMNS.values()]
        rows.append([f"all {len(both)} that both lower", tool, *_cells(sums)])
    return table(("model", "", *_COLUMNS), 2, rows)


def _row(name: str, tool: str, outcome: Outcome) -> list[str]:
    if outcome.error:
        return [name, tool, f"fails: {outcome.error.partition(':')[0]}", *([""] * (len(_COLUMNS) - 1))]
    return [name, tool, *_cells([column(outcome) for column in _COLUMNS.values()])]


def _cells(values: list[float]) -> list[str]:
    return [f"{value:,}" if isinstance(value, int) else f"{value:.2f}" for value in values]


def main() -> None:
    """Runs the trials, and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", choices=VULKAN_MODELS, help="all of them by default")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    results: Trials = {}
    builders = {name: VULKAN_MODELS[name] for name in arguments.model or VULKAN_MODELS}
    for name, backend, tool, outcome in trials(list(builders), [_BACKEND], 0):
        results.setdefault((name, backend), {})[tool] = outcome
        print(f"{name}, {tool}: {outcome.error or f'{outcome.first:.2f} s'}", file=sys.stderr, flush=True)
    machine = page.machine(
        outcome.versions for pair in results.values() for outcome in pair.values() if outcome.versions
    )
    text = f"{machine}; one run.\n\n{vulkan_table(results)}\n"
    print(text)
    if arguments.write:
        page.write("vulkan", text)


if __name__ == "__main__":
    main()
