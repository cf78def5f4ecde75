# SPDX-License-Identifier: Apache-2.0
"""Runs programs of the peer and ours in the stock runtime, and the model in eager mode, and reports the cost.

    bazel run //bench:inference -- --rounds=3 --write

Both lower the same exported program for the runtime's own kernels. One process alternates between eager mode
and both programs, on one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import models
import ours
import page
import peer
from inference_trial import EAGER, Run
from tables import table

Runs = dict[str, dict[str, Run]]

_HEADINGS: Final = (
    *("model", "peer, instructions", "ours, instructions", "peer, bytes", "ours, bytes"),
    *("peer, s", "ours, s", "eager, s", "peer / ours", "ours / eager", "peer's error", "our error"),
)


def runs(names: list[str], rounds: int) -> Iterator[tuple[str, dict[str, Run]]]:
    """Runs each model in a separate process."""
    with tempfile.TemporaryDirectory() as temporary:
        model = Path(temporary) / "model.pt2"
        for name in names:
            page.child("trial.py", "export", name, model)
            function = models.MODELS[name].__name__
            line = page.child("inference_trial.py", function, model, f"--rounds={rounds}")
            yield name, {each: Run(**run) for each, run in json.loads(line).items()}


def inference_table(results: Mapping[str, Mapping[str, Run]]) -> str:
    """Returns a table with one row per model, and their sum."""
    rows = [_row(name, run[peer.NAME], run[ours.NAME], run[EAGER]) for name, run in results.items()]
    sums = [sum(run[each].seconds for run in results.values()) for each in (peer.NAME, ours.NAME, EAGER)]
    rows.append(["all", *[""] * 4, *_times(*sums), "", ""])
    return table(_HEADINGS, 1, rows)


def _row(name: str, theirs: Run, own: Run, eager: Run) -> list[str]:
    return [
        name,
        *(f"{each.instructions:,}" for each in (theirs, own)),
        *(f"{each.planned:,}" for each in (theirs, own)),
        *_times(theirs.seconds, own.seconds, eager.seconds),
        *(f"{each.difference:.0e}" for each in (theirs, own)),
    ]


def _times(theirs: float, own: float, eager: float) -> list[str]:
    return [
        *(f"{each:.3f}" for each in (theirs, own, eager)),
        f"{theirs / own:.1f} x",
        f"{own / eager:.2f} x",
    ]


def main() -> None:
    """Runs the models, and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", choices=models.MODELS, help="all of them by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    results: Runs = {}
    for name, run in runs(arguments.model or list(models.MODELS), arguments.rounds):
        results[name] = run
        said = ", ".join(f"{each} {found.seconds:.3f} s" for each, found in run.items())
        print(f"{name}: {said}", file=sys.stderr, flush=True)
    machine = page.machine((peer.version(), ours.version()))
    text = f"{machine}; minimum of {arguments.rounds} rounds.\n\n{inference_table(results)}\n"
    print(text)
    if arguments.write:
        page.write("inference", text)


if __name__ == "__main__":
    main()
