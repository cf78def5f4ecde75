# SPDX-License-Identifier: Apache-2.0
"""The search for layers in float of `quantize --maximum-loss`: its arguments, and what it measures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from delegatec.cli.errors import CommandLineError
from delegatec.cli.metric_arguments import add_metric_arguments, loss
from delegatec.cli.progress import Announce
from delegatec.diagnostics import DelegatecError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from delegatec.quantize.flow import QuantizedModel
    from delegatec.quantize.samples import Samples
    from delegatec.quantize.search.objective import Objective
    from delegatec.quantize.settings import Settings
    from delegatec.samples.search import Search


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    group = parser.add_argument_group("layers that stay in float")
    group.add_argument(
        "--maximum-loss",
        type=loss,
        default=None,
        metavar="LOSS",
        help="by how much the metric may be lower than that of the model in float: the layers that cost most "
        "stay in float; without --metric, error over signal (powers) of the outputs, such as 0.001 for 30 dB",
    )
    add_metric_arguments(group)


def check_search(arguments: argparse.Namespace, is_static: bool) -> None:
    """Raises CommandLineError for arguments that do not belong together.

    Args:
        arguments: those of `quantize`.
        is_static: whether there are calibration samples.
    """
    if arguments.metric_over != "sample" and not arguments.metric:
        raise CommandLineError("--metric-over has no effect without --metric")
    has_dataset = bool(arguments.dataset or arguments.dataset_entry)
    if arguments.maximum_loss is None:
        for name in ("metric", "dataset", "dataset_entry"):
            if getattr(arguments, name):
                flag = name.replace("_", "-")
                raise CommandLineError(f"--{flag} has no effect without --maximum-loss")
    elif not has_dataset and (arguments.metric or not is_static):
        reason = "--metric" if arguments.metric else "--maximum-loss without calibration samples"
        raise CommandLineError(f"{reason}: expected --dataset or --dataset-entry as well")


def searched(
    arguments: argparse.Namespace,
    methods: dict[str, ExportedProgram],
    samples: Samples,
    settings: Settings,
    announce: Announce,
) -> tuple[QuantizedModel, Search]:
    """Quantizes a model within a limit of its loss.

    Args:
        arguments: those of `quantize`.
        methods: the methods of the model, in float.
        samples: calibration samples.
        settings: how to quantize.
        announce: receives the stage that begins.

    Raises:
        DelegatecError: those of `quantize.search.search`; DC504, DC521, a dataset or metric that does not
            fit.
    """
    from delegatec.quantize.flow import quantize_model
    from delegatec.quantize.search.search import check_searchable, search

    check_searchable(methods)
    (program,) = methods.values()
    announce("reading the dataset")
    objective = _objective(arguments, program, samples)
    found = search(
        program,
        lambda calls, keep: quantize_model(
            methods, samples, replace(settings, float_calls=calls), announce, keep
        ),
        objective,
        arguments.maximum_loss,
        announce,
    )
    return found.model, found.search


def _objective(arguments: argparse.Namespace, program: ExportedProgram, samples: Samples) -> Objective:
    from torch.utils import _pytree as pytree

    from delegatec.accuracy.dataset import import_dataset, read_dataset
    from delegatec.accuracy.metric import import_metric
    from delegatec.accuracy.objective import MetricObjective
    from delegatec.accuracy.user_code import refusal
    from delegatec.frontend.load import seeded
    from delegatec.quantize.inputs import MethodInputs
    from delegatec.quantize.search.objective import ErrorObjective

    entry, is_labelled = arguments.dataset_entry, bool(arguments.metric)
    if not entry and not arguments.dataset:
        ((_, calls),) = samples.items()
        return ErrorObjective([pytree.tree_leaves(call) for call in calls])
    seeded(arguments.seed)
    dataset = list(import_dataset(entry) if entry else read_dataset(arguments.dataset, is_labelled))
    if not dataset:
        raise refusal("the dataset has no samples")
    for index, sample in enumerate(dataset):
        _check_inputs(sample.inputs, MethodInputs.of(program), f"dataset, sample {index}")
    if not arguments.metric:
        return ErrorObjective([sample.inputs for sample in dataset])
    return MetricObjective(import_metric(arguments.metric, arguments.metric_over), dataset)


def _check_inputs(found: Sequence[Any], inputs: Any, where: str) -> None:
    """Raises DC504 for other inputs than those of the method."""
    import torch

    from delegatec.diagnostics import Diagnostic
    from delegatec.quantize.inputs import form

    problems = []
    if len(found) != len(inputs.values):
        text = f"{len(found)} inputs, and the model takes {', '.join(inputs.values)}"
        raise DelegatecError([Diagnostic("DC504", f"{where}: {text}")])
    for value, (name, expected) in zip(found, inputs.values.items(), strict=True):
        if isinstance(expected, torch.Tensor):
            fits = isinstance(value, torch.Tensor)
            text = (
                inputs.tensor_problem(name, value) if fits else f'"{name}" is of type {type(value).__name__}'
            )
            shown = form(expected)
        else:
            is_equal = not isinstance(value, torch.Tensor) and value == expected
            text, shown = "" if is_equal else f'"{name}" is another value', repr(expected)
        if text:
            problems.append(Diagnostic("DC504", f"{where}: {text}", expected=shown))
    if problems:
        raise DelegatecError(problems)
