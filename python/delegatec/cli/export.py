# SPDX-License-Identifier: Apache-2.0
"""`delegatec export`: exports a model to a canonical `.pt2`."""

from __future__ import annotations

import argparse
import os
from typing import Final

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.progress import stages
from delegatec.files import sources_path

INPUTS = ("source", "data")
OUTPUTS = ("program", "signature", "sources")

# The range of torch.manual_seed.
_SEEDS: Final = (-(2**63), 2**64 - 1)


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


def complete(arguments: argparse.Namespace) -> None:
    """Sets the default of `--sources`."""
    arguments.sources = arguments.sources or sources_path(arguments.program)


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
            ),
            announce,
        )
    return 0


def check_seed(seed: int) -> None:
    """Raises CommandLineError for a seed that torch does not support."""
    if not _SEEDS[0] <= seed <= _SEEDS[1]:
        raise CommandLineError(f"--seed {seed}: expected {_SEEDS[0]} to {_SEEDS[1]}")
