# SPDX-License-Identifier: Apache-2.0
"""`delegatec checkpoint`: stores the weights of a checkpoint in the forms of a program."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Final

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.checkpoint_folder import add_checkpoint_argument, checkpoint_folder
from delegatec.cli.environment import check_environment
from delegatec.cli.progress import stages

INPUTS = ("checkpoint",)
OUTPUTS = ("weights_file",)
# Function of `delegatec` -> the module and function that build its network.
_NETWORKS: Final = {
    "language_model": ("delegatec.language.network", "network_of"),
    "speech_to_text": ("delegatec.language.speech.network", "network_of"),
    "vision_language": ("delegatec.language.vision.network", "network_of"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument(
        "--kind",
        choices=_NETWORKS,
        default="language_model",
        help="function of delegatec that reads the file (default: language_model)",
    )
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
        "--embedding",
        default="",
        help="as --weights, of embeddings and tied layers (default: int8 next to integers, else the same)",
    )
    parser.add_argument(
        "--activation",
        default="",
        help="dynamic_int8 (default for int8 and int4): layers quantize their operands at run time; or float",
    )
    parser.add_argument(
        "--vision-weights",
        default="",
        help="as --weights, of layers that encode images (default: int8 next to int4)",
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
        from delegatec.language.loading import store_checkpoint
        from delegatec.language.settings import WeightSettings

        settings = WeightSettings(
            arguments.weights,
            arguments.group_size,
            arguments.embedding,
            arguments.activation,
            arguments.vision_weights,
        )
        sys.path += [path for path in map(os.path.abspath, arguments.import_path) if path not in sys.path]
        announce("converting weights")
        module, function = _NETWORKS[arguments.kind]
        network_of = getattr(importlib.import_module(module), function)
        store_checkpoint(folder, arguments.weights_file, network_of, settings)
    return 0
