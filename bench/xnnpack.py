# SPDX-License-Identifier: Apache-2.0
"""Lowers the same exported programs for XNNPACK by the peer and by us, and runs them and eager mode.

    bazel run //bench:xnnpack -- --rounds=8 --write

Each tool lowers each model in a separate process that has lowered a small model before. One process
alternates between eager mode and both programs in the stock runtime, on one thread. The peer needs minutes
for some models: `--programs=FOLDER` keeps the programs and what they cost, and takes from it what is there.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ours
import page
import peer
from tables import table
from trial import Outcome
from xnnpack_models import FLOAT, QUANTIZED, XNNPACK_MODELS
from xnnpack_trial import EAGER, SMALL, Run

_TRIAL: Final = "xnnpack_trial.py"
_LOAD: Final = "xnnpack_load.py"
_TOOLS: Final = (peer.NAME, ours.NAME)
_MEBIBYTE: Final = 2**20

_LOWERING: Final = (
    *("model", "peer, CPU s", "ours, CPU s", "peer / ours", "peer: delegates + left", "ours"),
    *("peer, file MB", "ours, file MB", "peer, memory MiB", "ours, memory MiB"),
)
_INFERENCE: Final = (
    *("model", "eager, ms", "peer, ms", "ours, ms", "peer / ours", "eager / ours"),
    *("peer, error", "ours, error", "peer, loss", "ours, loss"),
)


@dataclass(frozen=True)
class Result:
    """A model by both tools.

    Attributes:
        outcomes: tool -> its lowering.
        memory: tool -> growth of resident memory by loading the program and one call, in bytes.
        runs: tool, or eager mode -> a call.
    """

    outcomes: Mapping[str, Outcome]
    memory: Mapping[str, int]
    runs: Mapping[str, Run]

    @property
    def lowering(self) -> float:
        """The peer's CPU time of lowering divided by ours."""
        return self.outcomes[peer.NAME].first / self.outcomes[ours.NAME].first

    @property
    def inference(self) -> float:
        """The peer's time of a call divided by ours."""
        return self.runs[peer.NAME].seconds / self.runs[ours.NAME].seconds


class Programs:
    """Exported programs and what the tools make of them, in a folder.

    Args:
        folder: may have some from an earlier run.
        renewed: tools that lower again.
    """

    def __init__(self, folder: Path, renewed: Sequence[str] = ()) -> None:
        self._folder = folder
        self._renewed = renewed

    def measure(self, name: str, rounds: int) -> Result:
        """Lowers a model by both tools, loads and runs the programs."""
        model, small = self._exported(name), self._exported(SMALL)
        programs = {tool: self._lowered(tool, name, model, small) for tool in _TOOLS}
        inputs = model.with_suffix(".pt")
        memory = {tool: int(page.child(_LOAD, inputs, path)) for tool, (path, _) in programs.items()}
        paths = [path for path, _ in programs.values()]
        runs = json.loads(page.child(_TRIAL, "run", name, model, *paths, str(rounds)))
        outcomes = {tool: outcome for tool, (_, outcome) in programs.items()}
        return Result(outcomes, memory, {each: Run(**run) for each, run in runs.items()})

    def _exported(self, name: str) -> Path:
        path = self._folder / f"{_slug(name)}.pt2"
        if not path.exists():
            page.child(_TRIAL, "export", name, path, path.with_suffix(".pt"))
        return path

    def _lowered(self, tool: str, name: str, model: Path, small: Path) -> tuple[Path, Outcome]:
        stem = f"{_slug(name)}.{tool}"
        path, record = self._folder / f"{stem}.pte", self._folder / f"{stem}.json"
        if tool in self._renewed or not record.exists():
            record.write_text(page.child(_TRIAL, tool, model, small, path))
        return path, Outcome(**json.loads(record.read_text()))


def _slug(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower())


def xnnpack_tables(results: Mapping[str, Result]) -> str:
    """Returns tables of lowering and of inference, with geometric means of float and of quantized models."""
    groups = [[name for name in results if name in group] for group in (FLOAT, QUANTIZED)]
    lowering, inference = [], []
    for what, names in zip(("float32", "quantized"), groups, strict=True):
        chosen = [results[name] for name in names]
        lowering += [_lowering_row(name, results[name]) for name in names]
        inference += [_inference_row(name, results[name]) for name in names]
        if chosen:
            mean = f"geometric mean, {what}"
            ratio = f"{_mean(each.lowering for each in chosen):.0f} x"
            lowering.append([mean, "", "", ratio, *([""] * 6)])
            eager = _mean(each.runs[EAGER].seconds / each.runs[ours.NAME].seconds for each in chosen)
            ratios = [f"{_mean(each.inference for each in chosen):.2f} x", f"{eager:.2f} x"]
            inference.append([mean, "", "", "", *ratios, *([""] * 4)])
    parts = ["### Lowering and loading", table(_LOWERING, 1, lowering)]
    return "\n\n".join([*parts, "### Inference", table(_INFERENCE, 1, inference)])


def _lowering_row(name: str, result: Result) -> list[str]:
    pair = [result.outcomes[tool] for tool in _TOOLS]
    return [
        name,
        *(f"{each.first:.2f}" for each in pair),
        f"{result.lowering:.0f} x",
        *(f"{each.delegates} + {each.operators}" for each in pair),
        *(f"{each.file / 1e6:.1f}" for each in pair),
        *(f"{result.memory[tool] / _MEBIBYTE:.0f}" for tool in _TOOLS),
    ]


def _inference_row(name: str, result: Result) -> list[str]:
    eager, pair = result.runs[EAGER], [result.runs[tool] for tool in _TOOLS]
    return [
        name,
        *(f"{each.seconds * 1e3:.1f}" for each in (eager, *pair)),
        f"{result.inference:.2f} x",
        f"{eager.seconds / result.runs[ours.NAME].seconds:.2f} x",
        *(f"{each.difference:.0e}" for each in pair),
        *(f"{each.loss:.0e}" if name in QUANTIZED else "" for each in pair),
    ]


def _mean(ratios: Iterable[float]) -> float:
    logarithms = [math.log(each) for each in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def main() -> None:
    """Runs the models, and prints or writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", choices=XNNPACK_MODELS, help="all of them by default")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--programs", type=Path, help="folder of programs, kept")
    parser.add_argument("--renew", action="append", default=[], choices=_TOOLS, help="lower again")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as temporary:
        programs = Programs(arguments.programs or Path(temporary), arguments.renew)
        for name in arguments.model or XNNPACK_MODELS:
            results[name] = result = programs.measure(name, arguments.rounds)
            said = ", ".join(f"{each} {run.seconds * 1e3:.1f} ms" for each, run in result.runs.items())
            print(f"{name}: {said}", file=sys.stderr, flush=True)
    machine = page.machine(each.versions for result in results.values() for each in result.outcomes.values())
    text = f"{machine}; minimum of {arguments.rounds} rounds.\n\n{xnnpack_tables(results)}\n"
    print(text)
    if arguments.write:
        page.write("xnnpack", text)


if __name__ == "__main__":
    main()
