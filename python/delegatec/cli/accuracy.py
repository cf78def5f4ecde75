# SPDX-License-Identifier: Apache-2.0
"""`delegatec accuracy`: computes a metric of a program over a dataset, next to a baseline program."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.comparison import executor_of
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.junit import Case, write_junit
from delegatec.cli.kernel_arguments import add_kernel_arguments, import_operators
from delegatec.cli.metric_arguments import add_metric_arguments, finite, loss
from delegatec.cli.plugin_arguments import add_plugin_arguments, registry_of
from delegatec.cli.progress import Progress

if TYPE_CHECKING:
    from delegatec.accuracy.evaluation import Accuracy, Subject
    from delegatec.delegation import BackendRegistry

INPUTS = ("baseline", "baseline_ptd", "dataset", "ptd", "pte")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program")
    parser.add_argument("--ptd", default="", metavar="IN.ptd", help="its external weights")
    parser.add_argument("--baseline", default="", metavar="IN.pte", help="a program to compare with")
    parser.add_argument("--baseline-ptd", default="", metavar="IN.ptd", help="its external weights")
    parser.add_argument("--method", default="", help="the method, if the program has several")
    add_metric_arguments(parser, is_required=True)
    parser.add_argument(
        "--runtime",
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="runtime plug-in, such as executorch_runtime:RUNTIME, instead of the interpreter",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")
    add_plugin_arguments(parser)
    add_kernel_arguments(parser)
    limits = parser.add_argument_group("limits")
    limits.add_argument("--floor", type=finite, default=None, help="the least value of the metric")
    limits.add_argument(
        "--maximum-loss",
        type=loss,
        default=None,
        metavar="LOSS",
        help="by how much the metric may be lower than that of --baseline",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints a table, and fails if the metric is beyond a limit."""
    if not arguments.baseline and (arguments.baseline_ptd or arguments.maximum_loss is not None):
        flag = "--baseline-ptd" if arguments.baseline_ptd else "--maximum-loss"
        raise CommandLineError(f"{flag} has no effect without --baseline")
    check_environment()
    from delegatec.edge.app_kernels import app_kernels

    pin_torch()
    registry = registry_of(arguments)
    import_operators(arguments)
    with app_kernels(arguments.kernel):
        accuracy = _evaluated(arguments, registry)
    return _told(arguments, accuracy)


def _evaluated(arguments: argparse.Namespace, registry: BackendRegistry) -> Accuracy:
    from delegatec.accuracy.dataset import import_dataset, read_dataset
    from delegatec.accuracy.evaluation import Limits, evaluate
    from delegatec.accuracy.metric import import_metric

    metric = import_metric(arguments.metric, arguments.metric_over)
    entry = arguments.dataset_entry
    samples = import_dataset(entry) if entry else read_dataset(arguments.dataset)
    limits = Limits(arguments.floor, arguments.maximum_loss)
    progress = Progress()
    try:
        return evaluate(
            [*_subjects(arguments, registry)],
            samples,
            metric,
            limits,
            lambda index: progress.show(f"sample {index}"),
        )
    finally:
        progress.show("")


def _subjects(arguments: argparse.Namespace, registry: BackendRegistry) -> Iterator[Subject]:
    """Yields the program, and the baseline if there is one."""
    from delegatec.accuracy.evaluation import Subject
    from delegatec.program.reader import read_program
    from delegatec.verify.runtime_plugin import find_runtime

    runtime = find_runtime(arguments.runtime) if arguments.runtime else None
    files = [("the program", arguments.pte, arguments.ptd)]
    if arguments.baseline:
        files.append(("the baseline", arguments.baseline, arguments.baseline_ptd))
    for name, pte, ptd in files:
        program = read_program(pte)
        names = [method.name for method in program.methods]
        method = arguments.method or ("forward" if "forward" in names else names[0])
        if method not in names:
            raise CommandLineError(f"--method {method}: {name} has {', '.join(names)}")
        paths = argparse.Namespace(pte=pte, ptd=ptd)
        executor = executor_of(paths, program, [method], runtime, registry)
        yield Subject(name, executor, program.method(method))


def _told(arguments: argparse.Namespace, accuracy: Accuracy) -> int:
    """Prints the accuracy and writes a test case for each limit; raises DelegatecError beyond one."""
    from delegatec.accuracy.table import accuracy_json, format_accuracy
    from delegatec.diagnostics import DelegatecError, render

    is_json = arguments.format == "json"
    print(accuracy_json(accuracy) if is_json else format_accuracy(accuracy), end="", flush=True)
    figures = {"value": accuracy.value, "floor": accuracy.limits.floor, "samples": accuracy.samples}
    cases = [(accuracy.metric, figures, accuracy.floor_problem())]
    if accuracy.loss is not None:
        figures = {
            "value": accuracy.loss,
            "maximum": accuracy.limits.maximum_loss,
            "baseline": accuracy.baseline,
            "differing samples": len(accuracy.differences),
        }
        cases.append((f"loss of {accuracy.metric}", figures, accuracy.loss_problem()))
    write_junit(
        arguments.label,
        [
            Case(
                name,
                {key: value for key, value in figures.items() if value is not None},
                render([problem]) if problem else "",
            )
            for name, figures, problem in cases
        ],
    )
    if problems := [problem for *_, problem in cases if problem]:
        raise DelegatecError(problems)
    return 0
