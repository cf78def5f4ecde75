# SPDX-License-Identifier: Apache-2.0
"""Reader of the values of a method."""

from __future__ import annotations

from collections.abc import Callable

from delegatec_schemas import program as schema

from delegatec.flatbuffer import Table
from delegatec.program.reader.data import Data
from delegatec.program.reader.model import (
    Allocation,
    BoolList,
    DoubleList,
    Dynamism,
    IntList,
    Tensor,
    TensorList,
    Value,
)
from delegatec.program.reader.shape import read_shape

_MEMBERS = {
    getattr(schema.KernelTypes, name): getattr(schema, name)
    for name in (
        "Null",
        "Int",
        "Bool",
        "Double",
        "Tensor",
        "String",
        "IntList",
        "DoubleList",
        "BoolList",
        "TensorList",
        "OptionalTensorList",
    )
}


def read_value(evalue: Table, data: Data, arena_bytes: tuple[int, ...]) -> Value:
    """Reads a value.

    Args:
        evalue: the EValue.
        data: the bytes of tensors.
        arena_bytes: size of each arena, to check allocations.

    Raises:
        DelegatecError: DC352, DC353 or DC354, naming the value.
    """
    tag, table = evalue.union("Val", _MEMBERS)
    if tag in (0, schema.KernelTypes.Null):  # the runtime accepts None without a table
        return None
    if table is None:
        evalue.fail("missing value")
    if tag == schema.KernelTypes.Tensor:
        return _tensor(table, data, arena_bytes)
    return _READERS[tag](table)


_READERS: dict[int, Callable[[Table], Value]] = {
    schema.KernelTypes.Int: lambda table: table.scalar("IntVal"),
    schema.KernelTypes.Bool: lambda table: table.boolean("BoolVal"),
    schema.KernelTypes.Double: lambda table: table.double("DoubleVal"),
    schema.KernelTypes.String: lambda table: table.text("StringVal"),
    schema.KernelTypes.IntList: lambda table: IntList(table.array("Items")),
    schema.KernelTypes.DoubleList: lambda table: DoubleList(table.array("Items")),
    schema.KernelTypes.BoolList: lambda table: BoolList(tuple(map(bool, table.array("Items")))),
    schema.KernelTypes.TensorList: lambda table: TensorList(table.array("Items")),
    schema.KernelTypes.OptionalTensorList: lambda table: TensorList(
        tuple(None if item == -1 else item for item in table.array("Items")), optional=True
    ),
}


def _tensor(table: Table, data: Data, arena_bytes: tuple[int, ...]) -> Tensor:
    shape = read_shape(table)
    if table.scalar("StorageOffset") != 0:
        table.fail(f"unsupported storage_offset {table.scalar('StorageOffset')}")
    dynamism = table.scalar("ShapeDynamism")
    if dynamism not in {member.value for member in Dynamism}:
        table.fail(f"unknown shape_dynamism {dynamism}")
    index = table.scalar("DataBufferIdx")
    allocation = _allocation(table, shape.nbytes, arena_bytes)
    extra = table.child("ExtraTensorInfo")
    name = extra.text("FullyQualifiedName") if extra is not None else ""
    external = extra is not None and extra.scalar("Location") == schema.TensorDataLocation.EXTERNAL
    content: memoryview | None = None
    if index > 0 and not external:
        if allocation is None:
            content = data.constant(index, shape.nbytes, table)
        else:
            group = extra.scalar("MutableDataSegmentsIdx") if extra is not None else 0
            content = data.initial_state(group, index, shape.nbytes, table)
    return Tensor(
        kind=shape.kind,
        sizes=shape.sizes,
        dim_order=shape.dim_order,
        dynamism=Dynamism(dynamism),
        allocation=allocation,
        data_index=index,
        data=content,
        external_key=name if external else None,
        name=name,
    )


def _allocation(tensor: Table, nbytes: int, arena_bytes: tuple[int, ...]) -> Allocation | None:
    table = tensor.child("AllocationInfo")
    if table is None:
        return None
    arena = table.scalar("MemoryId")
    offset = table.scalar("MemoryOffsetHigh") << 32 | table.scalar("MemoryOffsetLow")
    if not 1 <= arena < len(arena_bytes):
        table.fail(f"memory_id {arena} is out of range: there are {max(0, len(arena_bytes) - 1)} arenas")
    if offset + nbytes > arena_bytes[arena]:
        table.fail(f"bytes {offset} to {offset + nbytes} exceed an arena of {arena_bytes[arena]} bytes")
    return Allocation(arena=arena, offset=offset)
