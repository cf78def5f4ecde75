# SPDX-License-Identifier: Apache-2.0
"""`delegatec operators`: lists what an app links for some programs, for ExecuTorch's selective build."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from delegatec.cli.documents import read_document
from delegatec.cli.errors import CommandLineError

if TYPE_CHECKING:
    from delegatec.report.needs import RuntimeNeeds

INPUTS = ("program", "manifest")
OUTPUTS = ("yaml", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument(
        "--program",
        action="append",
        default=[],
        metavar="IN.pte",
        help="a program of any compiler; may be repeated",
    )
    parser.add_argument(
        "--manifest",
        action="append",
        default=[],
        metavar="IN.json",
        help="instead of a program: its manifest; may be repeated",
    )
    parser.add_argument(
        "--yaml", default="", metavar="OUT.yaml", help="selected_operators.yaml of all of them together"
    )
    parser.add_argument(
        "--json", default="", metavar="OUT.json", help="backends and kernels to link, with their programs"
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the requested documents."""
    from delegatec.files import replacing
    from delegatec.report.needs import union_of
    from delegatec.report.selected_operators import runtime_json, selected_operators

    if not arguments.yaml and not arguments.json:
        raise CommandLineError("no output requested: expected --yaml or --json")
    if not arguments.program and not arguments.manifest:
        raise CommandLineError("no program: expected --program=FOO.pte or --manifest=FOO.manifest.json")
    of_name: dict[str, list[RuntimeNeeds]] = {}
    for name, needs in [*map(_of_program, arguments.program), *map(_of_manifest, arguments.manifest)]:
        of_name.setdefault(name, []).append(needs)
    programs = {name: union_of(several) for name, several in of_name.items()}
    for path, write in ((arguments.yaml, selected_operators), (arguments.json, runtime_json)):
        if path:
            with replacing(path) as file:
                file.write(write(programs).encode())
    return 0


def _of_program(path: str) -> tuple[str, RuntimeNeeds]:
    from delegatec.program.reader import read_program
    from delegatec.report.needs import needs_of

    return os.path.basename(path), needs_of(read_program(path))


def _of_manifest(path: str) -> tuple[str, RuntimeNeeds]:
    from delegatec.report.manifest import from_json

    manifest = read_document(path, from_json)
    return manifest.label or os.path.basename(path), manifest.runtime
