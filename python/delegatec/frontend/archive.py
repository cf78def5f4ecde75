# SPDX-License-Identifier: Apache-2.0
"""The canonical `.pt2`: an archive for `torch.export.load` with bytes that depend only on the model.

Each run of weight memory is one stored, 64-byte aligned member that a reader can map, shared by all its names
and methods. torch's format has pickled example inputs, which `load` ignores: they are stored as plain tensors
and numbers, too.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import (
    EnumEncoder,
    GraphModuleSerializer,
    SerializeError,
    _dataclass_to_dict,
    serialize_range_constraints,
    serialize_tensor_meta,
    serialize_torch_artifact,
)
from torch.export import ExportedProgram
from torch.export.pt2_archive import constants as layout
from torch.export.pt2_archive._package import load_pt2

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.quiet import quiet_logs
from delegatec.files import MappedFile, replacing, sources_path
from delegatec.frontend.aligned_zip import AlignedZipWriter
from delegatec.frontend.operators import not_storable
from delegatec.frontend.plain_values import decode, encode
from delegatec.frontend.pt2.fields import MalformedError, parsed
from delegatec.frontend.pt2.program import read_program
from delegatec.frontend.pt2.tensors import read_tensors
from delegatec.frontend.pt2.zip_reader import MappedZip
from delegatec.frontend.sources import SourceTable, attach, detach, read_sources, write_sources
from delegatec.frontend.storages import Region, regions

# torch.export.load expects the name "model" for the program of an archive with a single one.
_FORWARD: Final = "forward"
_FORWARD_MEMBER: Final = "model"
# The version of torch's zip container, as torch.export.pt2_archive.PT2ArchiveWriter sets it.
_CONTAINER_VERSION: Final = b"6\n"

# torch.export.load returns the contents of this directory without reading them.
_CONSTANT_METHODS: Final = f"{layout.EXTRA_DIR}constant_methods.json"
# In the place of a method's name; not a valid one.
_CONSTANT_METHOD_TENSORS: Final = "constant-methods"
# Example inputs without pickle: torch reads its own copies.
_EXAMPLE_INPUTS: Final = f"{layout.EXTRA_DIR}example_inputs.json"
_EXAMPLE_INPUT_TENSORS: Final = "example-inputs"

_LONGEST_MESSAGE: Final = 200
# Messages about files that are not a .pt2 of any version.
_ANOTHER_KIND: Final = ("not a ", f"{layout.ARCHIVE_FORMAT_PATH} is missing")
# What torch raises for a file that it cannot read.
_TRUSTED_ERRORS: Final = (ValueError, TypeError, RuntimeError, LookupError, AttributeError, AssertionError)

TensorKey = tuple[str, str]


@dataclass(frozen=True)
class LoadedModel:
    """A model from an archive.

    Attributes:
        methods: method name -> its program. Parameters, buffers and constants are read-only mappings of the
            file: writing to one kills the process. Example inputs are in `ExportedProgram.example_inputs`.
        file: the archive, which the weights are mapped from.
        constant_methods: method name -> the value that it returns.
        check: checks postponed checksums; see `load`.
    """

    methods: dict[str, ExportedProgram]
    file: MappedFile
    constant_methods: dict[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None

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
) -> None:
    """Writes the programs of a model, and their lines; creates files only on success.

    Args:
        methods: method name -> program, on CPU, with plain pytrees (`plain_trees`).
        path: the `.pt2` to write.
        constant_methods: method name -> the value that it returns, as in `Model`.
        sources: the file of lines to write (`frontend.sources`); by default NAME.sources.json next to
            NAME.pt2; "" for none.
        table: the lines that the programs refer to already, as after `load(path, sources="")`.

    Raises:
        DelegatecError: DC119, a node that torch cannot serialize.
    """
    table = table or SourceTable()
    with replacing(path) as file, AlignedZipWriter(file, layout.ARCHIVE_ROOT_NAME) as archive:
        _write(archive, layout.ARCHIVE_FORMAT_PATH, layout.ARCHIVE_FORMAT_VALUE.encode())
        _write(archive, layout.ARCHIVE_VERSION_PATH, layout.ARCHIVE_VERSION_VALUE.encode())
        _write(archive, ".data/version", _CONTAINER_VERSION)
        _write(archive, "byteorder", b"little")
        for method, program in methods.items():
            name = _member(method)
            serialized = _serialized(program)
            detach(method, serialized, table)
            _write(archive, layout.MODELS_FILENAME_FORMAT.format(name), _json(serialized))
            example = serialize_torch_artifact(program.example_inputs)
            _write(archive, layout.SAMPLE_INPUTS_FILENAME_FORMAT.format(name), example)
        _write_tensors(
            archive,
            {name: _resolved(program.state_dict) for name, program in methods.items()},
            layout.WEIGHTS_DIR + layout.WEIGHT_FILENAME_PREFIX,
            layout.WEIGHTS_CONFIG_FILENAME_FORMAT,
        )
        constants = {name: _resolved(program.constants) for name, program in methods.items()}
        if constant_methods:
            text, tensors = encode(constant_methods)
            _write(archive, _CONSTANT_METHODS, text.encode())
            constants[_CONSTANT_METHOD_TENSORS] = tensors
        examples = {name: program.example_inputs for name, program in methods.items()}
        text, tensors = encode({name: example for name, example in examples.items() if example is not None})
        _write(archive, _EXAMPLE_INPUTS, text.encode())
        constants[_EXAMPLE_INPUT_TENSORS] = tensors
        _write_tensors(
            archive,
            constants,
            layout.CONSTANTS_DIR + layout.TENSOR_CONSTANT_FILENAME_PREFIX,
            layout.CONSTANTS_CONFIG_FILENAME_FORMAT,
        )
        if sources != "":
            write_sources(table, sources or sources_path(path))


def _resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by name, with conjugated and negated views, which share memory, materialized."""
    return {name: _materialized(value) for name, value in values.items()}


def _materialized(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not (value.is_conj() or value.is_neg()):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)


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
        with quiet_logs(logging.ERROR):  # torch logs errors that become diagnostics
            methods = _load_trusted(path) if trusted else _load_methods(archive)
        attach(methods, table)

    def check() -> None:
        with _diagnosed(path, trusted):
            archive.check()

    return LoadedModel(methods, archive.file, constants, check)


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
        method = _method(member)
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
    return {_method(member): program for member, program in programs.items()}


def _plain_values(archive: MappedZip, name: str, tensors: str) -> dict[str, Any]:
    if name not in archive.names():
        return {}
    config = layout.CONSTANTS_CONFIG_FILENAME_FORMAT.format(tensors)
    return decode(archive.view(name), read_tensors(archive, config, layout.CONSTANTS_DIR), name)


def _serialized(program: ExportedProgram) -> schema.ExportedProgram:
    """Serializes a program like torch, without its copies that test canonicalization."""
    serializer = GraphModuleSerializer(program.graph_signature, program.module_call_graph)
    try:
        with quiet_logs():  # torch warns of control flow without extra operands
            graph_module = serializer.serialize(program.graph_module)
    except SerializeError as error:
        raise DelegatecError([not_storable(program, error)]) from error
    return schema.ExportedProgram(
        graph_module=graph_module,
        opset_version={"aten": torch._C._get_max_operator_version()},
        range_constraints=serialize_range_constraints(program.range_constraints),
        schema_version=schema.SchemaVersion(*schema.SCHEMA_VERSION),
        verifiers=[verifier.dialect for verifier in program.verifiers],
        torch_version=torch.__version__,
        guards_code=program._guards_code,
    )


def _write_tensors(
    archive: AlignedZipWriter,
    tensors: Mapping[str, Mapping[str, torch.Tensor]],
    prefix: str,
    config_format: str,
) -> None:
    payloads: dict[str, dict[str, schema.PayloadMeta]] = {method: {} for method in tensors}
    stored = regions(
        {(method, name): tensor for method, named in tensors.items() for name, tensor in named.items()}
    )
    for index, region in enumerate(stored):
        path = f"{prefix}{index}"
        archive.write(path, [region.bytes()], region.end - region.start)
        for (method, name), tensor in region.members:
            payloads[method][name] = _payload(tensor, os.path.basename(path), region)
    for method, config in payloads.items():
        ordered = {name: config[name] for name in tensors[method]}
        _write(archive, config_format.format(_member(method)), _json(schema.PayloadConfig(config=ordered)))


def _payload(tensor: torch.Tensor, path: str, region: Region[TensorKey]) -> schema.PayloadMeta:
    meta = serialize_tensor_meta(tensor)
    meta.storage_offset = schema.SymInt.create(as_int=region.offset(tensor))  # type: ignore[no-untyped-call]
    return schema.PayloadMeta(
        path_name=path, is_param=isinstance(tensor, torch.nn.Parameter), use_pickle=False, tensor_meta=meta
    )


def _write(archive: AlignedZipWriter, name: str, content: bytes) -> None:
    archive.write(name, [content], len(content))


def _json(value: Any) -> bytes:
    plain = _dataclass_to_dict(value)  # type: ignore[no-untyped-call]
    return json.dumps(plain, cls=EnumEncoder, allow_nan=False, separators=(",", ":")).encode()


def _member(method: str) -> str:
    return _FORWARD_MEMBER if method == _FORWARD else method


def _method(member: str) -> str:
    return _FORWARD if member == _FORWARD_MEMBER else member


def _short(message: str) -> str:
    """Returns the first line of a message, which may quote the file, without control characters."""
    line = message.strip().partition("\n")[0]
    plain = "".join(character if character.isprintable() else "?" for character in line[:_LONGEST_MESSAGE])
    return plain + "..." * (len(line) > _LONGEST_MESSAGE)
