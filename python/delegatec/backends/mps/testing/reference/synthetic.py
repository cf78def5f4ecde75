# SPDX-License-Identifier: Apache-2.0
"""Handwritten blobs of one operation or a few, for tests of the executor.

In their tables, ids 0 to 4 are inputs, 5 to 9 constants, 10 to 14 results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import flatbuffers
import torch
from delegatec_schemas import mps_graph as schema

from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.unspecified import DEFAULT, Unspecified

RESULT: Final = 10
_VALUES: Final = 15
_TYPES: Final = {
    torch.float16: 1,
    torch.float32: 2,
    torch.int8: 6,
    torch.int16: 7,
    torch.int32: 8,
    torch.int64: 9,
    torch.bool: 15,
}
INT4: Final = 5


@dataclass(frozen=True)
class Case:
    """An operation and its results.

    Attributes:
        table: its unpacked table.
        inputs: of ids 0 and up.
        expected: returns its results for the inputs, with floats as float64.
        constants: by id.
        int4: constants of that type by id, as int8.
        bounds: the node's `min_max`.
        half: whether floats may be float16 as well.
        dtypes: of the results, if not the promoted dtype of the operands.
    """

    table: object
    inputs: tuple[torch.Tensor, ...]
    expected: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
    constants: Mapping[int, torch.Tensor] = field(default_factory=dict)
    int4: Mapping[int, torch.Tensor] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    half: bool = True
    dtypes: tuple[torch.dtype, ...] = ()


def value(dtype: torch.dtype, shape: Sequence[int]) -> schema.ValueT:
    """A declared value."""
    return schema.ValueT(datatype=_TYPES[dtype], numDims=len(shape), dims=list(shape))


def make_blob(
    nodes: Sequence[tuple[str, object]],
    inputs: Sequence[torch.Tensor],
    results: Mapping[int, torch.Tensor],
    constants: Mapping[int, torch.Tensor] | None = None,
    int4: Mapping[int, torch.Tensor] | None = None,
    bounds: tuple[float, float] | None = None,
    edit: Callable[[schema.GraphT], Any] | None = None,
) -> bytes:
    """Returns a blob.

    Args:
        nodes: names and tables of the operations.
        inputs: templates of the inputs.
        results: templates of the outputs, by id.
        constants: by id.
        int4: constants of that type by id, as int8.
        bounds: `min_max` of all nodes.
        edit: changes the graph before it is written.
    """
    values = [value(torch.float32, [1]) for _ in range(_VALUES)]
    for id, tensor in [*enumerate(inputs), *results.items()]:
        values[id] = value(tensor.dtype, tensor.shape)
    segment = bytearray()
    for id, tensor in {**(constants or {}), **(int4 or {})}.items():
        values[id] = value(tensor.dtype, tensor.shape)
        data = tensor.contiguous().numpy().tobytes()
        if id in (int4 or {}):
            values[id].datatype = INT4
            data = bytes(
                (low & 15) | (high & 15) << 4 for low, high in zip(data[::2], data[1::2], strict=True)
            )
        values[id].segmentOffset, values[id].constantBufferSize = len(segment), len(data)
        segment += data
    graph = schema.GraphT(
        version="0",
        mpsNodes=[
            schema.NodeT(
                getattr(schema.Operation, name),
                table,
                schema.BoundsT(*bounds) if bounds is not None else None,
            )
            for name, table in nodes
        ],
        mpsValues=values,
        inputIds=list(range(len(inputs))),
        outputIds=list(results),
        constantIds=[*(constants or {}), *(int4 or {})],
        graphType=0,
    )
    if edit is not None:
        edit(graph)
    builder = flatbuffers.Builder(256)
    builder.Finish(graph.Pack(builder), file_identifier=b"MP00")
    flatbuffer = bytes(builder.Output())
    flatbuffer += bytes(-(24 + len(flatbuffer)) % 16)
    header = struct.pack("<4x4sQQ", b"MP00", 24 + len(flatbuffer), len(segment))
    return header + flatbuffer + bytes(segment)


def executor(blob: bytes, unspecified: Unspecified = DEFAULT, **limits: int) -> MpsReferenceExecutor:
    """Reads a blob."""
    return MpsReferenceExecutor(read_blob(memoryview(blob)), unspecified, **limits)


def blob_of(name: str, case: Case) -> tuple[bytes, list[torch.Tensor]]:
    """Returns a case's blob and expected results."""
    return _blob_of(name, case, case.inputs, case.constants)


def halved(name: str, case: Case) -> tuple[bytes, list[torch.Tensor], list[torch.Tensor]]:
    """Returns the case in float16, and the inputs."""
    inputs = tuple(_half(tensor) for tensor in case.inputs)
    if any(tensor.dtype == torch.float16 for tensor in inputs):
        narrow = {torch.float32: torch.float16}
        case = replace(case, dtypes=tuple(narrow.get(dtype, dtype) for dtype in case.dtypes))
    blob, wanted = _blob_of(name, case, inputs, {id: _half(tensor) for id, tensor in case.constants.items()})
    return blob, wanted, list(inputs)


def _blob_of(
    name: str, case: Case, inputs: tuple[torch.Tensor, ...], constants: Mapping[int, torch.Tensor]
) -> tuple[bytes, list[torch.Tensor]]:
    operands = [*inputs, *constants.values(), *case.int4.values()]
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in operands]
    found = case.expected(*wide)
    results = list(found) if isinstance(found, tuple) else [found]
    default = reduce(torch.promote_types, [tensor.dtype for tensor in operands], torch.bool)
    dtypes = case.dtypes or (default,) * len(results)
    results = [
        result if result.dtype == torch.bool else result.to(dtype)
        for result, dtype in zip(results, dtypes, strict=True)
    ]
    named = dict(enumerate(results, RESULT))
    return make_blob([(name, case.table)], inputs, named, constants, case.int4, case.bounds), results


def _half(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half() if tensor.dtype == torch.float32 else tensor
