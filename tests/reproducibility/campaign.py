# SPDX-License-Identifier: Apache-2.0
"""Builds the examples in several ways, and compares the digests of their outputs: the table of SUPPORT.md.

Usage: bazel run //tests/reproducibility:campaign -- [--folder=FOLDER] [--target=PATTERN] RUN...

By default all runs of //examples/..., which take about an hour on two cores. With --folder, each run writes
its digests to a file there, and is compared with the files of earlier runs, too. The status is 1 if an
output differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nested_bazel import (
    WITH_WORKSPACE,
    Generation,
    bazel7_with_workspace,
    copy_of_the_sources,
    nested_bazel,
    with_modules,
)
from outputs import EVERY_OUTPUT, PROGRAMS, differences, digests, summary

from tests.remote.client import Built, build
from tests.remote.tables import described, print_table

_ALL: Final = ("//examples/...",)
_TOOLCHAIN: Final = "rules/private/delegatec_toolchain.bzl"


@dataclass(frozen=True)
class Run:
    """A way to build.

    Attributes:
        name: of the run.
        shows: the difference from the others.
        generation: returns the Bazel.
        strategy: how it runs actions: "worker", or "sandboxed", in new processes.
        on_demand: whether to build all outputs, also those on demand, which are most of the actions.
        folder: the workspace, relative to the run's directory.
        environment: variables of all actions that differ from those of the rules.
    """

    name: str
    shows: str
    generation: Callable[[], Generation]
    strategy: str
    on_demand: bool = False
    folder: str = "workspace"
    environment: Mapping[str, str] = field(default_factory=dict)


RUNS: Final = (
    Run("workers", "Bazel 4.2.3, workers", lambda: WITH_WORKSPACE, "worker", on_demand=True),
    Run(
        "modules",
        "Bazel 7, `MODULE.bazel`, workers",
        lambda: with_modules(is_copy=True),
        "worker",
        on_demand=True,
    ),
    Run("workspace7", "Bazel 7, `WORKSPACE`, workers", bazel7_with_workspace, "worker"),
    Run(
        "environment",
        "Bazel 4.2.3, new processes; another directory, hash seed, `HOME`, user, time zone and locale, "
        "four threads",
        lambda: WITH_WORKSPACE,
        "sandboxed",
        folder="deeper/still/rules",
        environment={
            "HOME": "/tmp/home",
            # Python still reads UTF-8, as torch needs for its templates.
            "LC_ALL": "C",
            "LOGNAME": "somebody",
            "OMP_NUM_THREADS": "4",
            "PYTHONHASHSEED": "12345",
            "TZ": "XXX-13:45",
        },
    ),
    Run(
        "environment7",
        "Bazel 7, workers; another directory, `HOME`, time zone and locale, a random hash seed, two threads",
        lambda: with_modules(is_copy=True),
        "worker",
        folder="another",
        environment={
            "HOME": "/tmp",
            "LANG": "tr_TR.UTF-8",
            "LC_ALL": "POSIX",
            "OMP_NUM_THREADS": "2",
            "PYTHONHASHSEED": "random",
            "TZ": "YYY11",
        },
    ),
)


def vary(sources: Path, environment: Mapping[str, str]) -> None:
    """Changes the environment of all actions, in a copy of the sources."""
    with (sources / _TOOLCHAIN).open("a") as toolchain:
        toolchain.write(f"\nFIXED_ENVIRONMENT.update({json.dumps(environment, sort_keys=True)})\n")


def perform(run: Run, folder: Path, targets: Sequence[str]) -> tuple[Built, dict[str, str]]:
    """Builds examples; returns the build, and the digests of all outputs."""
    sources = copy_of_the_sources(folder / run.folder)
    vary(sources, run.environment)
    with nested_bazel(sources, folder / "output", run.generation()) as bazel:
        flags = [f"--spawn_strategy={run.strategy},sandboxed,local"]
        if run.on_demand:
            flags.extend(EVERY_OUTPUT)
        return build(bazel, targets, *flags), digests(bazel, "examples")


def results(
    runs: Iterable[Run], targets: Sequence[str], folder: Path | None, found: dict[str, dict[str, str]]
) -> Iterator[Sequence[object]]:
    """Builds; yields a row of the table for each run, and adds its digests to `found`."""
    for run in runs:
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as temporary:
            built, outputs = perform(run, Path(temporary), targets)
        if folder is not None:
            (folder / f"{run.name}.json").write_text(json.dumps(outputs, indent=1))
        found[run.name] = outputs
        yield (
            run.shows,
            described(built),
            f"{built.seconds:.0f}",
            summary(outputs),
            summary(outputs, PROGRAMS),
        )


def unequal(reference: Mapping[str, str], outputs: Mapping[str, str]) -> list[str]:
    """Returns the outputs that differ from those of another run, and the programs that one of them lacks."""
    compared = {path: reference[path] for path in reference if path in outputs or path.endswith(PROGRAMS)}
    return differences(compared, outputs)


def main() -> None:
    names = [run.name for run in RUNS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="directory for several GB; by default a temporary one")
    parser.add_argument("--target", action="append", help="by default //examples/...; repeatable")
    parser.add_argument("runs", nargs="*", choices=[*names, []], help="which runs; by default all")
    options = parser.parse_args()
    found: dict[str, dict[str, str]] = {}
    if options.folder is not None:
        found = {path.stem: json.loads(path.read_text()) for path in sorted(options.folder.glob("*.json"))}
    chosen = [run for run in RUNS if not options.runs or run.name in options.runs]
    head = ("run", "processes", "s", "outputs", "`.pt2` and `.pte`")
    print_table(head, results(chosen, options.target or _ALL, options.folder, found))
    reference = max(found, key=lambda name: len(found[name]))
    different = [f"{name}: {path}" for name in found for path in unequal(found[reference], found[name])]
    print("\n".join([f"\n{len(different)} outputs differ from those of the run `{reference}`.", *different]))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
