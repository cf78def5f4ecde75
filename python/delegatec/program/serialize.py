# SPDX-License-Identifier: Apache-2.0
"""The FlatBuffer of a program, through the builders that flatc generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import flatbuffers
from delegatec_schemas import program as schema

from delegatec.program.emitted import (
    Delegate,
    EmittedMethod,
    EmittedProgram,
    Instruction,
    KernelCall,
    ListValue,
    TensorValue,
    Value,
)
from delegatec.program.layout import Layout

FILE_IDENTIFIER: Final = b"ET12"
_VERSION: Final = 0


def serialize(program: EmittedProgram, layout: Layout) -> bytes:
    """The FlatBuffer.

    Args:
        program: what to serialise.
        layout: where the bytes of constants and delegates are.

    Returns:
        The finished buffer, root offset first.
    """
    b = flatbuffers.Builder(64 * 1024)
    plans = _vector(b, [_plan(b, method, layout) for method in program.methods])
    segments = _vector(b, [_segment(b, offset, size) for offset, size in layout.segments])
    constants = _subsegments(b, layout.constant_segment, layout.constant_offsets)
    mutable = None
    if program.mutable_data:
        mutable = _vector(b, [_subsegments(b, layout.mutable_segment, layout.mutable_offsets)])
    schema.ProgramStart(b)
    schema.ProgramAddVersion(b, _VERSION)
    schema.ProgramAddExecutionPlan(b, plans)
    schema.ProgramAddSegments(b, segments)
    schema.ProgramAddConstantSegment(b, constants)
    if mutable is not None:
        schema.ProgramAddMutableDataSegments(b, mutable)
    b.Finish(schema.ProgramEnd(b), file_identifier=FILE_IDENTIFIER)
    return bytes(b.Output())


def _plan(b: Any, method: EmittedMethod, layout: Layout) -> int:
    name, in_spec, out_spec = (
        b.CreateString(text) for text in (method.name, method.in_spec, method.out_spec)
    )
    schema.ContainerMetadataStart(b)
    schema.ContainerMetadataAddEncodedInpStr(b, in_spec)
    schema.ContainerMetadataAddEncodedOutStr(b, out_spec)
    container = schema.ContainerMetadataEnd(b)
    values = _vector(b, [_value(b, value) for value in method.values])
    inputs, outputs = _ints(b, method.inputs), _ints(b, method.outputs)
    chains = _vector(b, [_chain(b, method.instructions)])
    operators = _vector(b, [_operator(b, *operator) for operator in method.operators])
    delegates = _vector(
        b,
        [
            _delegate(b, delegate, segment)
            for delegate, segment in zip(method.delegates, layout.delegate_segments[method.name], strict=True)
        ],
    )
    # arena 0 is reserved
    arenas = _numbers(b, [0, method.memory_plan.arena_size], 8, b.PrependInt64)
    schema.ExecutionPlanStart(b)
    schema.ExecutionPlanAddName(b, name)
    schema.ExecutionPlanAddContainerMetaType(b, container)
    schema.ExecutionPlanAddValues(b, values)
    schema.ExecutionPlanAddInputs(b, inputs)
    schema.ExecutionPlanAddOutputs(b, outputs)
    schema.ExecutionPlanAddChains(b, chains)
    schema.ExecutionPlanAddOperators(b, operators)
    schema.ExecutionPlanAddDelegates(b, delegates)
    schema.ExecutionPlanAddNonConstBufferSizes(b, arenas)
    return int(schema.ExecutionPlanEnd(b))


def _chain(b: Any, instructions: Sequence[Instruction]) -> int:
    empty = _ints(b, [])
    items = _vector(b, [_instruction(b, instruction) for instruction in instructions])
    schema.ChainStart(b)
    schema.ChainAddInputs(b, empty)
    schema.ChainAddOutputs(b, empty)
    schema.ChainAddInstructions(b, items)
    return int(schema.ChainEnd(b))


def _instruction(b: Any, instruction: Instruction) -> int:
    args = _ints(b, instruction.args)
    if isinstance(instruction, KernelCall):
        kind = schema.InstructionArguments.KernelCall
        schema.KernelCallStart(b)
        schema.KernelCallAddOpIndex(b, instruction.operator)
        schema.KernelCallAddArgs(b, args)
        call = schema.KernelCallEnd(b)
    else:
        kind = schema.InstructionArguments.DelegateCall
        schema.DelegateCallStart(b)
        schema.DelegateCallAddDelegateIndex(b, instruction.delegate)
        schema.DelegateCallAddArgs(b, args)
        call = schema.DelegateCallEnd(b)
    schema.InstructionStart(b)
    schema.InstructionAddInstrArgsType(b, kind)
    schema.InstructionAddInstrArgs(b, call)
    return int(schema.InstructionEnd(b))


def _operator(b: Any, name: str, overload: str) -> int:
    texts = b.CreateString(name), b.CreateString(overload)
    schema.OperatorStart(b)
    schema.OperatorAddName(b, texts[0])
    schema.OperatorAddOverload(b, texts[1])
    return int(schema.OperatorEnd(b))


def _delegate(b: Any, delegate: Delegate, segment: int) -> int:
    backend_id = b.CreateString(delegate.backend_id)
    specs = _vector(b, [_compile_spec(b, key, value) for key, value in delegate.compile_specs])
    schema.BackendDelegateDataReferenceStart(b)
    schema.BackendDelegateDataReferenceAddLocation(b, schema.DataLocation.SEGMENT)
    schema.BackendDelegateDataReferenceAddIndex(b, segment)
    processed = schema.BackendDelegateDataReferenceEnd(b)
    schema.BackendDelegateStart(b)
    schema.BackendDelegateAddId(b, backend_id)
    schema.BackendDelegateAddProcessed(b, processed)
    schema.BackendDelegateAddCompileSpecs(b, specs)
    return int(schema.BackendDelegateEnd(b))


def _compile_spec(b: Any, key: str, value: bytes) -> int:
    text, data = b.CreateString(key), b.CreateByteVector(value)
    schema.CompileSpecStart(b)
    schema.CompileSpecAddKey(b, text)
    schema.CompileSpecAddValue(b, data)
    return int(schema.CompileSpecEnd(b))


# ---- values ------------------------------------------------------------------------------------------------


def _value(b: Any, value: Value) -> int:
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
        # minus zero equals the default, and would be left out as if it were plus zero
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
    size, prepend_name = _LIST_ITEMS[value.kind]
    items = _numbers(b, value.items, size, getattr(b, prepend_name))
    getattr(schema, f"{value.kind}Start")(b)
    getattr(schema, f"{value.kind}AddItems")(b, items)
    return getattr(schema.KernelTypes, value.kind), getattr(schema, f"{value.kind}End")(b)


# kind of list -> size of an item in bytes, and the builder's method that writes one
_LIST_ITEMS: Final = {
    "IntList": (8, "PrependInt64"),
    "DoubleList": (8, "PrependFloat64"),
    "BoolList": (1, "PrependBool"),
    "TensorList": (4, "PrependInt32"),
    "OptionalTensorList": (4, "PrependInt32"),
}


def _tensor(b: Any, tensor: TensorValue) -> int:
    sizes = _ints(b, tensor.sizes)
    dim_order = b.CreateByteVector(bytes(range(len(tensor.sizes))))
    allocation = extra = None
    if tensor.offset is not None:
        schema.AllocationDetailsStart(b)
        schema.AllocationDetailsAddMemoryId(b, 1)
        schema.AllocationDetailsAddMemoryOffsetLow(b, tensor.offset & 0xFFFFFFFF)
        schema.AllocationDetailsAddMemoryOffsetHigh(b, tensor.offset >> 32)
        allocation = schema.AllocationDetailsEnd(b)
    if tensor.is_mutable or tensor.is_external:
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


# ---- segments ----------------------------------------------------------------------------------------------


def _segment(b: Any, offset: int, size: int) -> int:
    schema.DataSegmentStart(b)
    schema.DataSegmentAddOffset(b, offset)
    schema.DataSegmentAddSize(b, size)
    return int(schema.DataSegmentEnd(b))


def _subsegments(b: Any, segment: int, offsets: Sequence[int]) -> int:
    items = _numbers(b, offsets, 8, b.PrependUint64)
    schema.SubsegmentOffsetsStart(b)
    schema.SubsegmentOffsetsAddSegmentIndex(b, segment)
    schema.SubsegmentOffsetsAddOffsets(b, items)
    return int(schema.SubsegmentOffsetsEnd(b))


# ---- vectors -----------------------------------------------------------------------------------------------


def _vector(b: Any, offsets: Sequence[int]) -> int:
    return _numbers(b, offsets, 4, b.PrependUOffsetTRelative)


def _ints(b: Any, numbers: Sequence[int]) -> int:
    return _numbers(b, numbers, 4, b.PrependInt32)


def _numbers(b: Any, items: Sequence[Any], size: int, prepend: Callable[[Any], Any]) -> int:
    b.StartVector(size, len(items), size)
    for item in reversed(items):
        prepend(item)
    return int(b.EndVector())
