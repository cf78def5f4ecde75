# SPDX-License-Identifier: Apache-2.0
"""`delegatec extract`: writes the blobs of a program's delegates, with their text and JSON."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from delegatec.cli.documents import read_debug_map
from delegatec.cli.environment import check_environment
from delegatec.cli.plugin_arguments import add_plugin_arguments, registry_of

if TYPE_CHECKING:
    from delegatec.delegation import BackendRegistry

INPUTS = ("debug", "pte")
OUTPUTS = ("blobs",)

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = 0o644 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--pte", required=True, metavar="IN.pte")
    parser.add_argument(
        "--debug", default="", metavar="IN.json", help="debug map of `lower --debug`, for names and lines"
    )
    add_plugin_arguments(parser)
    parser.add_argument("--blobs", required=True, metavar="OUT.zip")


def run(arguments: argparse.Namespace) -> int:
    """Writes the archive: METHOD/INDEX.SUFFIX for each blob, with .txt and .json."""
    check_environment()
    registry = registry_of(arguments)
    with zipfile.ZipFile(arguments.blobs, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _members(arguments, registry):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = _MODE
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return 0


def _members(arguments: argparse.Namespace, registry: BackendRegistry) -> Iterator[tuple[str, bytes]]:
    from delegatec.program.reader import read_program
    from delegatec.report.blob_files import blob_files
    from delegatec.report.blob_labels import blob_labels

    program = read_program(arguments.pte)
    labels = {}
    if arguments.debug:
        labels = blob_labels(read_debug_map(arguments.debug, program, "--debug"))
    backends = {backend.id: backend for backend in registry}
    for method in program.methods:
        for index, delegate in enumerate(method.delegates):
            known = labels.get((method.name, index))
            yield from blob_files(f"{method.name}/{index}", delegate.blob, backends.get(delegate.id), known)
