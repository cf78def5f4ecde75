# SPDX-License-Identifier: Apache-2.0
"""The FlatBuffer of a program, through the builders that flatc generated."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import flatbuffers
from delegatec_schemas import program as schema

from delegatec.delegation import Part
from delegatec.delegation.parts import pieces
from delegatec.program.emitted import (
    Delegate,
    DelegateCall,
    EmittedMethod,
    EmittedProgram,
    Instruction,
    JumpFalseCall,
    KernelCall,
    MoveCall,
)
from delegatec.program.file.flatbuffer import ints, numbers, vector
from delegatec.program.file.layout import Layout
from delegatec.program.file.serialize_value import serialize_value

FILE_IDENTIFIER: Final = b"ET12"
_VERSION: Final = 0
# What the schema asks for of blobs in the FlatBuffer.
_LEAST_ALIGNMENT: Final = 16


def serialize(program: EmittedProgram, layout: Layout) -> bytes:
    """The FlatBuffer.

    Args:
        program: what to serialise.
        layout: where the bytes of constants and delegates are.

    Returns:
        The finished buffer, root offset first.
    """
    b = flatbuffers.Builder(64 * 1024)
    locations = schema.DataLocation
    location = locations.INLINE if program.options.inline_delegates else locations.SEGMENT
    inline = None
    if layout.inline:
        inline = vector(b, [_inline_blob(b, blob, inline_alignment(program)) for blob in layout.inline])
    plans = vector(b, [_plan(b, method, layout, location) for method in program.methods])
    segments = vector(b, [_segment(b, offset, size) for offset, size in layout.segments.spans])
    constants = _subsegments(b, layout.constant_segment, layout.constant_offsets)
    mutable = None
    if program.mutable_data:
        mutable = vector(b, [_subsegments(b, layout.mutable_segment, layout.mutable_offsets)])
    named = None
    if layout.named:
        named = vector(b, [_named_data(b, key, segment) for key, segment in layout.named.items()])
    schema.ProgramStart(b)
    schema.ProgramAddVersion(b, _VERSION)
    schema.ProgramAddExecutionPlan(b, plans)
    if inline is not None:
        schema.ProgramAddBackendDelegateData(b, inline)
    schema.ProgramAddSegments(b, segments)
    schema.ProgramAddConstantSegment(b, constants)
    if mutable is not None:
        schema.ProgramAddMutableDataSegments(b, mutable)
    if named is not None:
        schema.ProgramAddNamedData(b, named)
    b.Finish(schema.ProgramEnd(b), file_identifier=FILE_IDENTIFIER)
    return bytes(b.Output())


def inline_alignment(program: EmittedProgram) -> int:
    """Bytes that everything in the FlatBuffer is aligned to at most: blobs inside of it, if there are."""
    options = program.options
    return max(_LEAST_ALIGNMENT, options.delegate_alignment if options.inline_delegates else 1)


def _inline_blob(b: Any, blob: Sequence[Part], alignment: int) -> int:
    size = sum(map(len, blob))
    b.StartVector(1, size, alignment)
    # the builder has made room for it, and fills its buffer from the end
    b.head = position = b.Head() - size
    for piece in itertools.chain.from_iterable(map(pieces, blob)):
        b.Bytes[position : position + len(piece)] = piece
        position += len(piece)
    data = b.EndVector()
    schema.BackendDelegateInlineDataStart(b)
    schema.BackendDelegateInlineDataAddData(b, data)
    return int(schema.BackendDelegateInlineDataEnd(b))


def _plan(b: Any, method: EmittedMethod, layout: Layout, location: int) -> int:
    name, in_spec, out_spec = (
        b.CreateString(text) for text in (method.name, method.in_spec, method.out_spec)
    )
    schema.ContainerMetadataStart(b)
    schema.ContainerMetadataAddEncodedInpStr(b, in_spec)
    schema.ContainerMetadataAddEncodedOutStr(b, out_spec)
    container = schema.ContainerMetadataEnd(b)
    values = vector(b, [serialize_value(b, value) for value in method.values])
    inputs, outputs = ints(b, method.inputs), ints(b, method.outputs)
    chains = vector(b, [_chain(b, method.instructions)])
    operators = vector(b, [_operator(b, *operator) for operator in method.operators])
    delegates = vector(
        b,
        [
            _delegate(b, delegate, location, index)
            for delegate, index in zip(method.delegates, layout.delegates[method.name], strict=True)
        ],
    )
    # arena 0 is reserved
    sizes = [0, method.memory_plan.arena_size, *([method.state_bytes] if method.state_bytes else [])]
    arenas = numbers(b, sizes, 8, b.PrependInt64)
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
    empty = ints(b, [])
    items = vector(b, [_instruction(b, instruction) for instruction in instructions])
    schema.ChainStart(b)
    schema.ChainAddInputs(b, empty)
    schema.ChainAddOutputs(b, empty)
    schema.ChainAddInstructions(b, items)
    return int(schema.ChainEnd(b))


def _instruction(b: Any, instruction: Instruction) -> int:
    kind, call = _call(b, instruction)
    schema.InstructionStart(b)
    schema.InstructionAddInstrArgsType(b, kind)
    schema.InstructionAddInstrArgs(b, call)
    return int(schema.InstructionEnd(b))


def _call(b: Any, instruction: Instruction) -> tuple[int, int]:
    """The member of the union of instructions, and its table."""
    kinds = schema.InstructionArguments
    match instruction:
        case KernelCall():
            args = ints(b, instruction.args)
            schema.KernelCallStart(b)
            schema.KernelCallAddOpIndex(b, instruction.operator)
            schema.KernelCallAddArgs(b, args)
            return kinds.KernelCall, schema.KernelCallEnd(b)
        case DelegateCall():
            args = ints(b, instruction.args)
            schema.DelegateCallStart(b)
            schema.DelegateCallAddDelegateIndex(b, instruction.delegate)
            schema.DelegateCallAddArgs(b, args)
            return kinds.DelegateCall, schema.DelegateCallEnd(b)
        case MoveCall():
            schema.MoveCallStart(b)
            schema.MoveCallAddMoveFrom(b, instruction.source)
            schema.MoveCallAddMoveTo(b, instruction.target)
            return kinds.MoveCall, schema.MoveCallEnd(b)
        case JumpFalseCall():
            schema.JumpFalseCallStart(b)
            schema.JumpFalseCallAddCondValueIndex(b, instruction.condition)
            schema.JumpFalseCallAddDestinationInstruction(b, instruction.destination)
            return kinds.JumpFalseCall, schema.JumpFalseCallEnd(b)


def _operator(b: Any, name: str, overload: str) -> int:
    texts = b.CreateString(name), b.CreateString(overload)
    schema.OperatorStart(b)
    schema.OperatorAddName(b, texts[0])
    schema.OperatorAddOverload(b, texts[1])
    return int(schema.OperatorEnd(b))


def _delegate(b: Any, delegate: Delegate, location: int, index: int) -> int:
    backend_id = b.CreateString(delegate.backend_id)
    specs = vector(b, [_compile_spec(b, key, value) for key, value in delegate.compile_specs])
    schema.BackendDelegateDataReferenceStart(b)
    schema.BackendDelegateDataReferenceAddLocation(b, location)
    schema.BackendDelegateDataReferenceAddIndex(b, index)
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


def _segment(b: Any, offset: int, size: int) -> int:
    schema.DataSegmentStart(b)
    schema.DataSegmentAddOffset(b, offset)
    schema.DataSegmentAddSize(b, size)
    return int(schema.DataSegmentEnd(b))


def _named_data(b: Any, key: str, segment: int) -> int:
    text = b.CreateString(key)
    schema.NamedDataStart(b)
    schema.NamedDataAddKey(b, text)
    schema.NamedDataAddSegmentIndex(b, segment)
    return int(schema.NamedDataEnd(b))


def _subsegments(b: Any, segment: int, offsets: Sequence[int]) -> int:
    items = numbers(b, offsets, 8, b.PrependUint64)
    schema.SubsegmentOffsetsStart(b)
    schema.SubsegmentOffsetsAddSegmentIndex(b, segment)
    schema.SubsegmentOffsetsAddOffsets(b, items)
    return int(schema.SubsegmentOffsetsEnd(b))
