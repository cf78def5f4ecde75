# SPDX-License-Identifier: Apache-2.0
"""The canonical `.pt2`: an archive for `torch.export.load` with bytes that depend only on the model.

Each run of weight memory is one stored, 64-byte aligned member that a reader can map, shared by all its names
and methods. Only the example inputs are unpickled, as torch's format requires; `weights_only` restricts their
types.
"""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import (
    EnumEncoder,
    ExportedProgramDeserializer,
    GraphModuleSerializer,
    SerializeError,
    _dataclass_to_dict,
    deserialize_scalar_type,
    deserialize_size,
    deserialize_storage_offset,
    deserialize_stride,
    serialize_range_constraints,
    serialize_tensor_meta,
    serialize_torch_artifact,
)
from torch.export import ExportedProgram
from torch.export.pt2_archive import constants as layout

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.quiet import quiet_logs
from delegatec.files import MappedFile, replacing
from delegatec.frontend.aligned_zip import AlignedZipWriter, MappedZip
from delegatec.frontend.constant_methods import decode, encode
from delegatec.frontend.operators import not_storable, unregistered_operators
from delegatec.frontend.schema_json import from_json
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

TensorKey = tuple[str, str]


@dataclass(frozen=True)
class LoadedModel:
    """A model from an archive.

    Attributes:
        methods: method name -> its program. Parameters, buffers and constants are read-only mappings of the
            file: writing to one kills the process. Example inputs are in `ExportedProgram.example_inputs`.
        file: the archive, which the weights are mapped from.
        constant_methods: method name -> the value that it returns.
    """

    methods: dict[str, ExportedProgram]
    file: MappedFile
    constant_methods: dict[str, Any] = field(default_factory=dict)


def save(
    methods: Mapping[str, ExportedProgram], path: str, constant_methods: Mapping[str, Any] | None = None
) -> None:
    """Writes the programs of a model; creates `path` only on success.

    Args:
        methods: method name -> program, on CPU, with plain pytrees (`plain_trees`).
        path: the `.pt2` to write.
        constant_methods: method name -> the value that it returns, as in `Model`.

    Raises:
        DelegatecError: DC119, a node that torch cannot serialize.
    """
    with replacing(path) as file, AlignedZipWriter(file, layout.ARCHIVE_ROOT_NAME) as archive:
        _write(archive, layout.ARCHIVE_FORMAT_PATH, layout.ARCHIVE_FORMAT_VALUE.encode())
        _write(archive, layout.ARCHIVE_VERSION_PATH, layout.ARCHIVE_VERSION_VALUE.encode())
        _write(archive, ".data/version", _CONTAINER_VERSION)
        _write(archive, "byteorder", b"little")
        for method, program in methods.items():
            name = _member(method)
            _write(archive, layout.MODELS_FILENAME_FORMAT.format(name), _json(_serialized(program)))
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
        _write_tensors(
            archive,
            constants,
            layout.CONSTANTS_DIR + layout.TENSOR_CONSTANT_FILENAME_PREFIX,
            layout.CONSTANTS_CONFIG_FILENAME_FORMAT,
        )


def _resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by name, with conjugated and negated views, which share memory, materialized."""
    return {
        name: value.resolve_conj().resolve_neg() if isinstance(value, torch.Tensor) else value
        for name, value in values.items()
    }


def load(path: str) -> LoadedModel:
    """Reads an archive, mapping its weights.

    Args:
        path: a `.pt2` written by `save`.

    Raises:
        OSError: the file cannot be opened.
        DelegatecError: DC120, it is not an archive, is damaged, or is from another version of torch; DC121,
            it calls operators that are not registered in this process.
    """
    try:
        archive = MappedZip(path)
        if bytes(archive.view(layout.ARCHIVE_FORMAT_PATH)).decode() != layout.ARCHIVE_FORMAT_VALUE:
            raise zipfile.BadZipFile("not a pt2 archive")
        prefix, suffix = layout.MODELS_FILENAME_FORMAT.split("{}")
        members = [name[len(prefix) : -len(suffix)] for name in archive.names() if name.startswith(prefix)]
        methods = {_method(member): _load_program(archive, member) for member in members}
        return LoadedModel(methods, archive.file, _load_constant_methods(archive))
    except (KeyError, ValueError, TypeError, RuntimeError, zipfile.BadZipFile) as error:
        raise DelegatecError(
            [
                Diagnostic(
                    code="DC120",
                    message=f"cannot read {os.path.basename(path)}: {_first_line(error)}",
                    expected=f"a .pt2 for torch {torch.__version__}, written by `delegatec export`",
                    help="export the model again with this version of the compiler",
                )
            ]
        ) from error


def _load_constant_methods(archive: MappedZip) -> dict[str, Any]:
    if _CONSTANT_METHODS not in archive.names():
        return {}
    config = layout.CONSTANTS_CONFIG_FILENAME_FORMAT.format(_CONSTANT_METHOD_TENSORS)
    tensors = _read_tensors(archive, config, layout.CONSTANTS_DIR)
    return decode(bytes(archive.view(_CONSTANT_METHODS)).decode(), tensors)


def _load_program(archive: MappedZip, member: str) -> ExportedProgram:
    serialized: schema.ExportedProgram = _parse(
        schema.ExportedProgram, archive.view(layout.MODELS_FILENAME_FORMAT.format(member))
    )
    example = archive.view(layout.SAMPLE_INPUTS_FILENAME_FORMAT.format(member))
    weights = layout.WEIGHTS_CONFIG_FILENAME_FORMAT.format(member)
    constants = layout.CONSTANTS_CONFIG_FILENAME_FORMAT.format(member)
    if serialized.schema_version.major != schema.SCHEMA_VERSION[0]:
        raise ValueError(
            f"schema version {serialized.schema_version.major}; expected {schema.SCHEMA_VERSION[0]}"
        )
    problems = unregistered_operators(serialized.graph_module.graph)
    if problems:
        raise DelegatecError(problems)
    return ExportedProgramDeserializer().deserialize(
        serialized,
        _read_tensors(archive, weights, layout.WEIGHTS_DIR),
        _read_tensors(archive, constants, layout.CONSTANTS_DIR),
        torch.load(io.BytesIO(example), weights_only=True),
    )


def _read_tensors(archive: MappedZip, config: str, folder: str) -> dict[str, torch.Tensor]:
    payloads = _parse(schema.PayloadConfig, archive.view(config)).config
    tensors: dict[str, torch.Tensor] = {}
    for name, payload in payloads.items():
        meta = payload.tensor_meta
        if payload.use_pickle or meta is None:
            raise ValueError(f"{name} is a pickled object")
        dtype = deserialize_scalar_type(meta.dtype)
        tensor = torch.as_strided(
            _mapped(archive.view(folder + payload.path_name), dtype),
            deserialize_size(meta.sizes),
            deserialize_stride(meta.strides),
            deserialize_storage_offset(meta.storage_offset),
        )
        tensors[name] = torch.nn.Parameter(tensor, requires_grad=False) if payload.is_param else tensor
    return tensors


def _mapped(view: memoryview, dtype: torch.dtype) -> torch.Tensor:
    if not view.nbytes:
        return torch.empty(0, dtype=dtype)
    with warnings.catch_warnings():
        # torch warns against writes to a tensor on read-only memory; nothing here writes to one.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(view, dtype=dtype)


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


def _parse(cls: type, content: memoryview) -> Any:
    return from_json(cls, json.loads(bytes(content)))


def _member(method: str) -> str:
    return _FORWARD_MEMBER if method == _FORWARD else method


def _method(member: str) -> str:
    return _FORWARD if member == _FORWARD_MEMBER else member


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
