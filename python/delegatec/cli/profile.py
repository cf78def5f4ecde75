# SPDX-License-Identifier: Apache-2.0
"""`delegatec profile`: prints where a program spends its time, or its latency, on this host or a device."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from delegatec.cli.colors import escaped
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.measuring import Baseline, Subject, read_baseline, read_subject, recorders_of
from delegatec.cli.plugin_arguments import registry_of
from delegatec.cli.profile_arguments import BENCHMARK_RUNS, ROUNDS, RUNS, add_arguments

if TYPE_CHECKING:
    from delegatec.delegation import BackendRegistry
    from delegatec.profile.attribution import Profile
    from delegatec.profile.benchmark import Benchmark
    from delegatec.profile.ratio import Ratio

INPUTS = (
    "pte",
    "debug",
    "etdump",
    "ptd",
    "program",
    "samples_file",
    "baseline",
    "baseline_debug",
    "baseline_ptd",
)
OUTPUTS = ("etdump_output", "html")

__all__ = ["INPUTS", "OUTPUTS", "add_arguments", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Prints the profile or the figures, and fails if they exceed the limit."""
    _check(arguments)
    check_environment()
    from delegatec.diagnostics import DelegatecError
    from delegatec.profile.ratio import over_limit, ratio_of

    registry = registry_of(arguments)
    subject = read_subject("--method", arguments.pte, arguments.ptd, arguments.debug, arguments.method)
    baseline = read_baseline(arguments, subject) if arguments.baseline else None
    with tempfile.TemporaryDirectory(prefix="delegatec-profile-") as folder:
        measure = _benchmarks if arguments.benchmark else _profiles
        measured = measure(arguments, subject, baseline, registry, folder)
    ratio = None
    other = baseline.document if baseline else None
    if baseline is not None:
        other = other or measured[1]
        ratio = ratio_of(_rounds(measured[0]), _rounds(other), in_turns=baseline.document is None)
    _write(arguments, measured[0], other, ratio, lines=baseline is None or baseline.has_lines)
    if ratio is not None:
        names = Path(arguments.pte).name, Path(arguments.baseline).name
        if problems := over_limit(ratio, arguments.maximum_ratio, *names):
            raise DelegatecError(problems)
    return 0


def _rounds(measured: Profile | Benchmark) -> Sequence[float]:
    from delegatec.profile.benchmark import Benchmark

    return measured.medians if isinstance(measured, Benchmark) else measured.rounds


def _check(arguments: argparse.Namespace) -> None:
    """Raises CommandLineError for flags that have no effect, or exclude each other."""
    if arguments.etdump and arguments.etdump_output:
        raise CommandLineError("--etdump-output keeps the runs on this host: expected no IN.etdump")
    if arguments.benchmark and (arguments.etdump or arguments.etdump_output):
        raise CommandLineError("--benchmark runs the program without recording: expected no ETDump")
    several = (arguments.rounds or 1) > 1 or arguments.baseline
    if arguments.etdump_output and several:
        raise CommandLineError(
            "--etdump-output keeps the runs of one process: expected no --baseline or --rounds"
        )
    needs: dict[str, tuple[object, dict[str, object]]] = {
        "--benchmark": (arguments.benchmark, {"item": "", "items_per_call": None, "clock": "wall"}),
        "a profile, without --benchmark": (not arguments.benchmark, {"by": "", "html": ""}),
        "--baseline": (
            arguments.baseline,
            {"baseline_debug": "", "baseline_ptd": "", "maximum_ratio": None},
        ),
        "--run-under": (arguments.run_under, {"run_under_argument": []}),
        "runs, without IN.etdump": (
            not arguments.etdump,
            {"runs": None, "rounds": None, "run_under": "", "all_threads": False},
        ),
        "--format=text": (arguments.format == "text", {"by": ""}),
    }
    for what, (is_there, flags) in needs.items():
        for name, default in flags.items():
            if not is_there and getattr(arguments, name) != default:
                raise CommandLineError(f"--{name.replace('_', '-')} needs {what}")


def _profiles(
    arguments: argparse.Namespace,
    subject: Subject,
    baseline: Baseline | None,
    registry: BackendRegistry,
    folder: str,
) -> list[Profile]:
    """Returns the profile of the program, and that of the baseline if it runs, too."""
    from delegatec.profile.attribution import profile_of
    from delegatec.profile.etdump import read_etdump
    from delegatec.profile.recording import in_turns

    if arguments.etdump:
        recorded = [[read_etdump(arguments.etdump)]]
        subjects = [subject]
    else:
        subjects = [subject, *([baseline.subject] if baseline and baseline.subject else [])]
        recorders = recorders_of(arguments, subjects, folder)
        rounds, runs = _rounds_and_runs(arguments, RUNS, baseline is not None)
        if arguments.etdump_output:
            shutil.copyfile(recorders[0].etdump(runs), arguments.etdump_output)
            recorded = [[read_etdump(arguments.etdump_output)]]
        else:
            recorded = in_turns(recorders, rounds, lambda each: each.record(runs))
    return [
        profile_of(runs, each.method, each.debug, registry)
        for each, runs in zip(subjects, recorded, strict=True)
    ]


def _benchmarks(
    arguments: argparse.Namespace,
    subject: Subject,
    baseline: Baseline | None,
    registry: BackendRegistry,
    folder: str,
) -> list[Benchmark]:
    """Returns the figures of the program, and those of the baseline if it runs, too."""
    from delegatec.profile.benchmark import benchmark_of
    from delegatec.profile.recording import in_turns

    subjects = [subject, *([baseline.subject] if baseline and baseline.subject else [])]
    recorders = recorders_of(arguments, subjects, folder)
    rounds, runs = _rounds_and_runs(arguments, BENCHMARK_RUNS, baseline is not None)
    times = in_turns(recorders, rounds, lambda each: each.measure(runs))
    items = (arguments.item or "calls", arguments.items_per_call or 1.0)
    return [
        benchmark_of(of_one, each.method, arguments.clock, *items)
        for each, of_one in zip(subjects, times, strict=True)
    ]


def _rounds_and_runs(arguments: argparse.Namespace, runs: int, is_compared: bool) -> tuple[int, int]:
    """Returns the number of processes of each program, and of the runs in each, with the first."""
    runs = arguments.runs or runs
    rounds = arguments.rounds or (min(ROUNDS, runs) if is_compared else 1)
    return rounds, 1 + math.ceil(runs / rounds)


def _write(
    arguments: argparse.Namespace,
    measured: Profile | Benchmark,
    baseline: Profile | Benchmark | None,
    ratio: Ratio | None,
    lines: bool,
) -> None:
    from delegatec.profile.attribution import Profile
    from delegatec.profile.benchmark import Benchmark, format_benchmark
    from delegatec.profile.documents import document_json
    from delegatec.profile.html import profile_html
    from delegatec.profile.table import format_comparison, format_profile

    by = arguments.by or ("line" if lines else "kernel")
    if arguments.format == "json":
        text = document_json(measured, baseline, ratio)
    elif isinstance(measured, Benchmark):
        text = format_benchmark(measured, baseline if isinstance(baseline, Benchmark) else None, ratio)
    elif isinstance(baseline, Profile) and ratio is not None:
        text = format_comparison(measured, baseline, ratio, by)
    else:
        text = format_profile(measured, by)
    sys.stdout.write(text if arguments.format == "json" else escaped(text))
    if arguments.html:
        assert isinstance(measured, Profile) and not isinstance(baseline, Benchmark)
        title = arguments.label or Path(arguments.pte).name
        page = profile_html(measured, title, baseline, ratio, Path(arguments.baseline).name)
        Path(arguments.html).write_text(page, encoding="utf-8")
