# SPDX-License-Identifier: Apache-2.0
"""`delegatec index`: writes one page over many programs from their manifests."""

from __future__ import annotations

import argparse
import os

from delegatec.cli.documents import read_document
from delegatec.cli.errors import CommandLineError

INPUTS = ("manifest", "report")
OUTPUTS = ("page", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="title of the page")
    parser.add_argument(
        "--manifest", action="append", required=True, metavar="IN.json", help="of a program; may be repeated"
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        metavar="FILE.html",
        help="report of each program, in the order of the manifests; it need not exist yet",
    )
    parser.add_argument("--page", default="", metavar="OUT.html")
    parser.add_argument("--json", default="", metavar="OUT.json")


def run(arguments: argparse.Namespace) -> int:
    """Writes the page, and the same as JSON."""
    from delegatec.files import replacing
    from delegatec.report.index import entry_of, index_html, index_json
    from delegatec.report.manifest import from_json

    if not arguments.page and not arguments.json:
        raise CommandLineError("no output requested: expected --page or --json")
    reports = arguments.report or [""] * len(arguments.manifest)
    if len(reports) != len(arguments.manifest):
        raise CommandLineError(f"{len(reports)} reports: expected one for each of the manifests, or none")
    folder = os.path.dirname(os.path.abspath(arguments.page or arguments.json))
    entries = [
        entry_of(
            read_document(manifest, from_json),
            os.path.relpath(report, folder).replace(os.sep, "/") if report else "",
        )
        for manifest, report in zip(arguments.manifest, reports, strict=True)
    ]
    if arguments.page:
        with replacing(arguments.page) as file:
            file.write(index_html(entries, arguments.label).encode())
    if arguments.json:
        with replacing(arguments.json) as file:
            file.write(index_json(entries).encode())
    return 0
