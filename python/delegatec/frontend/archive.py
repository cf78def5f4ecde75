# SPDX-License-Identifier: Apache-2.0
"""The canonical `.pt2`: an archive for `torch.export.load` with bytes that depend only on the model.

Each run of weight memory is one stored, 64-byte aligned member that a reader can map, shared by all its names
and methods. torch's format has pickled example inputs, which `load` ignores: they are stored as plain tensors
and scalars, too.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._export.serde.serialize import serialize_torch_artifact
from torch.export import ExportedProgram
from torch.export.pt2_archive import constants as layout
from torch.export.pt2_archive._package import load_pt2

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.notes import Note
from delegatec.diagnostics.quiet import quiet_logs
from delegatec.files import MappedFile, replacing, sources_path
from delegatec.frontend.accuracy_json import accuracy_json, read_accuracy
from delegatec.frontend.aligned_zip import AlignedZipWriter
from delegatec.frontend.archive_members import (
    as_json,
    member_of,
    method_of,
    resolved,
    serialized,
    write_member,
    write_tensors,
)
from delegatec.frontend.notes_json import notes_json, read_notes
from delegatec.frontend.plain_values import decode, encode
from delegatec.frontend.pt2.fields import MalformedError, entries, parsed, qualified_name
from delegatec.frontend.pt2.program import read_program
from delegatec.frontend.pt2.tensors import read_tensors
from delegatec.frontend.pt2.zip_reader import MappedZip
from delegatec.frontend.search_json import located, read_search, search_json
from delegatec.frontend.sources import SourceTable, attach, detach, read_sources, write_sources
from delegatec.samples.accuracy import OutputAccuracy
from delegatec.samples.search import Search

# The version of torch's zip container, as torch.export.pt2_archive.PT2ArchiveWriter sets it.
_CONTAINER_VERSION: Final = b"6\n"

# torch.export.load returns the contents of this directory without reading them.
_CONSTANT_METHODS: Final = f"{layout.EXTRA_DIR}constant_methods.json"
# Instead of a method's name; not a valid one.
_CONSTANT_METHOD_TENSORS: Final = "constant-methods"
# Example inputs without pickle: torch reads its own copies.
_EXAMPLE_INPUTS: Final = f"{layout.EXTRA_DIR}example_inputs.json"
_EXAMPLE_INPUT_TENSORS: Final = "example-inputs"
# Names of weights that programs load from a .ptd.
_EXTERNAL_WEIGHTS: Final = f"{layout.EXTRA_DIR}external_weights.json"
_NAMES: Final = "names"
# The error of a quantized model.
_ACCURACY: Final = f"{layout.EXTRA_DIR}accuracy.json"
_MODEL_NOTES: Final = f"{layout.EXTRA_DIR}notes.json"
_SEARCH: Final = f"{layout.EXTRA_DIR}search.json"

_LONGEST_MESSAGE: Final = 200
# Messages about files that are not a .pt2 of any version.
_ANOTHER_KIND: Final = ("not a ", f"{layout.ARCHIVE_FORMAT_PATH} is missing")
# The exceptions that torch raises for a file that it cannot read.
_TRUSTED_ERRORS: Final = (
    *(ValueError, TypeError, RuntimeError, LookupError, AttributeError, AssertionError, ImportError),
)


@dataclass(frozen=True)
class LoadedModel:
    """A model from an archive.

    Attributes:
        methods: method name -> its program. Parameters, buffers and constants are read-only mappings of the
            file: writing to one kills the process. Example inputs are in `ExportedProgram.example_inputs`.
        file: the archive, which the weights are mapped from.
        constant_methods: method name -> the value that it returns.
        check: checks postponed checksums; see `load`.
        accuracy: the error of each output, if the model is quantized.
        external_weights: names of weights that programs load from a `.ptd`, as in `Model`.
        notes: method -> notes on what it was made from, without lines.
        search: how layers in float were chosen, if the model was quantized with a limit of its loss.
    """

    methods: dict[str, ExportedProgram]
    file: MappedFile
    constant_methods: dict[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    accuracy: tuple[OutputAccuracy, ...] = ()
    external_weights: tuple[str, ...] = ()
    notes: dict[str, tuple[Note, ...]] = field(default_factory=dict)
    search: Search | None = None

    @contextmanager
    def checked(self) -> Iterator[None]:
        """A scope that checks postponed checksums at its end: damage explains the errors inside it."""
        try:
            yield
        except Exception:
            self.check()
            raise
        self.check()


def save(
    methods: Mapping[str, ExportedProgram],
    path: str,
    constant_methods: Mapping[str, Any] | None = None,
    *,
    sources: str | None = None,
    table: SourceTable | None = None,
    accuracy: Sequence[OutputAccuracy] = (),
    external_weights: Collection[str] = (),
    notes: Mapping[str, Sequence[Note]] | None = None,
    search: Search | None = None,
) -> None:
    """Writes the programs of a model, and their lines; creates files only on success.

    Args:
        methods: method name -> program, on CPU, with plain pytrees (`plain_trees`).
        path: the `.pt2` to write.
        constant_methods: method name -> the value that it returns, as in `Model`.
        sources: the file of lines to write (`frontend.sources`); by default NAME.sources.json next to
            NAME.pt2; "" for none.
        table: the lines that the programs refer to already, as after `load(path, sources="")`.
        accuracy: the error of each output of a quantized model.
        external_weights: names of weights that programs load from a `.ptd`, as in `Model`.
        notes: method -> notes on what the programs were made from, without lines.
        search: how layers in float were chosen.

    Raises:
        DelegatecError: DC119, a node that torch cannot serialize.
    """
    table = table or SourceTable()
    with replacing(path) as file, AlignedZipWriter(file, layout.ARCHIVE_ROOT_NAME) as archive:
        write_member(archive, layout.ARCHIVE_FORMAT_PATH, layout.ARCHIVE_FORMAT_VALUE.encode())
        write_member(archive, layout.ARCHIVE_VERSION_PATH, layout.ARCHIVE_VERSION_VALUE.encode())
        write_member(archive, ".data/version", _CONTAINER_VERSION)
        write_member(archive, "byteorder", b"little")
        for method, program in methods.items():
            name = member_of(method)
            stored = serialized(program)
            detach(method, stored, table)
            write_member(archive, layout.MODELS_FILENAME_FORMAT.format(name), as_json(stored))
            example = serialize_torch_artifact(program.example_inputs)
            write_member(archive, layout.SAMPLE_INPUTS_FILENAME_FORMAT.format(name), example)
        write_tensors(
            archive,
            {name: resolved(program.state_dict) for name, program in methods.items()},
            layout.WEIGHTS_DIR + layout.WEIGHT_FILENAME_PREFIX,
            layout.WEIGHTS_CONFIG_FILENAME_FORMAT,
        )
        constants = {name: resolved(program.constants) for name, program in methods.items()}
        if constant_methods:
            text, tensors = encode(constant_methods)
            write_member(archive, _CONSTANT_METHODS, text.encode())
            constants[_CONSTANT_METHOD_TENSORS] = tensors
        if external_weights:
            write_member(archive, _EXTERNAL_WEIGHTS, as_json({_NAMES: sorted(external_weights)}))
        if accuracy:
            write_member(archive, _ACCURACY, accuracy_json(accuracy))
        if notes:
            write_member(archive, _MODEL_NOTES, notes_json(notes))
        if search is not None:
            write_member(archive, _SEARCH, search_json(search))
        examples = {name: program.example_inputs for name, program in methods.items()}
        text, tensors = encode({name: example for name, example in examples.items() if example is not None})
        write_member(archive, _EXAMPLE_INPUTS, text.encode())
        constants[_EXAMPLE_INPUT_TENSORS] = tensors
        write_tensors(
            archive,
            constants,
            layout.CONSTANTS_DIR + layout.TENSOR_CONSTANT_FILENAME_PREFIX,
            layout.CONSTANTS_CONFIG_FILENAME_FORMAT,
        )
        if sources != "":
            write_sources(table, sources or sources_path(path))


def load(
    path: str, *, trusted: bool = False, postpone: bool = False, sources: str | None = None
) -> LoadedModel:
    """Reads an archive, mapping its weights.

    Nothing in the file is evaluated, imported or unpickled.

    Args:
        path: a `.pt2`, written by `save` or `torch.export.save`.
        trusted: read programs with torch's own reader, which runs code in the file; its weights are copied.
        postpone: leave the checksums of large weights to `LoadedModel.check`: weights that are copied to
            another file in between are read once. It raises DC120, too.
        sources: the file of its lines; by default NAME.sources.json next to NAME.pt2, if it exists; "" for
            none: then locations refer to nodes (`SourceTable.location`).

    Raises:
        OSError: the file cannot be opened.
        DelegatecError: DC120, it is not an archive, is damaged, is from another version of torch, or needs
            code to run; DC121, it calls operators that are not registered in this process.
    """
    if sources is None:
        found = sources_path(path)
        sources = found if os.path.exists(found) else ""
    table = read_sources(sources) if sources else SourceTable()
    with _diagnosed(path, trusted), table.locating():
        archive = MappedZip(path, postpone)
        for name, expected in (
            (layout.ARCHIVE_FORMAT_PATH, layout.ARCHIVE_FORMAT_VALUE),
            ("byteorder", "little"),
        ):
            if bytes(archive.view(name)) != expected.encode():
                raise MalformedError(f"{name} is not {expected}")
        constants = _plain_values(archive, _CONSTANT_METHODS, _CONSTANT_METHOD_TENSORS)
        is_measured = _ACCURACY in archive.names()
        accuracy = read_accuracy(archive.view(_ACCURACY), _ACCURACY) if is_measured else ()
        notes = (
            read_notes(archive.view(_MODEL_NOTES), _MODEL_NOTES) if _MODEL_NOTES in archive.names() else {}
        )
        search = read_search(archive.view(_SEARCH), _SEARCH) if _SEARCH in archive.names() else None
        external = _external_weights(archive)
        with quiet_logs(logging.ERROR):  # torch logs errors that become diagnostics
            methods = _load_trusted(path) if trusted else _load_methods(archive)
        attach(methods, table)

    def check() -> None:
        with _diagnosed(path, trusted):
            archive.check()

    search = search and located(search, table)
    return LoadedModel(methods, archive.file, constants, check, accuracy, external, notes, search)


@contextmanager
def _diagnosed(path: str, trusted: bool) -> Iterator[None]:
    """Reports errors of the reader of an archive."""
    try:
        yield
        return
    except MalformedError as error:
        message, help = str(error), "export the model again with this version of the compiler"
        if message.startswith(_ANOTHER_KIND):
            help = "pass a .pt2 that `delegatec export` or torch.export.save wrote"
        elif not trusted:
            help += "; for a file from a source you trust, pass --trusted: torch then runs code in it"
    except _TRUSTED_ERRORS as error:
        if not trusted:
            raise
        message, help = str(error), "export the model again with this version of the compiler"
        if isinstance(error, ImportError):
            help = "install the module, or export the model by `delegatec.export`, which stores plain tensors"
    raise DelegatecError(
        [
            Diagnostic(
                code="DC120",
                message=f"cannot read {os.path.basename(path)}: {_short(message)}",
                expected=f"a .pt2 for torch {torch.__version__}, written by `delegatec export`",
                help=help,
            )
        ]
    )


def _load_methods(archive: MappedZip) -> dict[str, ExportedProgram]:
    examples = _plain_values(archive, _EXAMPLE_INPUTS, _EXAMPLE_INPUT_TENSORS)
    prefix, suffix = layout.MODELS_FILENAME_FORMAT.split("{}")
    members = [
        name[len(prefix) : -len(suffix)]
        for name in archive.names()
        if name.startswith(prefix) and name.endswith(suffix)
    ]
    if not members:
        raise MalformedError("it contains no program")
    methods: dict[str, ExportedProgram] = {}
    for member in members:
        method = method_of(member)
        if not method.isidentifier() or method in methods:
            raise MalformedError(f"invalid name of a method: {method}")
        example = examples.get(method)
        if example is not None and [type(part) for part in [*example][:3]] != [tuple, dict]:
            raise MalformedError("invalid example inputs")
        name = layout.MODELS_FILENAME_FORMAT.format(member)
        methods[method] = read_program(
            parsed(archive.view(name), name),
            read_tensors(archive, layout.WEIGHTS_CONFIG_FILENAME_FORMAT.format(member), layout.WEIGHTS_DIR),
            read_tensors(
                archive, layout.CONSTANTS_CONFIG_FILENAME_FORMAT.format(member), layout.CONSTANTS_DIR
            ),
            example,
        )
    return methods


def _load_trusted(path: str) -> dict[str, ExportedProgram]:
    programs = load_pt2(path).exported_programs
    return {method_of(member): program for member, program in programs.items()}


def _plain_values(archive: MappedZip, name: str, tensors: str) -> dict[str, Any]:
    if name not in archive.names():
        return {}
    config = layout.CONSTANTS_CONFIG_FILENAME_FORMAT.format(tensors)
    return decode(archive.view(name), read_tensors(archive, config, layout.CONSTANTS_DIR), name)


def _external_weights(archive: MappedZip) -> tuple[str, ...]:
    if _EXTERNAL_WEIGHTS not in archive.names():
        return ()
    names = parsed(archive.view(_EXTERNAL_WEIGHTS), _EXTERNAL_WEIGHTS).get(_NAMES)
    return tuple(entries(names, _EXTERNAL_WEIGHTS, qualified_name))


def _short(message: str) -> str:
    """Returns the first line of a message, which may quote the file, without control characters."""
    line = message.strip().partition("\n")[0]
    plain = "".join(character if character.isprintable() else "?" for character in line[:_LONGEST_MESSAGE])
    return plain + "..." * (len(line) > _LONGEST_MESSAGE)
