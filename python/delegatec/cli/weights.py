# SPDX-License-Identifier: Apache-2.0
"""`delegatec weights`: writes the weights of a `.pt2` to a `.ptd`, for programs with external weights."""

from __future__ import annotations

import argparse
import sys

from delegatec.cli.environment import check_environment
from delegatec.cli.kernel_arguments import add_module_argument, import_operators
from delegatec.cli.sources import add_sources_argument, find_sources
from delegatec.cli.trusted import add_trusted_argument

INPUTS = (
    "program",
    "sources",
)
OUTPUTS = ("ptd",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--program", required=True, metavar="IN.pt2")
    add_trusted_argument(parser)
    add_sources_argument(parser)
    add_module_argument(parser)
    parser.add_argument(
        "--import-path", action="append", default=[], metavar="DIR", help="import path of these modules"
    )
    parser.add_argument("--ptd", required=True, metavar="OUT.ptd")
    parser.add_argument(
        "--segment-alignment",
        type=int,
        default=128,
        metavar="BYTES",
        help="alignment of each tensor in bytes: a power of two (default: 128)",
    )


complete = find_sources


def run(arguments: argparse.Namespace) -> int:
    """Writes the weights from the mapped archive."""
    check_environment()
    sys.path[:0] = arguments.import_path
    import_operators(arguments)
    from delegatec.files import replacing
    from delegatec.frontend import archive
    from delegatec.program import weights_of, write_flat_tensors

    model = archive.load(
        arguments.program, trusted=arguments.trusted, sources=arguments.sources, postpone=True
    )
    with replacing(arguments.ptd) as file, model.checked():
        write_flat_tensors(
            weights_of(model.methods, model.external_weights),
            file,
            alignment=arguments.segment_alignment,
            sources=[model.file],
        )
    return 0
