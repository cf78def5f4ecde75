# SPDX-License-Identifier: Apache-2.0
"""Lowers the same exported programs by the peer and by us, and prints what each took as a Markdown table.

    bazel run //bench:compare

Processor time is taken in this one process, in turns, after both have lowered a small model once, so that no
import and no first call counts. Memory is taken in a process of its own for each row, as a peak never falls.
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
from measure import cpu_seconds, peak_memory
from torch.export import ExportedProgram

from delegatec.program.reader import read_program
from delegatec.program.reader_model import DelegateCall, KernelCall

LOWERINGS: Final[dict[str, Callable[[ExportedProgram, str, Path], object]]] = {
    "peer": peer.lower,
    "ours": ours.lower,
}
BACKENDS: Final = ("portable", "mps")
HEADER: Final = (
    "| model | backend | | CPU s | memory | delegates | operators left | planned | lower bound | .pte |\n"
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)
_MEBIBYTE: Final = 2**20


@dataclass(frozen=True)
class Row:
    """One lowering of one model.

    Attributes:
        seconds: processor time, median of the rounds.
        memory: by how many bytes the lowering raised the peak of resident memory.
        delegates: number of delegates.
        operators: number of calls of the runtime's own kernels.
        planned: bytes of planned memory, inputs and outputs included.
        size: bytes of the file.
    """

    seconds: float
    memory: int
    delegates: int
    operators: int
    planned: int
    size: int


def measure_row(tool: str, model: Path, backend: str, seconds: float, pte: Path, warm_up: Path) -> Row:
    """Completes a row by what is in the file, and by the memory that a process of its own takes."""
    command = [
        sys.executable,
        __file__,
        f"--warm-up={warm_up}",
        "--memory",
        tool,
        str(model),
        backend,
        str(pte),
    ]
    memory = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    (method,) = read_program(pte).methods
    steps = method.chains[0].instructions
    return Row(
        seconds=seconds,
        memory=memory,
        delegates=sum(isinstance(step, DelegateCall) for step in steps),
        operators=sum(isinstance(step, KernelCall) for step in steps),
        planned=sum(method.arena_bytes),
        size=pte.stat().st_size,
    )


def lowering_memory(tool: str, model: Path, backend: str, pte: Path, warm_up: Path) -> int:
    """Bytes by which lowering raises the peak of this process, which has lowered a small program before."""
    LOWERINGS[tool](torch.export.load(warm_up), backend, pte)
    exported = torch.export.load(model)
    before = peak_memory()
    LOWERINGS[tool](exported, backend, pte)
    return peak_memory() - before


def rounds(model: Path, backend: str, count: int, folder: Path) -> dict[str, float]:
    """Median processor time of each tool, in turns."""
    times: dict[str, list[float]] = {tool: [] for tool in LOWERINGS}
    for _ in range(count):
        for tool, lower in LOWERINGS.items():
            exported = torch.export.load(model)
            path = folder / f"{tool}.pte"
            times[tool].append(cpu_seconds(lambda: lower(exported, backend, path)))  # noqa: B023
    return {tool: statistics.median(values) for tool, values in times.items()}


def compare(name: str, model: Path, backend: str, count: int, warm_up: Path) -> list[str]:
    """The table rows of one model and one backend."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        seconds = rounds(model, backend, count, folder)
        rows = {
            tool: measure_row(tool, model, backend, seconds[tool], folder / f"{tool}.pte", warm_up)
            for tool in LOWERINGS
        }
        bound = ours.lower(torch.export.load(model), backend, folder / "bound.pte")
    bounds = {"peer": "", "ours": f"{bound:,}"}
    return [
        f"| {name} | {backend} | {tool} | {row.seconds:.2f} | {row.memory / _MEBIBYTE:.0f} | {row.delegates} "
        f"| {row.operators} | {row.planned:,} | {bounds[tool]} | {row.size:,} |"
        for tool, row in rows.items()
    ] + [f"| | | peer / ours | {rows['peer'].seconds / rows['ours'].seconds:.1f} | | | | | | |"]


def main() -> None:
    """Parses the command line and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FILE.pt2")
    parser.add_argument(
        "--warm-up",
        type=Path,
        required=True,
        metavar="FILE.pt2",
        help="a small program that is lowered first",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", nargs=4, metavar=("TOOL", "FILE.pt2", "BACKEND", "FILE.pte"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    peer.prepare()
    if arguments.memory:
        tool, model, backend, pte = arguments.memory
        print(lowering_memory(tool, Path(model), backend, Path(pte), arguments.warm_up))
        return
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as temporary:
            rounds(arguments.warm_up, backend, 1, Path(temporary))
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    print(f"{peer.version()}, {machine}, median of {arguments.rounds} rounds\n\n{HEADER}")
    for named in arguments.model:
        name, _, path = named.partition("=")
        for backend in BACKENDS:
            print(
                "\n".join(compare(name, Path(path), backend, arguments.rounds, arguments.warm_up)), flush=True
            )


if __name__ == "__main__":
    main()
