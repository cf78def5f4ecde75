# SPDX-License-Identifier: Apache-2.0
"""`delegatec golden`: compares a program with its recorded facts, or records them."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any, Final

from delegatec.cli.documents import read_document, shown, text_of
from delegatec.cli.junit import Case, write_junit

if TYPE_CHECKING:
    from delegatec.report.changes import Change

INPUTS = ("manifest", "golden")

_FULL: Final = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--manifest", required=True, metavar="IN.json", help="the program's manifest")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--golden", default="", metavar="IN.json", help="what was recorded")
    which.add_argument(
        "--update", default="", metavar="OUT.json", help="records it, in the workspace of `bazel run`"
    )
    parser.add_argument(
        "--size-tolerance",
        type=_percentage,
        default=0,
        metavar="PERCENT",
        help="by how much a size in bytes may differ (default: 0)",
    )
    parser.add_argument("--update-command", default="", help="the command that updates it, for messages")


def run(arguments: argparse.Namespace) -> int:
    """Compares, and prints all differences; or updates the record."""
    from delegatec.diagnostics import DelegatecError, Diagnostic, render
    from delegatec.report.changes import changes, format_changes
    from delegatec.report.facts import facts_of_manifest
    from delegatec.report.manifest import from_json

    facts = facts_of_manifest(read_document(arguments.manifest, from_json))
    if arguments.update:
        _write(arguments.update, facts)
        return 0
    help = arguments.update_command or f"delegatec golden --manifest=... --update={shown(arguments.golden)}"
    recorded = _recorded(arguments.golden, help)
    found = [each for each in changes(recorded, facts) if not _is_tolerated(each, arguments.size_tolerance)]
    problems = []
    if found:
        text = format_changes(found)
        print(text, end="")
        message = f"the program differs in {len(found)} facts from what was recorded"
        problems = [Diagnostic("DC511", message, help=f"if all of them are intended: {help}")]
    failure = f"{render(problems)}\n{text}" if found else ""
    write_junit(arguments.label, [Case("golden", {"differences": len(found)}, failure)])
    if problems:
        raise DelegatecError(problems)
    return 0


def _recorded(path: str, help: str) -> dict[str, Any]:
    """Returns the recorded facts; nothing for an empty file, such as before the first update."""
    from delegatec.diagnostics import DelegatecError, Diagnostic

    try:
        text = text_of(path)
        recorded = json.loads(text) if text.strip() else {}
        json.dumps(recorded, ensure_ascii=False).encode()  # JSON may have lone surrogates
        if not isinstance(recorded, dict):
            raise ValueError(f"it is {type(recorded).__name__}, not an object")
        if not _is_tree(recorded):
            raise ValueError("it has lists or null, as a manifest has")
    except (ValueError, RecursionError) as error:
        problem = Diagnostic(
            "DC513",
            f"{shown(path)} is not a record of a program: {error}",
            expected="JSON, or an empty file before the first record",
            help=f"resolve a merge conflict, or record the program again: {help}",
        )
        raise DelegatecError([problem]) from error
    return recorded


def _is_tree(value: Any) -> bool:
    """Whether a value is a tree of dicts whose leaves are integers and strings."""
    return all(map(_is_tree, value.values())) if isinstance(value, dict) else isinstance(value, (int, str))


def _write(path: str, facts: dict[str, Any]) -> None:
    from delegatec.diagnostics.documents import json_document
    from delegatec.files import replacing

    path = os.path.join(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ""), path)
    with replacing(path) as file:
        file.write(json_document(facts).encode())
    print(f"wrote {path}")


def _is_tolerated(change: Change, percentage: int) -> bool:
    if not change.is_size():
        return False
    before, after = int(change.before), int(change.after)
    return abs(after - before) * _FULL <= percentage * before


def _percentage(text: str) -> int:
    value = int(text)
    if not 0 <= value < _FULL:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 to {_FULL - 1}")
    return value
