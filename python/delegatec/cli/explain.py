# SPDX-License-Identifier: Apache-2.0
"""`delegatec explain`: prints what was delegated of a program, what was not and why, and what to do."""

from __future__ import annotations

import argparse

from delegatec.cli.colors import EXPLANATION, add_color_argument, write_colored
from delegatec.cli.documents import from_where_the_user_is, read_document

INPUTS = ("manifest",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument(
        "manifest", metavar="MANIFEST.json", type=from_where_the_user_is, help="of `lower --manifest`"
    )
    add_color_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation of each method."""
    from delegatec.report.explanation import format_explanations
    from delegatec.report.manifest import from_json

    manifest = read_document(arguments.manifest, from_json)
    write_colored(format_explanations(manifest), EXPLANATION, arguments.color)
    return 0
