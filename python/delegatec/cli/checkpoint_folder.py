# SPDX-License-Identifier: Apache-2.0
"""The files of a checkpoint, as the folder that was published."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from delegatec.cli.errors import CommandLineError


def add_checkpoint_argument(parser: argparse.ArgumentParser) -> None:
    """Declares `--checkpoint`."""
    parser.add_argument(
        "--checkpoint",
        action="append",
        required=True,
        metavar="FILE",
        help="a file of the published folder: config.json, *.safetensors, tokenizer.json and so on",
    )


@contextmanager
def checkpoint_folder(arguments: argparse.Namespace) -> Iterator[str]:
    """Yields a folder with links to the files, which a build may have in several directories.

    Raises:
        CommandLineError: several files have one name.
    """
    with linked_folder("--checkpoint", arguments.checkpoint) as folder:
        yield folder


@contextmanager
def linked_folder(flag: str, paths: Sequence[str]) -> Iterator[str]:
    """Yields a folder with links to files.

    Args:
        flag: the argument that lists them.
        paths: the files.

    Raises:
        CommandLineError: several files have one name.
    """
    names = [os.path.basename(path) for path in paths]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CommandLineError(f"{flag} has several files named {', '.join(twice)}: expected one folder")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in zip(names, paths, strict=True):
            os.symlink(os.path.abspath(path), os.path.join(folder, name))
        yield folder
