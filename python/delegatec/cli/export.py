# SPDX-License-Identifier: Apache-2.0
"""`delegatec export`: exports a model to a canonical `.pt2`."""

from __future__ import annotations

import argparse
import os

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.integers import check_seed, count
from delegatec.cli.progress import stages
from delegatec.files import samples_path, sources_path
from delegatec.samples.defaults import DEFAULT_CALLS

INPUTS = ("source", "data")
OUTPUTS = ("program", "signature", "sources", "samples_file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument(
        "--entry", required=True, metavar="MODULE:FUNCTION", help="function that returns the delegatec.Model"
    )
    parser.add_argument(
        "--source", action="append", required=True, metavar="FILE", help="source file of the model"
    )
    parser.add_argument("--import-path", action="append", default=[], metavar="DIR", help="import path")
    parser.add_argument("--data", action="append", default=[], metavar="FILE", help="declared data file")
    parser.add_argument("--seed", type=int, default=0, help="seed of torch, numpy and random")
    parser.add_argument("--program", required=True, metavar="OUT.pt2")
    parser.add_argument("--signature", default="", metavar="OUT.json")
    parser.add_argument(
        "--sources",
        default="",
        metavar="OUT.json",
        help="lines of the model for each node (default: NAME.sources.json next to the .pt2)",
    )
    parser.add_argument(
        "--samples",
        type=count,
        default=DEFAULT_CALLS,
        metavar="N",
        help="calls of each method in eager mode that the program must agree with; more, if dynamic sizes "
        f"need more; 0 for none (default: {DEFAULT_CALLS})",
    )
    parser.add_argument(
        "--samples-file",
        default="",
        metavar="OUT.safetensors",
        help="these calls, with what the model returned (default: NAME.samples.safetensors next to the .pt2)",
    )


def complete(arguments: argparse.Namespace) -> None:
    """Sets the defaults of `--sources` and `--samples-file`."""
    arguments.sources = arguments.sources or sources_path(arguments.program)
    if not arguments.samples and arguments.samples_file:
        raise CommandLineError("--samples-file has no effect with --samples 0")
    if arguments.samples:
        arguments.samples_file = arguments.samples_file or samples_path(arguments.program)


def run(arguments: argparse.Namespace) -> int:
    """Exports the model."""
    # A build shows output only after the action has ended, which makes progress bars useless.
    os.environ.setdefault("TQDM_DISABLE", "1")
    if not all(arguments.entry.partition(":")):
        raise CommandLineError(f"--entry {arguments.entry}: expected MODULE:FUNCTION")
    check_seed(arguments.seed)
    check_environment()
    with stages() as announce:
        announce("importing torch")
        pin_torch()
        from delegatec.frontend.export import ExportRequest, export_model

        export_model(
            ExportRequest(
                entry=arguments.entry,
                sources=tuple(arguments.source),
                import_paths=tuple(arguments.import_path),
                data=tuple(arguments.data),
                seed=arguments.seed,
                program=arguments.program,
                signature=arguments.signature,
                lines=arguments.sources,
                samples=arguments.samples,
                samples_file=arguments.samples_file,
            ),
            announce,
        )
    return 0
