# SPDX-License-Identifier: Apache-2.0
"""`delegatec checkpoint`: stores the weights of a language model in the forms of a program."""

from __future__ import annotations

import argparse
import os
import sys

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.checkpoint_folder import add_checkpoint_argument, checkpoint_folder
from delegatec.cli.environment import check_environment
from delegatec.cli.progress import stages

INPUTS = ("checkpoint",)
OUTPUTS = ("weights_file",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    add_checkpoint_argument(parser)
    parser.add_argument("--weights-file", required=True, metavar="OUT.safetensors")
    parser.add_argument("--weights", default="float32", help="float32 (default), float16, int8 or int4")
    parser.add_argument(
        "--group-size",
        type=int,
        default=0,
        metavar="N",
        help="input features of a linear layer with one scale (default: 0, all)",
    )
    parser.add_argument(
        "--embedding", default="", help="as --weights, of embeddings (default: int8 next to int4)"
    )
    parser.add_argument(
        "--activation",
        default="",
        help="dynamic_int8 (default for int8 and int4): layers quantize their operands at run time; or float",
    )
    parser.add_argument(
        "--import-path", action="append", default=[], metavar="DIR", help="where transformers is installed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the weights."""
    check_environment()
    with checkpoint_folder(arguments) as folder, stages() as announce:
        announce("importing torch")
        pin_torch()
        from delegatec.language.build import store_checkpoint
        from delegatec.language.settings import WeightSettings

        settings = WeightSettings(
            arguments.weights, arguments.group_size, arguments.embedding, arguments.activation
        )
        sys.path += [path for path in map(os.path.abspath, arguments.import_path) if path not in sys.path]
        announce("converting weights")
        store_checkpoint(folder, arguments.weights_file, settings)
    return 0
