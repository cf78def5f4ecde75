# SPDX-License-Identifier: Apache-2.0
"""`delegatec bundle`: collects programs, weights and licenses in a directory or a zip file, with an index."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath

from delegatec.cli.documents import read_document
from delegatec.cli.errors import CommandLineError

INPUTS = ("manifest", "program")
OUTPUTS = ("zip",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    each = "; one for each program, in the same order"
    for flag, metavar, text in (
        ("--program", "IN.pte", "a program; may be repeated"),
        ("--manifest", "IN.json", f"its manifest{each}"),
        ("--name", "PATH", f"its path in the bundle{each}"),
        ("--uses", "PATH", f"path of its weights in the bundle, or nothing{each}"),
    ):
        parser.add_argument(flag, action="append", required=True, metavar=metavar, help=text)
    for flag, text in (("--weights", "a .ptd file"), ("--license", "the text of a license")):
        parser.add_argument(
            flag, action="append", default=[], type=_named, metavar="PATH=FILE", help=f"{text}, as PATH"
        )
    parser.add_argument("--directory", default="", metavar="OUT", help="the bundle as a directory")
    parser.add_argument("--zip", default="", metavar="OUT.zip", help="the bundle as an uncompressed zip file")


def run(arguments: argparse.Namespace) -> int:
    """Writes the bundle."""
    from delegatec.files import replacing
    from delegatec.report.bundle import INDEX, Member, index_of, write_directory, write_zip
    from delegatec.report.manifest import from_json

    if not arguments.directory and not arguments.zip:
        raise CommandLineError("no output requested: expected --directory or --zip")
    lists = (arguments.program, arguments.manifest, arguments.name, arguments.uses)
    if len({len(each) for each in lists}) > 1:
        raise CommandLineError("expected one --manifest, --name and --uses for each --program")
    members = [
        Member(name, read_document(manifest, from_json), weights)
        for _, manifest, name, weights in zip(*lists, strict=True)
    ]
    named = [
        *((name, Path(program)) for program, _, name, _ in zip(*lists, strict=True)),
        *arguments.weights,
        *arguments.license,
    ]
    files = dict(named)
    twice = sorted({name for name, path in named if files[name] != path or name == INDEX})
    if twice:
        raise CommandLineError(f"several files of the bundle have one path: {', '.join(twice)}")
    missing = sorted({member.weights for member in members if member.weights} - set(files))
    if missing:
        raise CommandLineError(f"the bundle lacks {', '.join(missing)}: expected --weights=PATH=FILE")
    outside = sorted(name for name in files if not _is_below(name))
    if outside:
        paths = ", ".join(map(repr, outside))
        raise CommandLineError(f"not a path in the bundle: {paths}; expected a relative one without ..")
    for member in members:
        size = files[member.name].stat().st_size
        if member.manifest.file.bytes != size:
            described = f"a file of {member.manifest.file.bytes} bytes, and it has {size}"
            raise CommandLineError(f"the manifest of {member.name} describes another program: {described}")
    index = index_of(members, files, [name for name, _ in arguments.license])
    if arguments.directory:
        write_directory(Path(arguments.directory), files, index)
    if arguments.zip:
        with replacing(arguments.zip) as file:
            write_zip(file, files, index)
    return 0


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path.name != ""


def _named(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not separator or not name or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATH=FILE")
    return name, Path(path)
