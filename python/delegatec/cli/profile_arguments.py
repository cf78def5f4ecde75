# SPDX-License-Identifier: Apache-2.0
"""The arguments of `delegatec profile`."""

from __future__ import annotations

import argparse
import math
import os
from contextlib import suppress
from typing import Final

from delegatec.cli.documents import from_where_the_user_is
from delegatec.cli.kernel_arguments import add_module_argument
from delegatec.cli.plugin_arguments import add_plugin_arguments
from delegatec.cli.trusted import add_trusted_argument

RUNS: Final = 20
"""Runs of a profile."""
BENCHMARK_RUNS: Final = 100
"""Runs of a benchmark."""
ROUNDS: Final = 9
"""Processes that share them, if the program is compared with a baseline."""
# Most digits of a number of runs.
_DIGITS: Final = 6
_VIEWS: Final = ("line", "library", "module", "operator", "kernel", "step")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    path = from_where_the_user_is
    parser.add_argument("--label", default="", help="name of the target, shown in messages and the title")
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program")
    parser.add_argument("--debug", required=True, metavar="IN.json", help="debug map of `lower --debug`")
    parser.add_argument(
        "etdump",
        nargs="?",
        default="",
        type=path,
        metavar="IN.etdump",
        help="what a runtime recorded: the bytes of ETDumpGen::get_etdump_data(); without it, --runner "
        "runs the program",
    )
    parser.add_argument("--method", default="", help="the method that runs, if the program has several")
    parser.add_argument(
        "--by", default="", choices=_VIEWS, help="rows of the table (default: line, or kernel without lines)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")
    parser.add_argument(
        "--html", default="", type=path, metavar="OUT.html", help="also write a flame chart with tables"
    )
    add_plugin_arguments(parser)
    _add_host_arguments(parser.add_argument_group("runs"))
    _add_baseline_arguments(parser.add_argument_group("comparison"))
    _add_benchmark_arguments(parser.add_argument_group("benchmark"))


def _add_host_arguments(host: argparse._ArgumentGroup) -> None:
    path = from_where_the_user_is
    host.add_argument(
        "--runner", default="", type=path, metavar="FILE", help="executable of //runtime:runner"
    )
    host.add_argument(
        "--run-under",
        default="",
        type=_command,
        metavar="COMMAND",
        help="program that runs its arguments elsewhere, such as on a phone: the runner and its arguments",
    )
    host.add_argument(
        "--run-under-argument",
        action="append",
        default=[],
        metavar="WORD",
        help="an argument of --run-under, before the runner; may be repeated",
    )
    host.add_argument("--ptd", default="", metavar="IN.ptd", help="the program's external weights (.ptd)")
    host.add_argument(
        "--samples-file",
        default="",
        metavar="IN.safetensors",
        help="calls of the model, of `export --samples-file`: the first of the method has the inputs",
    )
    host.add_argument(
        "--program", default="", metavar="IN.pt2", help="has the inputs that the samples lack: the examples"
    )
    add_trusted_argument(host)
    add_module_argument(host)
    host.add_argument(
        "--runs",
        type=_count,
        default=None,
        help="runs of each program, besides the first of each process, which prepares memory "
        f"(default: {RUNS}, or {BENCHMARK_RUNS} of a benchmark)",
    )
    host.add_argument(
        "--rounds",
        type=_count,
        default=None,
        help=f"processes that share these runs (default: 1, or {ROUNDS} with a baseline)",
    )
    host.add_argument("--all-threads", action="store_true", help="run with a thread for each core")
    host.add_argument(
        "--etdump-output", default="", type=path, metavar="OUT.etdump", help="keep what was recorded"
    )


def _add_baseline_arguments(group: argparse._ArgumentGroup) -> None:
    path = from_where_the_user_is
    group.add_argument(
        "--baseline",
        default="",
        type=path,
        metavar="IN",
        help="a .pte to run in turns with the program, by the same inputs, or what --format=json has printed",
    )
    group.add_argument(
        "--baseline-debug",
        default="",
        type=path,
        metavar="IN.json",
        help="debug map of the .pte (default: NAME.debug.json next to it, if it exists)",
    )
    group.add_argument(
        "--baseline-ptd", default="", type=path, metavar="IN.ptd", help="external weights of the .pte"
    )
    group.add_argument(
        "--maximum-ratio",
        type=_positive,
        default=None,
        metavar="RATIO",
        help="fail if the program takes longer than RATIO times the baseline in three of four rounds",
    )


def _add_benchmark_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--benchmark",
        action="store_true",
        help="instead of a profile, print the 50th, 90th and 99th percentile of the runs, without recording "
        "events, the time of loading and the peak of memory",
    )
    group.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: the time that threads run on CPUs, which other programs affect less (default: wall)",
    )
    group.add_argument(
        "--item", default="", metavar="NAME", help='what a call computes, such as "images" (default: calls)'
    )
    group.add_argument(
        "--items-per-call", type=_positive, default=None, metavar="N", help="how many of them (default: 1)"
    )


def _command(text: str) -> str:
    """Returns a path relative to the user's directory, or the name of a program on PATH."""
    return os.path.abspath(from_where_the_user_is(text)) if "/" in text else text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: expected an integer from 1 to {'9' * _DIGITS}")
    return int(text)


def _positive(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
