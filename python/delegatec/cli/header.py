# SPDX-License-Identifier: Apache-2.0
"""`delegatec header`: writes the C++ header of a program, and checks what its app links."""

from __future__ import annotations

import argparse
import os

from delegatec.cli.documents import read_document
from delegatec.cli.errors import CommandLineError

INPUTS = ("pte", "ptd", "manifest", "memory", "signature")
OUTPUTS = ("header", "assembly")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program")
    parser.add_argument("--manifest", required=True, metavar="IN.json", help="its manifest")
    parser.add_argument("--memory", default="", metavar="IN.json", help="what `runner --memory` wrote of it")
    parser.add_argument(
        "--signature", default="", metavar="IN.json", help="the signature of its exported program"
    )
    parser.add_argument("--header", required=True, metavar="OUT.h", help="the header")
    parser.add_argument(
        "--namespace",
        default="",
        help="namespace of the class, by default the program's name; C++ must allow it, or gets underscores",
    )
    parser.add_argument("--runfile", default="", metavar="PATH", help="path of the program in the runfiles")
    parser.add_argument("--weights-runfile", default="", metavar="PATH", help="likewise of external weights")
    parser.add_argument(
        "--symbol", default="", help="instead of paths: what the symbols of the embedded files start with"
    )
    parser.add_argument("--ptd", default="", metavar="IN.ptd", help="its external weights")
    parser.add_argument(
        "--assembly", default="", metavar="OUT.S", help="the source that contains the embedded files"
    )
    for kind in ("pte", "ptd"):
        parser.add_argument(
            f"--included-{kind}",
            default="",
            metavar="PATH",
            help=f"path of the .{kind} as the assembler finds it; by default that of --{kind}",
        )
    parser.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="NAME",
        help="what the app links: the id of a backend, kernels or quantized_kernels; may be repeated",
    )
    parser.add_argument(
        "--exact",
        action="append",
        default=[],
        metavar="NAME",
        help="a library that must not be linked in vain; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the header, unless the app lacks a library."""
    from delegatec.app import (
        Location,
        arenas_from_json,
        assembly,
        header,
        identifier,
        link_problems,
        shapes_from_json,
    )
    from delegatec.app.assembly import EmbeddedFile
    from delegatec.diagnostics import DelegatecError
    from delegatec.files import replacing
    from delegatec.program.reader import read_program
    from delegatec.report.manifest import from_json

    program = read_program(arguments.pte)
    manifest = read_document(arguments.manifest, from_json)
    if manifest.file.bytes != program.file_bytes:
        raise CommandLineError(f"the manifest of {os.path.basename(arguments.pte)} describes another program")
    memory = (
        read_document(arguments.memory, arenas_from_json, "`runner --memory`") if arguments.memory else {}
    )
    signature = arguments.signature
    shapes = read_document(signature, shapes_from_json, "`delegatec export`") if signature else {}
    shown = manifest.label or os.path.basename(arguments.pte)
    problems = [*link_problems(manifest.runtime, shown, arguments.link, arguments.exact)]
    if problems:
        raise DelegatecError(problems)
    name = arguments.namespace or os.path.basename(arguments.pte).removesuffix(".pte")
    namespace = "::".join(map(identifier, name.split("::")))
    symbol = arguments.symbol
    location = Location(arguments.runfile, arguments.weights_runfile, symbol, bool(arguments.ptd))
    text = header(program, manifest, namespace, location, memory, shapes)
    with replacing(arguments.header) as file:
        file.write(text.encode())
    if arguments.assembly:
        files = []
        if symbol:
            files.append(
                EmbeddedFile(f"{symbol}_pte", arguments.pte, arguments.included_pte or arguments.pte)
            )
        if symbol and arguments.ptd:
            files.append(
                EmbeddedFile(f"{symbol}_ptd", arguments.ptd, arguments.included_ptd or arguments.ptd)
            )
        with replacing(arguments.assembly) as file:
            file.write(assembly(files).encode())
    return 0
