# SPDX-License-Identifier: Apache-2.0
"""Samples of a model's inputs, from files or from a function of the user."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from delegatec.cli.errors import CommandLineError
from delegatec.cli.integers import check_seed

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from delegatec.quantize.samples import Samples


def add_function_arguments(parser: argparse._ActionsContainer) -> None:
    """Declares the arguments of the function that returns samples."""
    parser.add_argument(
        "--entry", default="", metavar="MODULE:FUNCTION", help="function that returns samples, besides files"
    )
    parser.add_argument("--source", action="append", default=[], metavar="FILE", help="its source file")
    parser.add_argument("--import-path", action="append", default=[], metavar="DIR", help="import path")
    parser.add_argument("--data", action="append", default=[], metavar="FILE", help="declared data file")
    parser.add_argument("--seed", type=int, default=0, help="seed of torch, numpy and random")


def check_function(arguments: argparse.Namespace) -> None:
    """Raises CommandLineError for arguments of `add_function_arguments` that do not belong together."""
    if arguments.entry and not all(arguments.entry.partition(":")):
        raise CommandLineError(f"--entry {arguments.entry}: expected MODULE:FUNCTION")
    if arguments.source and not arguments.entry:
        raise CommandLineError("--source names the file of a function: expected --entry as well")
    check_seed(arguments.seed)


def read_samples(
    arguments: argparse.Namespace,
    files: Sequence[str],
    methods: Mapping[str, ExportedProgram],
    purpose: str = "calibration",
) -> Samples:
    """Returns the samples of each method.

    Args:
        arguments: those of `add_function_arguments`.
        files: data files.
        methods: the model's methods.
        purpose: what the samples are for, in messages.

    Raises:
        DelegatecError: DC131, DC132, DC133, samples that cannot be read or do not match the methods.
    """
    from delegatec.quantize.samples import samples_of_files

    samples = samples_of_files(files, methods, purpose)
    if arguments.entry:
        for method, group in _samples_of_function(arguments, methods, purpose).items():
            samples[method] += group
    return samples


def _samples_of_function(
    arguments: argparse.Namespace, methods: Mapping[str, ExportedProgram], purpose: str
) -> Samples:
    from delegatec.frontend.load import call_entry, choose_source, definition
    from delegatec.frontend.session import Session, running
    from delegatec.frontend.workspace import Workspace
    from delegatec.quantize.samples import listed, samples_of_function

    module, _, function = arguments.entry.rpartition(":")
    source = choose_source(arguments.source, module)
    session = Session(Workspace.at(os.getcwd(), arguments.import_path), source, tuple(arguments.data))
    with running(session):
        called, result = call_entry(session, function, arguments.seed, listed)
    return samples_of_function(result, methods, definition(session, called), purpose)
