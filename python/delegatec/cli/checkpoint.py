# SPDX-License-Identifier: Apache-2.0
"""`delegatec checkpoint`: stores the weights of a language model in the forms of a program."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.progress import stages

INPUTS = ("checkpoint",)
OUTPUTS = ("weights_file",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument(
        "--checkpoint",
        action="append",
        required=True,
        metavar="FILE",
        help="a file of the published folder: config.json, generation_config.json, *.safetensors",
    )
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
    names = [os.path.basename(path) for path in arguments.checkpoint]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CommandLineError(
            f"--checkpoint has several files named {', '.join(twice)}: expected one folder"
        )
    with stages() as announce:
        announce("importing torch")
        pin_torch()
        from delegatec.language.build import store_checkpoint
        from delegatec.language.settings import WeightSettings

        settings = WeightSettings(
            arguments.weights, arguments.group_size, arguments.embedding, arguments.activation
        )
        sys.path += [path for path in map(os.path.abspath, arguments.import_path) if path not in sys.path]
        announce("converting weights")
        with tempfile.TemporaryDirectory() as folder:
            # The files of a build may be in several directories.
            for name, path in zip(names, arguments.checkpoint, strict=True):
                os.symlink(os.path.abspath(path), os.path.join(folder, name))
            store_checkpoint(folder, arguments.weights_file, settings)
    return 0
