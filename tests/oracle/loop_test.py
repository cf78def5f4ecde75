# SPDX-License-Identifier: Apache-2.0
"""A loop, made by hand: jumps back, scalars that change, a tensor that is rewritten."""

from __future__ import annotations

from typing import Any

import flatbuffers
import pytest
import torch
from delegatec_schemas import program as schema

from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter
from tests.oracle.oracle import OracleProgram


def _value(name: str, **fields: Any) -> Any:
    value = getattr(schema, f"{name}T")()
    for field, content in fields.items():
        setattr(value, field, content)
    evalue = schema.EValueT()
    evalue.valType, evalue.val = getattr(schema.KernelTypes, name), value
    return evalue


def _planned(offset: int) -> Any:
    allocation = schema.AllocationDetailsT()
    allocation.memoryId, allocation.memoryOffsetLow = 1, offset
    fields = {
        "scalarType": schema.ScalarType.FLOAT,
        "sizes": [3],
        "dimOrder": [0],
        "allocationInfo": allocation,
    }
    return _value("Tensor", **fields)


def _instruction(name: str, **fields: Any) -> Any:
    call = getattr(schema, f"{name}T")()
    for field, content in fields.items():
        setattr(call, field, content)
    instruction = schema.InstructionT()
    instruction.instrArgsType, instruction.instrArgs = getattr(schema.InstructionArguments, name), call
    return instruction


def _program(limit: int) -> bytes:
    """y = x; for i in range(limit): y = y + x; with a copy into the operand of the next iteration."""
    names = ["aten::add.out", "executorch_prim::add.Scalar", "executorch_prim::ge.Scalar", "aten::copy_"]
    x, y, fresh, one, i, limit_, done, false, zero = range(9)
    values = [_planned(0), _planned(16), _planned(32)]
    values += [_value("Int", intVal=1), _value("Int", intVal=0), _value("Int", intVal=limit)]
    values += [_value("Bool", boolVal=False), _value("Bool", boolVal=False), _value("Int", intVal=0)]
    chain = schema.ChainT()
    chain.inputs, chain.outputs = [], []
    chain.instructions = [
        _instruction("KernelCall", opIndex=3, args=[y, x, false, y]),
        _instruction("MoveCall", moveFrom=zero, moveTo=i),
        _instruction("KernelCall", opIndex=0, args=[y, x, one, fresh, fresh]),
        _instruction("KernelCall", opIndex=3, args=[y, fresh, false, y]),
        _instruction("KernelCall", opIndex=1, args=[i, one, i]),
        _instruction("KernelCall", opIndex=2, args=[i, limit_, done]),
        _instruction("JumpFalseCall", condValueIndex=done, destinationInstruction=2),
    ]
    plan = schema.ExecutionPlanT()
    plan.name, plan.values, plan.inputs, plan.outputs = "forward", values, [x], [y]
    plan.chains, plan.delegates, plan.nonConstBufferSizes = [chain], [], [0, 48]
    plan.operators = []
    for name in names:
        operator = schema.OperatorT()
        operator.name, _, operator.overload = name.partition(".")
        plan.operators.append(operator)
    meta = schema.ContainerMetadataT()
    meta.encodedInpStr = meta.encodedOutStr = ""
    plan.containerMetaType = meta
    constants = schema.SubsegmentOffsetsT()
    constants.segmentIndex, constants.offsets = 0, [0]
    program = schema.ProgramT()
    program.executionPlan, program.segments, program.constantSegment = [plan], [], constants
    builder = flatbuffers.Builder()
    builder.Finish(program.Pack(builder), b"ET12")
    return bytes(builder.Output())


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_loops_end_when_the_runtime_ends_them(limit: int) -> None:
    pte = _program(limit)
    x = torch.tensor([1.0, -2.0, 0.5])
    runtime, interpreter = OracleProgram(pte), Interpreter(parse_program(pte).methods[0])
    for _ in range(2):
        (expected,) = runtime.run([x])
        (actual,) = interpreter.run([x])
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(actual, (1 + limit) * x)
