# SPDX-License-Identifier: Apache-2.0
"""Lowers the same exported programs by the peer and by us, and prints what each took as a Markdown table.

    bazel run //bench:compare

Processor time is taken in this one process, in turns, after both have lowered a small program, so that no
import counts. The time of a first call, and memory, are taken in a process of its own for each row, after the
same small program: that is what a request to a warm worker takes.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ours
import peer
import torch
from measure import added_memory, cpu_seconds
from torch.export import ExportedProgram

from delegatec.program.reader import read_program
from delegatec.program.reader.model import DelegateCall, KernelCall

LOWERINGS: Final[dict[str, Callable[[ExportedProgram, str, Path], object]]] = {
    "peer": peer.lower,
    "ours": ours.lower,
}
BACKENDS: Final = ("portable", "mps")
COLUMNS: Final = (
    "model, backend",
    "",
    "CPU s",
    "CPU s, first",
    "memory, MiB",
    "delegates",
    "operators left",
    "planned bytes",
    "lower bound",
    ".pte bytes",
)
_MEBIBYTE: Final = 2**20


@dataclass(frozen=True)
class Cost:
    """What one lowering took.

    Attributes:
        repeated: seconds of processor time, median of the rounds in one process.
        first: seconds of processor time of the first one in a process.
        memory: by how many bytes resident memory grew at most.
    """

    repeated: float
    first: float
    memory: int


def rounds(model: Path, backend: str, count: int, folder: Path) -> dict[str, float]:
    """Median processor time of each tool, in turns."""
    times: dict[str, list[float]] = {tool: [] for tool in LOWERINGS}
    for _ in range(count):
        for tool in LOWERINGS:
            times[tool].append(_seconds(tool, model, backend, folder))
    return {tool: statistics.median(values) for tool, values in times.items()}


def _seconds(tool: str, model: Path, backend: str, folder: Path) -> float:
    exported = torch.export.load(model)
    return cpu_seconds(lambda: LOWERINGS[tool](exported, backend, folder / f"{tool}.pte"))


def _memory(tool: str, model: Path, backend: str, folder: Path) -> int:
    exported = torch.export.load(model)
    return added_memory(lambda: LOWERINGS[tool](exported, backend, folder / f"{tool}.pte"))


MEASURES: Final[dict[str, Callable[[str, Path, str, Path], float]]] = {"seconds": _seconds, "memory": _memory}


def in_process_of_its_own(measure: str, tool: str, model: Path, backend: str, warm_up: Path) -> float:
    """One of `MEASURES`, in a process that has only lowered the small program before."""
    command = [sys.executable, __file__, f"--warm-up={warm_up}"]
    command += ["--measure", measure, tool, str(model), backend]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def compare(name: str, model: Path, backend: str, count: int, warm_up: Path) -> list[str]:
    """The table rows of one model and one backend."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        repeated = rounds(model, backend, count, folder)
        costs = {
            tool: Cost(
                repeated=repeated[tool],
                first=in_process_of_its_own("seconds", tool, model, backend, warm_up),
                memory=int(in_process_of_its_own("memory", tool, model, backend, warm_up)),
            )
            for tool in LOWERINGS
        }
        bounds = {"ours": f"{ours.lower(torch.export.load(model), backend, folder / 'bound.pte'):,}"}
        rows = [
            (f"{name}, {backend}", tool, *_cells(cost, folder / f"{tool}.pte", bounds.get(tool, "")))
            for tool, cost in costs.items()
        ]
    theirs, our = costs["peer"], costs["ours"]
    factors = (f"{theirs.repeated / our.repeated:.0f} x", f"{theirs.first / our.first:.0f} x")
    rows.append(("", "peer / ours", *factors, "", "", "", "", "", ""))
    return [f"| {' | '.join(row)} |" for row in rows]


def _cells(cost: Cost, pte: Path, bound: str) -> tuple[str, ...]:
    (method,) = read_program(pte).methods
    steps = method.chains[0].instructions
    return (
        f"{cost.repeated:.2f}",
        f"{cost.first:.2f}",
        f"{cost.memory / _MEBIBYTE:.0f}",
        f"{sum(isinstance(step, DelegateCall) for step in steps)}",
        f"{sum(isinstance(step, KernelCall) for step in steps)}",
        f"{sum(method.arena_bytes):,}",
        bound,
        f"{pte.stat().st_size:,}",
    )


def main() -> None:
    """Parses the command line and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FILE.pt2")
    parser.add_argument("--warm-up", type=Path, required=True, metavar="FILE.pt2", help="a small program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=4, metavar=("MEASURE", "TOOL", "FILE.pt2", "BACKEND"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    peer.prepare()
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.measure:
            measure, tool, model, backend = arguments.measure
            _seconds(tool, arguments.warm_up, backend, Path(temporary))
            print(MEASURES[measure](tool, Path(model), backend, Path(temporary)))
            return
        for backend in BACKENDS:
            rounds(arguments.warm_up, backend, 1, Path(temporary))
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    print(f"{peer.version()}, {machine}, median of {arguments.rounds} rounds\n")
    print(f"| {' | '.join(COLUMNS)} |\n| --- | --- |{' ---: |' * (len(COLUMNS) - 2)}")
    for named in arguments.model:
        name, _, path = named.partition("=")
        for backend in BACKENDS:
            rows = compare(name, Path(path), backend, arguments.rounds, arguments.warm_up)
            print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
