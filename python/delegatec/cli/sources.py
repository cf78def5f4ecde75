# SPDX-License-Identifier: Apache-2.0
"""Arguments for the lines of a `.pt2`, which are in a file next to it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from delegatec.cli.errors import CommandLineError
from delegatec.diagnostics import DelegatecError
from delegatec.files import sources_path


def add_sources_argument(parser: argparse.ArgumentParser) -> None:
    """Declares the argument for the lines of an input."""
    parser.add_argument(
        "--sources",
        default=None,
        metavar="IN.json",
        help="lines of the .pt2, as `export --sources` writes them (default: NAME.sources.json next to it, "
        "if it exists); empty for none",
    )


def find_sources(arguments: argparse.Namespace) -> None:
    """Sets the default of `--sources`."""
    if arguments.sources is None:
        path = sources_path(arguments.program)
        arguments.sources = path if os.path.exists(path) else ""


def add_unused_argument(parser: argparse.ArgumentParser) -> None:
    """Declares the argument that keeps lines out of the outputs."""
    parser.add_argument(
        "--unused-inputs",
        default="",
        metavar="OUT.txt",
        help="write outputs that refer to nodes instead of lines, which `delegatec locate` adds; read "
        "--sources for messages of errors only, and list it in this file",
    )


@contextmanager
def sources_unused(arguments: argparse.Namespace) -> Iterator[None]:
    """A scope that reads the lines for its diagnostics only, and lists their file as unused at its end.

    Raises:
        CommandLineError: `--unused-inputs` without `--sources`.
    """
    if arguments.unused_inputs and not arguments.sources:
        raise CommandLineError("--unused-inputs lists the file of --sources: expected --sources as well")
    # As Bazel names it: user code may change the working directory.
    name = os.path.relpath(arguments.sources) if arguments.unused_inputs else ""
    try:
        yield
    except DelegatecError as error:
        raise _located(error, arguments.sources) from error
    if arguments.unused_inputs:
        with open(arguments.unused_inputs, "w", encoding="utf-8") as file:
            file.write(f"{name}\n")


def _located(error: DelegatecError, path: str) -> DelegatecError:
    """Returns an error with the lines that its diagnostics refer to."""
    if not path:
        return error
    from delegatec.frontend.sources import read_sources

    try:
        with read_sources(path).locating():
            raise error
    except DelegatecError as found:
        return found
