# SPDX-License-Identifier: Apache-2.0
"""`delegatec report`: writes the report of a program from its manifest and debug map."""

from __future__ import annotations

import argparse
from pathlib import Path

from delegatec.cli.documents import read_debug_map, read_document
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.plugin_arguments import add_plugin_arguments, registry_of

INPUTS = ("manifest", "debug", "pte")
OUTPUTS = ("report",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--manifest", required=True, metavar="IN.json", help="of `lower --manifest`")
    parser.add_argument("--debug", required=True, metavar="IN.json", help="debug map of `lower --debug`")
    parser.add_argument("--pte", required=True, metavar="IN.pte")
    add_plugin_arguments(parser)
    parser.add_argument("--report", required=True, metavar="OUT.html")


def run(arguments: argparse.Namespace) -> int:
    """Writes the report."""
    check_environment()
    from delegatec.program.reader import read_program
    from delegatec.report.blob_graphs import blob_graphs
    from delegatec.report.debug_match import manifest_mismatch
    from delegatec.report.html import render_html
    from delegatec.report.manifest import from_json

    registry = registry_of(arguments)
    program = read_program(arguments.pte)
    debug_map = read_debug_map(arguments.debug, program, "--debug")
    manifest = read_document(arguments.manifest, from_json)
    if problem := manifest_mismatch(manifest, program):
        raise CommandLineError(f"--manifest is of another program: {problem}")
    graphs = blob_graphs(arguments.pte, debug_map, registry)
    Path(arguments.report).write_text(render_html(manifest, debug_map, graphs), encoding="utf-8")
    return 0
