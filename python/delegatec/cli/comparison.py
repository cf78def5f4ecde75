# SPDX-License-Identifier: Apache-2.0
"""Comparing a program with the model in float of a checkpoint: what verbs have in common."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from delegatec.cli.checkpoint_folder import add_checkpoint_argument
from delegatec.cli.errors import CommandLineError
from delegatec.cli.integers import count
from delegatec.cli.junit import Case, write_junit
from delegatec.diagnostics import DelegatecError, render

if TYPE_CHECKING:
    from delegatec.language.checks import Outcome
    from delegatec.program.reader.model import Program
    from delegatec.verify.executors import Executor
    from delegatec.verify.interpreter import Backends
    from delegatec.verify.runtime import Runtime


def add_comparison_arguments(parser: argparse.ArgumentParser, runtime: str = "") -> argparse._ArgumentGroup:
    """Declares the arguments; returns the group of limits.

    Args:
        parser: that of the verb.
        runtime: what a runtime does besides.
    """
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program")
    parser.add_argument("--ptd", default="", metavar="IN.ptd", help="its external weights")
    add_checkpoint_argument(parser)
    parser.add_argument("--tokens", type=count, default=16, metavar="N", help="the most tokens of each text")
    parser.add_argument(
        "--runtime",
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="runtime plug-in, such as executorch_runtime:RUNTIME, instead of the interpreter" + runtime,
    )
    parser.add_argument("--import-path", action="append", default=[], metavar="DIR", help="import path")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--maximum-divergence",
        type=positive,
        default=None,
        metavar="NATS",
        help="mean Kullback-Leibler divergence from the model in float (default: the tokens are the same)",
    )
    return limits


def check_comparison(arguments: argparse.Namespace) -> None:
    """Raises CommandLineError if nothing would be compared."""
    if not arguments.tokens:
        raise CommandLineError("--tokens 0: expected at least 1")


def add_import_paths(arguments: argparse.Namespace) -> None:
    """Makes the modules of `--import-path` importable."""
    sys.path[:0] = [path for path in map(os.path.abspath, arguments.import_path) if path not in sys.path]


def executor_of(
    arguments: argparse.Namespace,
    program: Program,
    methods: Collection[str],
    runtime: Runtime | None,
    backends: Backends | None = None,
) -> Executor:
    """Returns the program in a runtime, else in the interpreter.

    Args:
        arguments: of the verb.
        program: the contents of `--pte`.
        methods: those that are called, in this order.
        runtime: that of `--runtime`.
        backends: those of the interpreter; the built-in ones by default.
    """
    from delegatec.backends import builtin_backends
    from delegatec.program.reader import read_flat_tensors
    from delegatec.verify.executors import ReferenceExecutor, RuntimeExecutor

    if runtime is not None:
        return RuntimeExecutor(runtime, program, arguments.pte, arguments.ptd or None)
    data = read_flat_tensors(arguments.ptd).entries if arguments.ptd else {}
    return ReferenceExecutor(program, methods, backends or builtin_backends(), data)


def print_outcomes(label: str, outcomes: Iterable[Outcome]) -> None:
    """Prints a line for each check, as soon as it is done.

    Args:
        label: name of the target.
        outcomes: the checks.

    Raises:
        DelegatecError: the problems of those that failed.
    """
    found = []
    for outcome in outcomes:
        figures = ", ".join(f"{name} {value}" for name, value in outcome.figures.items())
        print(f"{'FAILED' if outcome.problem else 'ok':6}  {outcome.name}: {figures}", flush=True)
        found.append(outcome)
    write_junit(
        label,
        [Case(each.name, each.figures, render([each.problem]) if each.problem else "") for each in found],
    )
    if problems := [each.problem for each in found if each.problem]:
        raise DelegatecError(problems)


def positive(text: str) -> float:
    """Returns a positive number, for argparse."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected a positive number")
    return value
