# SPDX-License-Identifier: Apache-2.0
"""Lowers the same exported programs by the peer and by us, and reports the cost as tables and a plot.

    bazel run //bench:compare -- --rounds=3 --write

Each tool lowers each pair of model and backend in a separate process that has lowered a small model before,
so that imports do not count, as in a warm worker.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import models
import page
from plot import plot
from tables import Trials, tables
from trial import BACKENDS, TOOLS, Outcome

_PLOT: Final = Path("docs/benchmarks.svg")
_TRIAL: Final = "trial.py"


def trials(names: list[str], backends: list[str], rounds: int) -> Iterator[tuple[str, str, str, Outcome]]:
    """Yields the outcome of every tool for every pair: (model, backend, tool, outcome)."""
    with tempfile.TemporaryDirectory() as temporary:
        warm_up = Path(temporary) / "small.pt2"
        page.child(_TRIAL, "export", "small", warm_up)
        for name in names:
            model = warm_up if name == "small" else Path(temporary) / "model.pt2"
            if model is not warm_up:
                page.child(_TRIAL, "export", name, model)
            for backend in backends:
                for tool in TOOLS:
                    options = (f"--warm-up={warm_up}", f"--rounds={rounds}")
                    yield (
                        name,
                        backend,
                        tool,
                        Outcome(**json.loads(page.child(_TRIAL, tool, backend, model, *options))),
                    )


def write(text: str, picture: str) -> None:
    """Writes the tables and the plot to the source tree."""
    page.write("tables", text)
    (page.root() / _PLOT).write_text(picture)


def main() -> None:
    """Runs the trials, and prints or writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", choices=models.MODELS, help="all of them by default")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="all of them by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and the plot")
    arguments = parser.parse_args()
    results: Trials = {}
    for name, backend, tool, outcome in trials(
        arguments.model or list(models.MODELS), arguments.backend or list(BACKENDS), arguments.rounds
    ):
        results.setdefault((name, backend), {})[tool] = outcome
        said = outcome.error or f"{outcome.lowering:.2f} s, {outcome.memory / 2**20:.0f} MiB"
        print(f"{name}, {backend}, {tool}: {said}", file=sys.stderr, flush=True)
    machine = page.machine(
        outcome.versions for pair in results.values() for outcome in pair.values() if outcome.versions
    )
    text = f"{machine}; median of {arguments.rounds} rounds.\n\n{tables(results)}"
    print(text)
    if arguments.write:
        write(f"![CPU time and memory of both]({_PLOT.name})\n\n{text}", plot(results))


if __name__ == "__main__":
    main()
