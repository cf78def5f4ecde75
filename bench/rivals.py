# SPDX-License-Identifier: Apache-2.0
"""Runs the same networks by ONNX Runtime, LiteRT, the peer and us, on one thread, in float32 and int8.

    bazel run //bench:rivals -- --files=/tmp/rivals --write

Each tool makes its files in separate processes. For each network, one process alternates between eager mode
and the files of all tools. `--files=FOLDER` keeps files and results, and takes from it what is there.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import page
from rivals_models import NETWORKS
from rivals_tools import OURS, PRECISIONS, TOOLS
from rivals_trial import EAGER, Run, file_of, record_of
from tables import table

_TRIAL: Final = "rivals_trial.py"
_OTHERS: Final = [name for name in TOOLS if name != OURS]
_COLUMNS: Final = [*_OTHERS, OURS]
_HEADINGS: Final = (
    *("network", "eager, ms", *(f"{name}, ms" for name in _COLUMNS)),
    *("fastest other / ours", *(f"{name}, error" for name in _COLUMNS)),
)


@dataclass(frozen=True)
class Result:
    """A network in one precision.

    Attributes:
        runs: tool, or eager mode -> a call; without tools that fail.
        failures: tool -> why it has no file.
    """

    runs: Mapping[str, Run]
    failures: Mapping[str, str]

    @property
    def ratio(self) -> float | None:
        """The time of the fastest other tool divided by ours; None if either is missing."""
        others = [self.runs[name].seconds for name in _OTHERS if name in self.runs]
        return min(others) / self.runs[OURS].seconds if others and OURS in self.runs else None


class Files:
    """The files of the tools, in a folder.

    Args:
        folder: may have some from an earlier run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, tool: str, precision: str, names: Sequence[str]) -> None:
        """Makes the files that are missing. A process that dies has recorded what it died of."""
        while missing := [name for name in names if not self._record(tool, precision, name).exists()]:
            try:
                page.child(_TRIAL, "convert", self._folder, tool, precision, *missing)
            except subprocess.CalledProcessError:
                if not self._record(tool, precision, missing[0]).exists():
                    raise

    def measure(self, precision: str, name: str, seconds: float, tools: Sequence[str]) -> Result:
        """Runs the files of a network that are there; what an earlier run has measured is not run again."""
        found = {tool: self._record(tool, precision, name) for tool in tools}
        records = {tool: json.loads(path.read_text()) for tool, path in found.items() if path.exists()}
        failures = {tool: str(record["failure"]) for tool, record in records.items() if record["failure"]}
        kept = file_of(self._folder, OURS, precision, name).with_suffix(".runs.json")
        if not kept.exists():
            files = [
                f"{tool}={file_of(self._folder, tool, precision, name)}"
                for tool in records
                if tool not in failures
            ]
            kept.write_text(page.child(_TRIAL, "run", name, str(seconds), *files))
        runs = json.loads(kept.read_text())
        return Result({each: Run(**run) for each, run in runs.items()}, failures)

    def made(self, precision: str, names: Sequence[str]) -> list[str]:
        """Returns the networks that our compiler has made a file of."""
        return [name for name in names if self._record(OURS, precision, name).exists()]

    def versions(self) -> list[str]:
        """Returns the versions of the tools of all files."""
        records = [json.loads(path.read_text()) for path in self._folder.glob("*.record.json")]
        return [part for record in records for part in record["versions"].split(", ")]

    def _record(self, tool: str, precision: str, name: str) -> Path:
        return record_of(file_of(self._folder, tool, precision, name))


def rivals_tables(results: Mapping[str, Mapping[str, Result]]) -> str:
    """Returns a table for each precision, with the geometric mean of ratios.

    Args:
        results: precision -> network -> result.
    """
    parts = []
    for precision, found in results.items():
        rows = [_row(name, result) for name, result in found.items()]
        ratios = [result.ratio for result in found.values() if result.ratio is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            blank = [""] * (1 + len(_COLUMNS))
            rows.append(["geometric mean", *blank, f"{mean:.2f} x", *([""] * len(_COLUMNS))])
        parts += [f"### {precision}", table(_HEADINGS, 1, rows)]
    return "\n\n".join(parts)


def _row(name: str, result: Result) -> list[str]:
    times = [
        f"{result.runs[tool].seconds * 1e3:.2f}" if tool in result.runs else result.failures.get(tool, "")
        for tool in (EAGER, *_COLUMNS)
    ]
    errors = [f"{result.runs[tool].error:.0e}" if tool in result.runs else "" for tool in _COLUMNS]
    ratio = "" if result.ratio is None else f"{result.ratio:.2f} x"
    return [name, *times, ratio, *errors]


def main() -> None:
    """Makes the files, runs them, and prints or writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", action="append", choices=NETWORKS, help="all of them by default")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="all of them by default")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="all of them by default")
    parser.add_argument("--seconds", type=float, default=20, help="of rounds for each network and precision")
    parser.add_argument("--files", type=Path, help="folder of files and results, kept")
    parser.add_argument(
        "--kept", action="store_true", help="run the files that --files has, and make no others"
    )
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.kept and not arguments.files:
        parser.error("--kept needs --files")
    names, tools = arguments.network or [*NETWORKS], arguments.tool or [*TOOLS]
    results: dict[str, dict[str, Result]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        files = Files(arguments.files or Path(temporary))
        for precision in arguments.precision or PRECISIONS:
            for tool in () if arguments.kept else tools:
                files.make(tool, precision, names)
            results[precision] = {}
            for name in files.made(precision, names):
                results[precision][name] = result = files.measure(precision, name, arguments.seconds, tools)
                said = ", ".join(f"{each} {run.seconds * 1e3:.2f} ms" for each, run in result.runs.items())
                print(f"{name}, {precision}: {said}", file=sys.stderr, flush=True)
        text = f"{page.machine(files.versions())}.\n\n{rivals_tables(results)}\n"
    print(text)
    if arguments.write:
        page.write("rivals", text)


if __name__ == "__main__":
    main()
