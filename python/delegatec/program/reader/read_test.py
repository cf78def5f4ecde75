# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from delegatec_schemas import program as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from delegatec.diagnostics import DelegatecError
from delegatec.program.reader import parse_program, read_program
from delegatec.program.reader.model import Allocation, Dynamism, IntList, KernelCall, Tensor, TensorList

# The program is made by the generated object API and by struct, not by our writer: a mistake that writer and
# reader share would not show otherwise.
CONSTANTS = struct.pack("<4f", 1.0, 2.0, 3.0, 4.0)


def _value(name: str, **fields: Any) -> Any:
    value = getattr(schema, f"{name}T")()
    for field, content in fields.items():
        setattr(value, field, content)
    evalue = schema.EValueT()
    evalue.valType, evalue.val = getattr(schema.KernelTypes, name), value
    return evalue


def _tensor(sizes: list[int], data: int = 0, location: tuple[int, int] | None = None, **fields: Any) -> Any:
    allocation = None
    if location is not None:
        allocation = schema.AllocationDetailsT()
        allocation.memoryId, allocation.memoryOffsetLow = location
    return _value(
        "Tensor",
        **{
            "scalarType": schema.ScalarType.FLOAT,
            "sizes": sizes,
            "dimOrder": list(range(len(sizes))),
            "dataBufferIdx": data,
            "allocationInfo": allocation,
            **fields,
        },
    )


def _program() -> Any:
    operator = schema.OperatorT()
    operator.name, operator.overload = "aten::add", "out"
    call = schema.KernelCallT()
    call.opIndex, call.args = 0, [0, 1, 3, 2, 2]
    instruction = schema.InstructionT()
    instruction.instrArgsType, instruction.instrArgs = schema.InstructionArguments.KernelCall, call
    chain = schema.ChainT()
    chain.instructions, chain.inputs, chain.outputs = [instruction], [], []
    plan = schema.ExecutionPlanT()
    plan.name = "forward"
    plan.values = [
        _tensor([2, 2], location=(1, 0)),
        _tensor([2, 2], data=1),
        _tensor([2, 2], location=(1, 16)),
        _value("Int", intVal=-7),
        _value("IntList", items=[3, 3]),
        _value("OptionalTensorList", items=[0, -1]),
        _value("Double", doubleVal=0.5),
        _value("Bool", boolVal=True),
        _value("String", stringVal="gelu"),
        _value("Null"),
        _value("BoolList", items=[True, False]),
        _value("DoubleList", items=[0.25]),
    ]
    plan.inputs, plan.outputs = [0], [2]
    plan.chains, plan.operators, plan.delegates = [chain], [operator], []
    plan.nonConstBufferSizes = [0, 32]
    segment = schema.DataSegmentT()
    segment.offset, segment.size = 0, len(CONSTANTS)
    constants = schema.SubsegmentOffsetsT()
    constants.segmentIndex, constants.offsets = 0, [0, 0]
    program = schema.ProgramT()
    program.executionPlan, program.segments, program.constantSegment = [plan], [segment], constants
    return program


def _bytes(program: Any) -> bytes:
    builder = flatbuffers.Builder()
    builder.Finish(program.Pack(builder), b"ET12")
    flatbuffer = bytes(builder.Output())
    size = len(flatbuffer) + 32
    base = -(-size // 128) * 128
    header = struct.pack("<4sIQQQ", b"eh00", 32, size, base, len(CONSTANTS))
    (root,) = struct.unpack_from("<I", flatbuffer)
    head = struct.pack("<I", root + 32) + flatbuffer[4:8] + header
    return (head + flatbuffer[8:]).ljust(base, b"\0") + CONSTANTS


GOOD = _bytes(_program())


def test_reads_every_kind_of_value() -> None:
    program = parse_program(GOOD)
    method = program.method("forward")
    assert method.operators == ("aten::add.out",)
    assert method.chains[0].instructions == (KernelCall(0, (0, 1, 3, 2, 2)),)
    assert method.arena_bytes == (0, 32)
    planned, constant = method.tensor(0), method.tensor(1)
    assert planned.allocation == Allocation(1, 0) and planned.data is None
    assert constant.is_constant and bytes(constant.data or b"") == CONSTANTS
    assert (constant.strides, constant.dynamism) == ((2, 1), Dynamism.STATIC)
    assert method.values[3:10] == (
        -7,
        IntList((3, 3)),
        TensorList((0, None), optional=True),
        0.5,
        True,
        "gelu",
        None,
    )
    assert [list(value.items) for value in method.values[10:]] == [[True, False], [0.25]]  # type: ignore[union-attr]
    assert [(segment.use, bytes(segment.data)) for segment in program.segments] == [("constants", CONSTANTS)]


def test_reads_files(tmp_path: Path) -> None:
    path = tmp_path / "program.pte"
    path.write_bytes(GOOD)
    constant = read_program(path).methods[0].values[1]
    assert isinstance(constant, Tensor) and bytes(constant.data or b"") == CONSTANTS


def _code(data: bytes) -> str:
    with pytest.raises(DelegatecError) as caught:
        parse_program(data)
    (code,) = {diagnostic.code for diagnostic in caught.value.diagnostics}
    return code


@pytest.mark.parametrize("data", [b"", b"ET12", b"PK\3\4" * 8, b"\0\0\0\0et12" + b"\0" * 64])
def test_other_files_are_rejected(data: bytes) -> None:
    assert _code(data) == "DC350"


def test_an_empty_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "empty.pte"
    path.write_bytes(b"")
    with pytest.raises(DelegatecError, match="DC350"):
        read_program(path)


@pytest.mark.parametrize("length", [30, 200, len(GOOD) - 1])
def test_a_file_that_was_cut_off(length: int) -> None:
    assert _code(GOOD[:length]) == "DC351"


def _plan(program: Any) -> Any:
    return program.executionPlan[0]


def _arena(location: tuple[int, int]) -> Callable[[Any], None]:
    return lambda program: _plan(program).values.append(_tensor([2], location=location))


DAMAGE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "another version": ("DC354", lambda p: setattr(p, "version", 1)),
    "no method": ("DC353", lambda p: setattr(p, "executionPlan", [])),
    "two methods of a name": ("DC353", lambda p: p.executionPlan.append(copy.deepcopy(_plan(p)))),
    "no chain": ("DC353", lambda p: setattr(_plan(p), "chains", [])),
    "input out of range": ("DC353", lambda p: setattr(_plan(p), "inputs", [12])),
    "negative output": ("DC353", lambda p: setattr(_plan(p), "outputs", [-1])),
    "operator out of range": ("DC353", lambda p: setattr(_plan(p), "operators", [])),
    "list item out of range": ("DC353", lambda p: _plan(p).values.append(_value("IntList", items=[99]))),
    "list item of another type": ("DC353", lambda p: _plan(p).values.append(_value("TensorList", items=[3]))),
    "sizes overflow": ("DC352", lambda p: _plan(p).values.append(_tensor([2**31 - 1] * 3))),
    "negative sizes": ("DC352", lambda p: _plan(p).values.append(_tensor([-2, -2]))),
    "order of dimensions": ("DC352", lambda p: _plan(p).values.append(_tensor([2, 2], dimOrder=[0, 0]))),
    "scalar type": ("DC352", lambda p: _plan(p).values.append(_tensor([2], scalarType=99))),
    "constant out of range": ("DC352", lambda p: _plan(p).values.append(_tensor([2], data=2))),
    "constant after its segment": ("DC352", lambda p: _plan(p).values.append(_tensor([5], data=1))),
    "initial state without data": (
        "DC352",
        lambda p: _plan(p).values.append(_tensor([2], data=1, location=(1, 0))),
    ),
    "arena out of range": ("DC352", _arena((2, 0))),
    "reserved arena": ("DC352", _arena((0, 0))),
    "after the arena": ("DC352", _arena((1, 28))),
    "segment after the file": ("DC352", lambda p: setattr(p.segments[0], "size", 17)),
    "segment out of range": ("DC352", lambda p: setattr(p, "segments", [])),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_has_a_code(name: str) -> None:
    code, damage = DAMAGE[name]
    program = _program()
    damage(program)
    assert _code(_bytes(program)) == code


def _many_arenas(program: Any) -> None:
    _plan(program).nonConstBufferSizes = [-1] * 9000


@pytest.mark.parametrize(
    "damage",
    [
        _many_arenas,
        lambda p: _plan(p).values.append(_tensor([-1] * 9000, dimOrder=[0])),
        lambda p: _plan(p).values.append(_tensor([2], dimOrder=[9] * 9000)),
    ],
)
def test_messages_are_short(damage: Callable[[Any], None]) -> None:
    program = _program()
    damage(program)
    with pytest.raises(DelegatecError) as caught:
        parse_program(_bytes(program))
    assert len(str(caught.value)) < 500


def test_problems_are_reported_together() -> None:
    program = _program()
    _plan(program).inputs, _plan(program).outputs = [50], [51]
    with pytest.raises(DelegatecError) as caught:
        parse_program(_bytes(program))
    assert len(caught.value.diagnostics) == 2


def test_shared_tables_do_not_unfold() -> None:
    # one value, pointed at from a vector that claims to have two thousand million entries
    data = bytearray(GOOD)
    plan = schema.Program.GetRootAs(data, 0).ExecutionPlan(0)
    field = plan._tab.Offset(8)  # slot of `values`
    vector = plan._tab.Vector(field) - 4
    struct.pack_into("<I", data, vector, 2**31)
    assert _code(bytes(data)) == "DC352"


@settings(max_examples=1500, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(GOOD) - 17), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4
    )
)
def test_any_damage_is_a_diagnostic(patches: list[tuple[int, bytes]]) -> None:
    data = bytearray(GOOD)
    for position, patch in patches:
        data[position : position + len(patch)] = patch
    try:
        program = parse_program(bytes(data))
    except DelegatecError as error:
        assert all(diagnostic.code.startswith("DC35") for diagnostic in error.diagnostics)
    else:
        for method in program.methods:
            for value in method.values:
                if isinstance(value, Tensor) and value.data is not None:
                    assert len(value.data) == value.nbytes
