# SPDX-License-Identifier: Apache-2.0
"""`delegatec diff`: prints how two programs differ."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from delegatec.cli.colors import DIFFERENCE, add_color_argument, write_colored
from delegatec.cli.documents import from_where_the_user_is, read_document, shown
from delegatec.cli.errors import CommandLineError

if TYPE_CHECKING:
    from delegatec.report.facts import Facts
    from delegatec.report.manifest import Manifest

INPUTS = ("before", "after", "program", "before_manifest", "after_manifest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("before", metavar="BEFORE.pte", type=from_where_the_user_is, help="a program")
    after = parser.add_mutually_exclusive_group(required=True)
    after.add_argument(
        "after", metavar="AFTER.pte", nargs="?", type=from_where_the_user_is, help="another program"
    )
    after.add_argument("--after", dest="program", metavar="AFTER.pte", help="the same, as a flag")
    for name in ("before", "after"):
        parser.add_argument(
            f"--{name}-manifest",
            default="",
            metavar="IN.json",
            help=f"the manifest of {name.upper()}.pte (default: {name.upper()}.manifest.json, if it exists);"
            " with both, weights and operators that were not delegated are compared as well",
        )
    add_color_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with 1 if the programs differ (default: 0)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the differences."""
    from delegatec.diagnostics.documents import json_document
    from delegatec.report.changes import changes, format_changes
    from delegatec.report.facts import checksums_of_file, facts_of_file, facts_of_manifest, merged, origin_of
    from delegatec.report.inspection import inspect_program

    pair = [arguments.before, arguments.after or arguments.program]
    contents = [inspect_program(path) for path in pair]
    manifests = [
        _manifest(path, given, each.bytes)
        for path, given, each in zip(
            pair, [arguments.before_manifest, arguments.after_manifest], contents, strict=True
        )
    ]
    known = [manifest for manifest in manifests if manifest is not None]
    facts: list[Facts]
    if len(known) == len(pair):
        facts = [merged(facts_of_manifest(each), origin_of(each)) for each in known]
    else:
        facts = [facts_of_file(each) for each in contents]
    trees = [merged(tree, checksums_of_file(each)) for tree, each in zip(facts, contents, strict=True)]
    found = list(changes(trees[0], trees[1]))
    is_same = contents[0].sha256 == contents[1].sha256
    if arguments.format == "json":
        document = {
            "same_bytes": is_same,
            "changes": [{"path": c.path, "before": c.before, "after": c.after} for c in found],
        }
        sys.stdout.write(json_document(document))
    elif is_same:
        print("the programs are the same, byte by byte")
    elif not found:
        print("the programs differ in the values of their constants only")
    else:
        write_colored(format_changes(found), DIFFERENCE, arguments.color)
    return int(arguments.exit_code and not is_same)


def _manifest(path: str, given: str, size: int) -> Manifest | None:
    """Returns the manifest of a program; None if there is none, or the one next to it is not its own."""
    from delegatec.report.manifest import from_json

    if given:
        manifest = read_document(given, from_json)
        if manifest.file.bytes != size:
            described = f"a program of {manifest.file.bytes} bytes, and {shown(path)} has {size}"
            raise CommandLineError(f"{shown(given)} describes another program: {described}")
        return manifest
    found = f"{os.path.splitext(path)[0]}.manifest.json"
    if not os.path.exists(found):
        return None
    manifest = read_document(found, from_json)
    return manifest if manifest.file.bytes == size else None
