# SPDX-License-Identifier: Apache-2.0
"""`delegatec adapter`: writes the `.ptd` of an adapter (LoRA) for the programs of a language model."""

from __future__ import annotations

import argparse

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.checkpoint_folder import add_checkpoint_argument, checkpoint_folder
from delegatec.cli.environment import check_environment

INPUTS = ("checkpoint", "base")
OUTPUTS = ("ptd",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    add_checkpoint_argument(parser)
    parser.add_argument(
        "--base", required=True, metavar="IN.ptd", help="that of the model, which `delegatec weights` wrote"
    )
    parser.add_argument("--ptd", required=True, metavar="OUT.ptd")
    parser.add_argument(
        "--segment-alignment",
        type=int,
        default=128,
        metavar="BYTES",
        help="alignment of each tensor in bytes: a power of two (default: 128)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the weights."""
    check_environment()
    with checkpoint_folder(arguments) as folder:
        pin_torch()
        from delegatec.files import replacing
        from delegatec.language.lora.fitted import fitted
        from delegatec.language.lora.folder import read_adapter
        from delegatec.program import write_flat_tensors
        from delegatec.program.reader import read_flat_tensors

        entries = read_flat_tensors(arguments.base).entries
        shapes = {name: entry.shape.sizes for name, entry in entries.items() if entry.shape is not None}
        weights = fitted(read_adapter(folder), shapes)
        with replacing(arguments.ptd) as file:
            write_flat_tensors(weights, file, alignment=arguments.segment_alignment)
    return 0
