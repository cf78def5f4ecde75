# SPDX-License-Identifier: Apache-2.0
"""Serialization of values to a program's FlatBuffer."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas import program as schema

from delegatec.program.emitted import ListValue, TensorValue, Value
from delegatec.program.file.flatbuffer import ints, scalars


def serialize_value(b: Any, value: Value) -> int:
    """Serializes an EValue, and returns its offset."""
    kind, offset = _payload(b, value)
    schema.EValueStart(b)
    schema.EValueAddValType(b, kind)
    schema.EValueAddVal(b, offset)
    return int(schema.EValueEnd(b))


def _payload(b: Any, value: Value) -> tuple[int, int]:
    kinds = schema.KernelTypes
    if value is None:
        schema.NullStart(b)
        return kinds.Null, schema.NullEnd(b)
    if isinstance(value, bool):
        schema.BoolStart(b)
        schema.BoolAddBoolVal(b, value)
        return kinds.Bool, schema.BoolEnd(b)
    if isinstance(value, int):
        schema.IntStart(b)
        schema.IntAddIntVal(b, value)
        return kinds.Int, schema.IntEnd(b)
    if isinstance(value, float):
        schema.DoubleStart(b)
        # minus zero compares equal to the default, and would be omitted
        b.ForceDefaults(value == 0)
        schema.DoubleAddDoubleVal(b, value)
        b.ForceDefaults(False)
        return kinds.Double, schema.DoubleEnd(b)
    if isinstance(value, str):
        text = b.CreateString(value)
        schema.StringStart(b)
        schema.StringAddStringVal(b, text)
        return kinds.String, schema.StringEnd(b)
    if isinstance(value, ListValue):
        return _list(b, value)
    return kinds.Tensor, _tensor(b, value)


def _list(b: Any, value: ListValue) -> tuple[int, int]:
    items = scalars(b, value.items, _LIST_ITEMS[value.kind])
    getattr(schema, f"{value.kind}Start")(b)
    getattr(schema, f"{value.kind}AddItems")(b, items)
    return getattr(schema.KernelTypes, value.kind), getattr(schema, f"{value.kind}End")(b)


# kind of list -> code of its items in the module `struct`
_LIST_ITEMS: Final = {
    "IntList": "q",
    "DoubleList": "d",
    "BoolList": "?",
    "TensorList": "i",
    "OptionalTensorList": "i",
}


def _tensor(b: Any, tensor: TensorValue) -> int:
    sizes = ints(b, tensor.sizes)
    dim_order = b.CreateByteVector(bytes(tensor.dim_order or range(len(tensor.sizes))))
    allocation = extra = None
    if tensor.offset is not None:
        schema.AllocationDetailsStart(b)
        schema.AllocationDetailsAddMemoryId(b, tensor.arena)
        schema.AllocationDetailsAddMemoryOffsetLow(b, tensor.offset & 0xFFFFFFFF)
        schema.AllocationDetailsAddMemoryOffsetHigh(b, tensor.offset >> 32)
        allocation = schema.AllocationDetailsEnd(b)
    if tensor.name:
        name = b.CreateString(tensor.name)
        schema.ExtraTensorInfoStart(b)
        schema.ExtraTensorInfoAddMutableDataSegmentsIdx(b, 0)
        schema.ExtraTensorInfoAddFullyQualifiedName(b, name)
        if tensor.is_external:
            schema.ExtraTensorInfoAddLocation(b, schema.TensorDataLocation.EXTERNAL)
        extra = schema.ExtraTensorInfoEnd(b)
    schema.TensorStart(b)
    schema.TensorAddScalarType(b, tensor.scalar_type)
    schema.TensorAddSizes(b, sizes)
    schema.TensorAddDimOrder(b, dim_order)
    schema.TensorAddDataBufferIdx(b, tensor.constant_index)
    if allocation is not None:
        schema.TensorAddAllocationInfo(b, allocation)
    dynamism = schema.TensorShapeDynamism
    schema.TensorAddShapeDynamism(b, dynamism.DYNAMIC_BOUND if tensor.is_dynamic else dynamism.STATIC)
    if extra is not None:
        schema.TensorAddExtraTensorInfo(b, extra)
    return int(schema.TensorEnd(b))
