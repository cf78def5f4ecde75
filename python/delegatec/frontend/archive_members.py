# SPDX-License-Identifier: Apache-2.0
"""Members of a `.pt2`: their names, and how programs and tensors are written to them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
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
)
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError
from delegatec.diagnostics.quiet import quiet_logs
from delegatec.frontend.aligned_zip import AlignedZipWriter
from delegatec.frontend.operators import not_storable
from delegatec.frontend.storages import Region, regions

# torch.export.load expects the name "model" for the program of an archive with a single one.
_FORWARD: Final = "forward"
_FORWARD_MEMBER: Final = "model"
TensorKey = tuple[str, str]


def member_of(method: str) -> str:
    """Returns the name of a method in those of its members."""
    return _FORWARD_MEMBER if method == _FORWARD else method


def method_of(member: str) -> str:
    """Returns the method of a name in those of members."""
    return _FORWARD if member == _FORWARD_MEMBER else member


def serialized(program: ExportedProgram) -> schema.ExportedProgram:
    """Serializes a program like torch, without its copies that test canonicalization.

    Raises:
        DelegatecError: DC119, a node that torch cannot serialize.
    """
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


def write_tensors(
    archive: AlignedZipWriter,
    tensors: Mapping[str, Mapping[str, torch.Tensor]],
    prefix: str,
    config_format: str,
) -> None:
    """Writes tensors, each run of memory once, and a config of each method that refers to them.

    Args:
        archive: the archive.
        tensors: method -> name -> the tensor.
        prefix: of the members with memory.
        config_format: name of the config of a method, `{}` for the method.
    """
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
        content = as_json(schema.PayloadConfig(config=ordered))
        write_member(archive, config_format.format(member_of(method)), content)


def _payload(tensor: torch.Tensor, path: str, region: Region[TensorKey]) -> schema.PayloadMeta:
    meta = serialize_tensor_meta(tensor)
    meta.storage_offset = schema.SymInt.create(as_int=region.offset(tensor))  # type: ignore[no-untyped-call]
    return schema.PayloadMeta(
        path_name=path, is_param=isinstance(tensor, torch.nn.Parameter), use_pickle=False, tensor_meta=meta
    )


def write_member(archive: AlignedZipWriter, name: str, content: bytes) -> None:
    """Writes one member."""
    archive.write(name, [content], len(content))


def as_json(value: Any) -> bytes:
    """Returns a dataclass of torch's schema as JSON."""
    plain = _dataclass_to_dict(value)  # type: ignore[no-untyped-call]
    return json.dumps(plain, cls=EnumEncoder, allow_nan=False, separators=(",", ":")).encode()


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by name, with conjugated and negated views, which share memory, materialized."""
    return {name: _materialized(value) for name, value in values.items()}


def _materialized(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not (value.is_conj() or value.is_neg()):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)
