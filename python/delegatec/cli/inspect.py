# SPDX-License-Identifier: Apache-2.0
"""`delegatec inspect`: prints the contents of a `.pte`, `.ptd` or `.pt2`, or of a delegate's blob."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from delegatec.cli.colors import INSPECTION, add_color_argument, write_colored
from delegatec.cli.documents import read_debug_map
from delegatec.cli.errors import CommandLineError
from delegatec.cli.kernel_arguments import add_module_argument, import_operators
from delegatec.cli.plugin_arguments import add_plugin_arguments, registry_of
from delegatec.cli.trusted import add_trusted_argument
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.documents import json_document

if TYPE_CHECKING:
    from delegatec.delegation import Backend, BackendRegistry, BlobLabels
    from delegatec.program.reader.model import Delegate

_ZIP: Final = b"PK\x03\x04"
# at byte 4 of a FlatBuffer with an identifier
_PROGRAM: Final = b"ET12"
_DATA_FILE: Final = b"FT01"

INPUTS = ("file", "debug_map")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("file", metavar="FILE", help="a .pte, .ptd or .pt2 file, or the blob of a delegate")
    parser.add_argument(
        "--lines", action="store_true", help="print the origin of each instruction of a .pte; text only"
    )
    parser.add_argument(
        "--debug-map",
        default="",
        metavar="IN.json",
        help="debug map written by `lower --debug`, for --lines and for names in --blobs",
    )
    add_plugin_arguments(parser)
    add_module_argument(parser)
    add_trusted_argument(parser)
    add_color_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")
    parser.add_argument(
        "--blobs", action="store_true", help="print the contents of the delegates' blobs of a .pte"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the contents of the file."""
    from delegatec.files import HEAD_BYTES, check_regular, kind_of_file

    check_regular(arguments.file)
    with open(arguments.file, "rb") as file:
        head = file.read(HEAD_BYTES)
    if head[4:8] != _PROGRAM:
        _check_no_extras(arguments, kind_of_file(head))
    if head[4:8] == _PROGRAM:
        _check_extras(arguments)
        text = _program_json(arguments) if arguments.format == "json" else _program(arguments)
    elif head[4:8] == _DATA_FILE:
        text = _data_file(arguments.file, arguments.format)
    elif head.startswith(_ZIP):
        sys.path[:0] = arguments.import_path
        import_operators(arguments)
        text = _exported(arguments.file, arguments.format, arguments.trusted)
    else:
        text = _blob(arguments.file, arguments.format, registry_of(arguments))
    if arguments.format == "json":
        sys.stdout.write(text)
    else:
        write_colored(text, INSPECTION, arguments.color)
    return 0


def _program(arguments: argparse.Namespace) -> str:
    from delegatec.report.inspection import inspect_program
    from delegatec.report.text import format_program

    text = format_program(inspect_program(arguments.file, _backends(arguments)))
    if arguments.lines:
        text += _lines(arguments.file, arguments.debug_map)
    if arguments.blobs:
        text += _blobs_of(arguments.file, registry_of(arguments), arguments.debug_map)
    return text


def _program_json(arguments: argparse.Namespace) -> str:
    """Returns the contents as JSON; with --blobs, delegates with a graph have it."""
    from delegatec.delegation import Backend, blob_graph_json, plugins
    from delegatec.report.inspection import inspect_program

    contents = dataclasses.asdict(inspect_program(arguments.file, _backends(arguments)))
    if arguments.blobs:
        found = _delegates(arguments.file, registry_of(arguments), arguments.debug_map)
        described = {method["name"]: method["delegates"] for method in contents["methods"]}
        for method, index, delegate, backend, labels in found:
            graph = backend and plugins.call(Backend.graph, backend, delegate.blob)
            if graph:
                described[method][index]["graph"] = blob_graph_json(graph, labels)
    return json_document(contents)


def _backends(arguments: argparse.Namespace) -> Iterator[Backend]:
    """Yields the backends, which are imported first: a program without delegates does not need them."""
    yield from registry_of(arguments)


def _data_file(path: str, format_: str) -> str:
    from delegatec.report.data_file import inspect_data_file
    from delegatec.report.text import format_data_file

    contents = inspect_data_file(path)
    return json_document(dataclasses.asdict(contents)) if format_ == "json" else format_data_file(contents)


def _check_no_extras(arguments: argparse.Namespace, kind: str) -> None:
    for name in ("blobs", "lines", "debug_map"):
        if getattr(arguments, name):
            flag = name.replace("_", "-")
            raise CommandLineError(f"--{flag}: expected a .pte program; {kind}", "inspect")


def _check_extras(arguments: argparse.Namespace) -> None:
    if arguments.lines and arguments.format == "json":
        raise CommandLineError("--lines: expected --format text")
    if arguments.lines and not arguments.debug_map:
        raise CommandLineError("--lines: expected --debug-map as well: a .pte does not record source lines")


def _lines(program: str, path: str) -> str:
    from delegatec.program.reader import read_program
    from delegatec.report.debug_text import format_debug_map

    return "\n" + format_debug_map(read_debug_map(path, read_program(program), "--debug-map"))


def _blobs_of(path: str, backends: BackendRegistry, debug_map: str) -> str:
    """Returns the text of each delegate's blob, headed by its method and backend."""
    from delegatec.delegation import plugins

    parts = []
    for method, index, delegate, backend, labels in _delegates(path, backends, debug_map):
        text = backend and plugins.description(backend, delegate.blob, labels)
        text = text or "no backend that can read it is available"
        parts.append(f"\n{method}, delegate {index} ({delegate.id}): {text.rstrip()}\n")
    return "".join(parts)


def _delegates(
    path: str, backends: BackendRegistry, debug_map: str
) -> Iterator[tuple[str, int, Delegate, Backend | None, BlobLabels | None]]:
    """Yields each delegate, after its method and index, with its backend and labels, if known."""
    from delegatec.program.reader import read_program
    from delegatec.report.blob_labels import blob_labels

    program = read_program(path)
    labels = blob_labels(read_debug_map(debug_map, program, "--debug-map")) if debug_map else {}
    by_id = {backend.id: backend for backend in backends}
    for method in program.methods:
        for index, delegate in enumerate(method.delegates):
            yield method.name, index, delegate, by_id.get(delegate.id), labels.get((method.name, index))


def _exported(path: str, format_: str, trusted: bool) -> str:
    from delegatec.frontend import archive
    from delegatec.report.exported import format_model, inspect_model, value_text

    model = archive.load(path, trusted=trusted)
    methods = inspect_model(model.methods)
    constants = {name: value_text(value) for name, value in model.constant_methods.items()}
    if format_ == "json":
        returned = [{"name": name, "returns": text} for name, text in constants.items()]
        errors = {
            name: [dataclasses.asdict(each) for each in model.accuracy if each.method == name]
            for name in model.methods
        }
        described = [
            dataclasses.asdict(method)
            | ({"accuracy": errors[method.name]} if model.accuracy else {})
            | ({"search": dataclasses.asdict(model.search)} if model.search else {})
            for method in methods
        ]
        return json_document([*described, *returned])
    return format_model(methods, constants, model.accuracy, model.search)


def _blob(path: str, format_: str, backends: BackendRegistry) -> str:
    """Finds a backend that can describe a blob; raises DelegatecError if there is none."""
    from delegatec.delegation import plugins

    content = memoryview(Path(path).read_bytes())
    faults: list[Diagnostic] = []
    for backend in backends:
        try:
            text = plugins.description(backend, content)
        except DelegatecError as error:
            faults += [problem for problem in error.diagnostics if problem.code in ("DC410", "DC411")]
            continue
        if not text:
            continue
        if format_ == "json":
            return json_document({"backend": backend.id, "bytes": len(content), "text": text})
        return f"blob for {backend.id}, {len(content)} B\n{text.rstrip()}\n"
    raise DelegatecError(
        faults
        or [
            Diagnostic(
                code="DC350",
                message="unknown file format: not a .pte, .ptd or .pt2 file, nor the blob of a delegate",
                help="pass a file written by `delegatec export`, `delegatec lower` or `delegatec weights`",
            )
        ]
    )
