# SPDX-License-Identifier: Apache-2.0
"""`delegatec locate`: adds the source lines of the model to the outputs of a lowering.

A lowering with `--unused-inputs` does not read the lines, so that a build need not repeat it when only lines
change: its outputs refer to nodes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from delegatec.cli.documents import read_document
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.diagnostics import SourceLocation

if TYPE_CHECKING:
    from delegatec.frontend.sources import SourceTable
    from delegatec.report.manifest import Manifest

# The outputs; each has the name of the input that it is made from, and of its flag.
_INPUT_OF: Final = {
    "located_debug": "debug",
    "located_ir": "ir",
    "located_manifest": "manifest",
    "reasons": "manifest",
}
INPUTS = ("sources", "debug", "ir", "manifest")
OUTPUTS = tuple(_INPUT_OF)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--sources", required=True, metavar="IN.json", help="lines, of `export --sources`")
    parser.add_argument("--debug", default="", metavar="IN.json", help="of `lower --debug`")
    parser.add_argument("--ir", default="", metavar="IN.txt", help="of `lower --ir`")
    parser.add_argument("--manifest", default="", metavar="IN.json", help="of `lower --manifest`")
    parser.add_argument("--located-debug", default="", metavar="OUT.json")
    parser.add_argument("--located-ir", default="", metavar="OUT.txt")
    parser.add_argument("--located-manifest", default="", metavar="OUT.json")
    parser.add_argument("--reasons", default="", metavar="OUT.txt", help="why operators were not delegated")


def run(arguments: argparse.Namespace) -> int:
    """Writes the requested outputs."""
    for output, source in _INPUT_OF.items():
        if getattr(arguments, output) and not getattr(arguments, source):
            flag = output.replace("_", "-")
            raise CommandLineError(
                f"--{flag} is written from the output of lower: expected --{source} as well"
            )
    check_environment()
    from delegatec.frontend.sources import read_sources

    table = read_sources(arguments.sources)
    for output, source in _INPUT_OF.items():
        if path := getattr(arguments, output):
            Path(path).write_text(_WRITERS[output](getattr(arguments, source), table), encoding="utf-8")
    return 0


def _debug(path: str, table: SourceTable) -> str:
    from delegatec.report.debug_map import as_json, parse_debug_map

    document = read_document(path, parse_debug_map)
    for method in document["methods"].values():
        for origin in method["handles"].values():
            location = table.short_location(origin["source"])
            if location is not None:
                origin.update(source=str(location), via=location.via)
    return as_json(document)


def _ir(path: str, table: SourceTable) -> str:
    return read_document(path, table.replaced)


def _manifest(path: str, table: SourceTable) -> str:
    from delegatec.report.manifest import to_json

    return to_json(_located_manifest(path, table))


def _reasons(path: str, table: SourceTable) -> str:
    from delegatec.report.reasons import format_reasons

    return format_reasons(_located_manifest(path, table))


def _located_manifest(path: str, table: SourceTable) -> Manifest:
    from delegatec.report.manifest import from_json, to_json

    document = json.loads(to_json(read_document(path, from_json)))
    return from_json(json.dumps(_located(document, table)))


def _located(value: Any, table: SourceTable) -> Any:
    """Returns a part of a manifest with lines in its locations."""
    if isinstance(value, list):
        return [_located(each, table) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"file", "line", "function", "text"}:
        location = table.location(SourceLocation(**value))
        assert location is not None
        return {name: getattr(location, name) for name in value}
    return {name: _located(each, table) for name, each in value.items()}


_WRITERS: Final[dict[str, Callable[[str, SourceTable], str]]] = {
    "located_debug": _debug,
    "located_ir": _ir,
    "located_manifest": _manifest,
    "reasons": _reasons,
}
